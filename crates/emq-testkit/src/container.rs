//! A server in a container, for machines that have a Docker engine but no server binary.
//!
//! The engine is spoken to on a thread of its own with its own runtime, so that a caller may be
//! inside a runtime or have none.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use testcontainers::core::{ContainerPort, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};

use crate::address::Address;
use crate::config::{Layout, Settings, render};
use crate::{AdminError, StartError, resp};

/// Used when `EMQ_VALKEY_IMAGE` names no other.
const PUBLIC_IMAGE: &str = "valkey/valkey:9.1";
/// The port inside the container.
const INSIDE: u16 = 6379;
const CONFIG: &str = "/emq-valkey.conf";
const READY: &str = "Ready to accept connections";
/// Bounds a start, the download of the image included.
const READY_WITHIN: Duration = Duration::from_secs(300);
/// How long the server may take to shut down before it is killed, in seconds.
const DOWN_WITHIN_S: i32 = 10;
/// Removes the container when its owner is gone, however that came.
const WATCHDOG: &str = "while read -r _; do :; done; docker rm -f -v \"$1\"";

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A container, through the thread that speaks to the engine.
pub(crate) struct Container {
    orders: Option<SyncSender<(Order, SyncSender<Answer>)>>,
    thread: Option<JoinHandle<Result<(), Cause>>>,
    watchdog: Option<Child>,
}

#[derive(Clone, Copy)]
enum Order {
    Kill,
    ShutDown,
    Start,
    Pause,
    Resume,
    Log,
}

type Answer = Result<String, Cause>;

impl Container {
    /// Starts a container whose server is reached at `port` of the returned host.
    pub(crate) fn start(settings: &Settings, port: u16) -> Result<(Self, String), StartError> {
        let failed = |source| StartError::Container { doing: "start a server", source };
        let layout = Layout { bind: "* -::*", port: INSIDE, unix_socket: None, dir: None };
        let request = request(render(settings, &layout), port);
        let (orders, inbox) = sync_channel(1);
        let (started, first) = channel();
        let thread = std::thread::Builder::new()
            .name("emq-container".to_owned())
            .spawn(move || serve(request, &started, &inbox))
            .map_err(|error| failed(error.into()))?;
        let mut container = Self { orders: Some(orders), thread: Some(thread), watchdog: None };
        // The thread sends only when the server is up; otherwise its result says why not.
        let Ok((id, host)) = first.recv() else {
            let gone = || io::Error::from(io::ErrorKind::BrokenPipe).into();
            return Err(failed(container.end().err().unwrap_or_else(gone)));
        };
        container.watchdog = watchdog(&id);
        Ok((container, host))
    }

    pub(crate) fn kill(&mut self) -> Result<(), AdminError> {
        self.order(Order::Kill, "kill the server").map(drop)
    }

    pub(crate) fn pause(&mut self) -> Result<(), AdminError> {
        self.order(Order::Pause, "pause the server").map(drop)
    }

    pub(crate) fn resume(&mut self) -> Result<(), AdminError> {
        self.order(Order::Resume, "resume the server").map(drop)
    }

    pub(crate) fn shut_down(&mut self) -> Result<(), StartError> {
        let doing = "shut the server down";
        self.tell(Order::ShutDown)
            .map(drop)
            .map_err(|source| StartError::Container { doing, source })
    }

    pub(crate) fn start_again(&mut self, address: &Address) -> Result<(), StartError> {
        if resp::answers(address) {
            return Err(StartError::Running);
        }
        let doing = "start the server again";
        self.tell(Order::Start).map_err(|source| StartError::Container { doing, source })?;
        let deadline = Instant::now() + READY_WITHIN;
        while !resp::answers(address) {
            if Instant::now() > deadline {
                return Err(StartError::NotReady {
                    seconds: READY_WITHIN.as_secs(),
                    log: self.log(),
                });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    pub(crate) fn log(&self) -> String {
        self.tell(Order::Log).unwrap_or_default()
    }

    /// Removes the container.
    pub(crate) fn finish(&mut self) -> Result<(), AdminError> {
        let removed = self.end();
        if let Some(mut watchdog) = self.watchdog.take() {
            drop(watchdog.stdin.take());
            let _ = watchdog.wait(); // It finds the container removed already.
        }
        let doing = "remove the container";
        removed.map_err(|source| AdminError::Container { doing, source })
    }

    fn end(&mut self) -> Result<(), Cause> {
        self.orders = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err("the thread that speaks to the engine panicked".into()),
        }
    }

    fn order(&self, order: Order, doing: &'static str) -> Result<String, AdminError> {
        self.tell(order).map_err(|source| AdminError::Container { doing, source })
    }

    fn tell(&self, order: Order) -> Answer {
        let gone = || Cause::from(io::Error::from(io::ErrorKind::BrokenPipe));
        let (answer, reply) = sync_channel(1);
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send((order, answer)).map_err(|_| gone())?;
        reply.recv().map_err(|_| gone())?
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

fn request(config: String, port: u16) -> ContainerRequest<GenericImage> {
    let image = std::env::var("EMQ_VALKEY_IMAGE").ok().filter(|image| !image.is_empty());
    let image = image.unwrap_or_else(|| PUBLIC_IMAGE.to_owned());
    // A colon after the last slash starts the tag; one before it is a port's.
    let (name, tag) = match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image.as_str(), "latest"),
    };
    GenericImage::new(name, tag)
        .with_exposed_port(ContainerPort::Tcp(INSIDE))
        .with_wait_for(WaitFor::message_on_stdout(READY))
        .with_cmd(["valkey-server", CONFIG])
        .with_copy_to(CONFIG, config.into_bytes())
        .with_mapped_port(port, ContainerPort::Tcp(INSIDE))
        .with_startup_timeout(READY_WITHIN)
        .with_host_config_modifier(|host| {
            // A server without a password is nobody else's business.
            let bindings = host.port_bindings.iter_mut().flat_map(|ports| ports.values_mut());
            for binding in bindings.flatten().flatten().filter(|_| engine_is_local()) {
                binding.host_ip = Some("127.0.0.1".to_owned());
            }
        })
}

fn engine_is_local() -> bool {
    std::env::var("DOCKER_HOST").map_or(true, |host| host.is_empty() || host.starts_with("unix:"))
}

/// The thread: starts the container, carries out orders until the sender is dropped, removes it.
fn serve(
    request: ContainerRequest<GenericImage>,
    started: &std::sync::mpsc::Sender<(String, String)>,
    inbox: &Receiver<(Order, SyncSender<Answer>)>,
) -> Result<(), Cause> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let container = runtime.block_on(request.start())?;
    let host = if engine_is_local() {
        "127.0.0.1".to_owned()
    } else {
        runtime.block_on(container.get_host())?.to_string()
    };
    if started.send((container.id().to_owned(), host)).is_ok() {
        while let Ok((order, answer)) = inbox.recv() {
            let _ = answer.send(runtime.block_on(carry_out(order, &container)));
        }
    }
    runtime.block_on(container.rm())?;
    Ok(())
}

async fn carry_out(order: Order, container: &ContainerAsync<GenericImage>) -> Answer {
    match order {
        Order::Kill => container.stop_with_timeout(Some(0)).await?,
        Order::ShutDown => {
            // A paused container can't take a signal; one that isn't paused refuses to resume.
            let _ = container.unpause().await;
            container.stop_with_timeout(Some(DOWN_WITHIN_S)).await?;
        }
        Order::Start => container.start().await?,
        Order::Pause => container.pause().await?,
        Order::Resume => container.unpause().await?,
        Order::Log => {
            return Ok(String::from_utf8_lossy(&container.stdout_to_vec().await?).into_owned());
        }
    }
    Ok(String::new())
}

/// Needs the engine's own command; without it a container outlives an owner that is killed.
fn watchdog(id: &str) -> Option<Child> {
    Command::new("/bin/sh")
        .args(["-c", WATCHDOG, "emq-watchdog", id])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}
