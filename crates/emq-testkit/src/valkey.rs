//! The handle of a running server.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::address::{Address, Place};
use crate::builder::{Builder, Tcp};
use crate::config::{LOG, Layout, render};
#[cfg(feature = "containers")]
use crate::container::Container;
use crate::port::Port;
use crate::process::{Process, Program, Started};
use crate::{AdminError, StartError, find, resp};

/// What a server writes to its log once it listens and its data is loaded.
const READY: &str = "Ready to accept connections";
/// How often a start is tried with another port when the first was lost to another program.
const PORT_TRIES: usize = 20;
/// How long a restart waits for its port, should another program have taken it meanwhile.
const PORT_BACK_WITHIN: Duration = Duration::from_secs(10);

/// A real Valkey server, which ends when this value is dropped or its process dies.
///
/// All methods take `&self` and block; a start takes some tens of milliseconds.
#[derive(Debug)]
pub struct Valkey {
    ground: Mutex<Ground>,
    address: Address,
    unix_socket: Option<PathBuf>,
    _port: Option<Port>,
}

enum Ground {
    Process(Box<Process>),
    #[cfg(feature = "containers")]
    Container(Box<Container>),
    Shared,
}

impl std::fmt::Debug for Ground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Process(_) => "Process",
            #[cfg(feature = "containers")]
            Self::Container(_) => "Container",
            Self::Shared => "Shared",
        })
    }
}

impl Valkey {
    /// Starts a volatile server of one's own on a free port.
    ///
    /// # Errors
    /// [`StartError::NotFound`] when the machine has no server, with what to do about it.
    pub fn start() -> Result<Self, StartError> {
        Self::builder().start()
    }

    /// A server with settings.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The server that `EMQ_VALKEY_URL` names, else one of one's own.
    ///
    /// For callers that can share a server with others: they use queues of their own and neither
    /// plant versions nor restart, kill or fill the server. On a shared server [`Valkey::kill9`]
    /// and its like answer [`AdminError::Shared`].
    ///
    /// # Errors
    /// As [`Valkey::start`]; and [`StartError::BadUrl`] or [`StartError::NoAnswer`] when
    /// `EMQ_VALKEY_URL` is set but of no use.
    pub fn start_or_shared() -> Result<Self, StartError> {
        let Some(url) = env::var("EMQ_VALKEY_URL").ok().filter(|url| !url.is_empty()) else {
            return Self::start();
        };
        let address = Address::parse(&url).map_err(|reason| StartError::BadUrl { reason })?;
        resp::call(&address, &[b"PING"]).map_err(StartError::NoAnswer)?;
        tally("shared");
        let unix_socket = match &address.place {
            Place::Unix(path) => Some(path.clone()),
            Place::Tcp { .. } => None,
        };
        Ok(Self { ground: Mutex::new(Ground::Shared), address, unix_socket, _port: None })
    }

    /// One server for the whole process, started by the first who asks: as
    /// [`Valkey::start_or_shared`], for tests that can share it. It ends with the process.
    ///
    /// # Panics
    /// When no server can be started; the message says what to do.
    #[must_use]
    pub fn of_this_process() -> &'static Self {
        static ONE: OnceLock<Valkey> = OnceLock::new();
        ONE.get_or_init(|| match Self::start_or_shared() {
            Ok(valkey) => valkey,
            Err(error) => panic!("{error}"),
        })
    }

    /// Starts a server in a container, whether or not the machine has a server binary.
    ///
    /// The image is `EMQ_VALKEY_IMAGE`, else a public Valkey image.
    ///
    /// # Errors
    /// [`StartError::Container`] when no engine answers or it hasn't got the image.
    #[cfg(feature = "containers")]
    pub fn in_container() -> Result<Self, StartError> {
        Self::launch_in_container(&Self::builder())
    }

    pub(crate) fn launch(builder: &Builder) -> Result<Self, StartError> {
        match find::server_binary() {
            Ok(server) => Self::launch_process(builder, &server),
            #[cfg(feature = "containers")]
            Err(StartError::NotFound) => Self::launch_in_container(builder),
            Err(error) => Err(error),
        }
    }

    fn launch_process(builder: &Builder, server: &Path) -> Result<Self, StartError> {
        let dir = tempfile::Builder::new()
            .prefix("emq-valkey-")
            .tempdir()
            .map_err(StartError::io("create a temporary directory"))?;
        let path = dir.path().to_path_buf();
        let unix_socket = builder.unix_socket.then(|| path.join("valkey.sock"));
        let config = path.join("valkey.conf");
        let program = Program {
            command: vec![server.into(), config.clone().into()],
            log: LOG,
            farewell: "KILL",
            user: None,
        };
        let mut process = Process::new(dir, &program)?;
        for _ in 0..PORT_TRIES {
            let port = match (builder.tcp, builder.port) {
                (Tcp::Off, _) => None,
                (Tcp::On, None) => Some(Port::any()?),
                (Tcp::On, Some(number)) => Some(Port::exactly(number)?),
            };
            let number = port.as_ref().map_or(0, |port| port.number);
            let layout = Layout {
                bind: "127.0.0.1",
                port: number,
                unix_socket: unix_socket.as_deref(),
                dir: Some(&path),
            };
            fs::write(&config, render(&builder.settings, &layout))
                .map_err(StartError::io("write the server's configuration"))?;
            let place = match &unix_socket {
                Some(path) if number == 0 => Place::Unix(path.clone()),
                _ => Place::Tcp { host: layout.bind.to_owned(), port: number },
            };
            let address = Address::new(place, builder.settings.requirepass.clone());
            if matches!(process.start(ready(&address))?, Started::Ready) {
                tally("own");
                let ground = Mutex::new(Ground::Process(Box::new(process)));
                return Ok(Self { ground, address, unix_socket, _port: port });
            }
        }
        Err(StartError::NoPort { detail: format!("lost {PORT_TRIES} to other programs") })
    }

    #[cfg(feature = "containers")]
    fn launch_in_container(builder: &Builder) -> Result<Self, StartError> {
        let port = builder.port.map_or_else(Port::any, Port::exactly)?;
        let (container, host) = Container::start(&builder.settings, port.number)?;
        let place = Place::Tcp { host, port: port.number };
        let address = Address::new(place, builder.settings.requirepass.clone());
        tally("container");
        let ground = Mutex::new(Ground::Container(Box::new(container)));
        Ok(Self { ground, address, unix_socket: None, _port: Some(port) })
    }

    /// The URL, with the default user's password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        self.address.url()
    }

    /// The URL for another user: see [`Builder::acl_user`].
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let (user, password) = (Some(user.to_owned()), Some(password.to_owned()));
        Address { user, password, ..self.address.clone() }.url()
    }

    /// The URL of the unix socket, if the server listens on one.
    #[must_use]
    pub fn unix_url(&self) -> Option<String> {
        let place = Place::Unix(self.unix_socket.clone()?);
        Some(Address { place, ..self.address.clone() }.url())
    }

    /// The TCP port; 0 when there is none.
    #[must_use]
    pub fn port(&self) -> u16 {
        match &self.address.place {
            Place::Tcp { port, .. } => *port,
            Place::Unix(_) => 0,
        }
    }

    /// The server's process id; `None` when it doesn't run as a process of ours.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        match &*self.ground() {
            Ground::Process(process) => process.pid(),
            #[cfg(feature = "containers")]
            Ground::Container(_) => None,
            Ground::Shared => None,
        }
    }

    /// Whether this is the server of `EMQ_VALKEY_URL`.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(*self.ground(), Ground::Shared)
    }

    /// The engine's version, such as `9.1.2`, as the server says it.
    ///
    /// # Errors
    /// [`AdminError`] when the server doesn't answer.
    pub fn version(&self) -> Result<String, AdminError> {
        let info = self.cli(&["INFO", "server"])?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let version = field("valkey_version:").or_else(|| field("redis_version:"));
        version.map(|version| version.trim().to_owned()).ok_or(AdminError::NotAReply)
    }

    /// Sends one command on a connection of its own and answers the reply as text: the items of an
    /// array one a line, a missing value as `(nil)`.
    ///
    /// # Errors
    /// [`AdminError::Refused`] with the server's text when it answers an error.
    pub fn cli<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<String, AdminError> {
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        resp::call(&self.address, &args)
    }

    /// Kills the server as a crash would (`SIGKILL`); it is gone when this returns. Nothing happens
    /// when it doesn't run.
    ///
    /// # Errors
    /// [`AdminError::Shared`] for a server that isn't ours.
    pub fn kill9(&self) -> Result<(), AdminError> {
        match &mut *self.ground() {
            Ground::Process(process) => process.kill().map_err(AdminError::Watchdog),
            #[cfg(feature = "containers")]
            Ground::Container(container) => container.kill(),
            Ground::Shared => Err(AdminError::Shared),
        }
    }

    /// Starts the server again after [`Valkey::kill9`], with the same port and the same files.
    ///
    /// # Errors
    /// [`StartError::Running`] when it still runs.
    pub fn start_again(&self) -> Result<(), StartError> {
        self.start_in(&mut self.ground())
    }

    /// Ends the server as an operator would (`SIGTERM`) and starts it again, with the same port and
    /// the same files. A server that doesn't run is just started.
    ///
    /// # Errors
    /// As [`Valkey::start_again`].
    pub fn restart(&self) -> Result<(), StartError> {
        let mut ground = self.ground();
        match &mut *ground {
            Ground::Process(process) => {
                process.shut_down().map_err(StartError::io("talk to the watchdog"))?;
            }
            #[cfg(feature = "containers")]
            Ground::Container(container) => container.shut_down()?,
            Ground::Shared => return Err(StartError::Shared),
        }
        self.start_in(&mut ground)
    }

    fn start_in(&self, ground: &mut Ground) -> Result<(), StartError> {
        let process = match ground {
            Ground::Process(process) => process,
            #[cfg(feature = "containers")]
            Ground::Container(container) => return container.start_again(&self.address),
            Ground::Shared => return Err(StartError::Shared),
        };
        let deadline = Instant::now() + PORT_BACK_WITHIN;
        loop {
            match process.start(ready(&self.address))? {
                Started::Ready => return Ok(()),
                Started::PortLost if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                Started::PortLost => {
                    let detail = format!("{} was taken by another program", self.port());
                    return Err(StartError::NoPort { detail });
                }
            }
        }
    }

    /// Stops the server's process without ending it (`SIGSTOP`): connections stay open and nothing
    /// is answered until [`Valkey::resume`].
    ///
    /// # Errors
    /// [`AdminError::NotRunning`] when it doesn't run.
    pub fn pause(&self) -> Result<(), AdminError> {
        match &mut *self.ground() {
            Ground::Process(process) if process.pid().is_none() => Err(AdminError::NotRunning),
            Ground::Process(process) => process.pause().map_err(AdminError::Watchdog),
            #[cfg(feature = "containers")]
            Ground::Container(container) => container.pause(),
            Ground::Shared => Err(AdminError::Shared),
        }
    }

    /// Lets a paused server go on (`SIGCONT`).
    ///
    /// # Errors
    /// [`AdminError::NotRunning`] when it doesn't run.
    pub fn resume(&self) -> Result<(), AdminError> {
        match &mut *self.ground() {
            Ground::Process(process) if process.pid().is_none() => Err(AdminError::NotRunning),
            Ground::Process(process) => process.resume().map_err(AdminError::Watchdog),
            #[cfg(feature = "containers")]
            Ground::Container(container) => container.resume(),
            Ground::Shared => Err(AdminError::Shared),
        }
    }

    /// Everything that the server wrote to its log; empty for a shared one.
    #[must_use]
    pub fn log(&self) -> String {
        match &*self.ground() {
            Ground::Process(process) => process.log(),
            #[cfg(feature = "containers")]
            Ground::Container(container) => container.log(),
            Ground::Shared => String::new(),
        }
    }

    /// Ends the server and removes its files, as a drop does, and says whether that went well.
    ///
    /// # Errors
    /// [`AdminError::Watchdog`] when the watchdog can't be waited for.
    pub fn stop(self) -> Result<(), AdminError> {
        match &mut *self.ground() {
            Ground::Process(process) => process.finish().map_err(AdminError::Watchdog),
            #[cfg(feature = "containers")]
            Ground::Container(container) => container.finish(),
            Ground::Shared => Ok(()),
        }
    }

    /// A test that panicked while it held the lock leaves nothing half-done in it.
    fn ground(&self) -> MutexGuard<'_, Ground> {
        self.ground.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ready means: our own server said so in its log, and answers. The log is asked first because on a
/// port that was lost to another server, that one would answer.
fn ready(address: &Address) -> impl Fn(u32, &str) -> bool {
    move |_, log| log.contains(READY) && resp::answers(address)
}

/// Notes where a server came from, for the line that `cargo xtask test` prints at its end.
pub(crate) fn tally(kind: &str) {
    if let Some(file) = env::var_os("EMQ_TESTKIT_TALLY") {
        // One short append is whole even among many processes; a lost note costs a count, no test.
        let file = OpenOptions::new().append(true).open(file);
        let _ = file.and_then(|mut file| file.write_all(format!("{kind}\n").as_bytes()));
    }
}
