//! The bus behind the site, which may come later than the site does, and go meanwhile.

use std::sync::Arc;
use std::time::Duration;

use emq_core::{Bus, BusBuilder, Error};
use tokio::sync::{mpsc, watch};

use crate::connect::Globals;
use crate::exit::{Failure, chain};

/// How long one try to connect may take.
const TRY_TAKES: Duration = Duration::from_secs(10);
/// How long it waits between tries.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_millis(500);
/// How long the server may take to show that it is there.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The bus as soon as there is one.
#[derive(Clone)]
pub(super) struct Link {
    bus: watch::Receiver<Option<Bus>>,
    /// Why the last try failed.
    why: Arc<watch::Sender<String>>,
    broken: mpsc::Sender<Failure>,
}

impl Link {
    /// Connects, and tries again while the server is out of reach. What no later try can change
    /// comes out of the receiver.
    pub(super) fn start(globals: &Globals) -> Result<(Link, mpsc::Receiver<Failure>), Failure> {
        let builder = Bus::builder(globals.url()?)?.allow_compatible(globals.allow_compatible);
        let (found, bus) = watch::channel(None);
        let (broken, broke) = mpsc::channel(1);
        let why = Arc::new(watch::Sender::new("connecting".to_owned()));
        let link = Link { bus, why, broken };
        tokio::spawn(connect(builder, found, link.clone()));
        Ok((link, broke))
    }

    /// The bus; else why there is none.
    pub(super) fn bus(&self) -> Result<Bus, String> {
        self.bus.borrow().clone().ok_or_else(|| self.why.borrow().clone())
    }

    /// Waits for the bus.
    pub(super) async fn connected(&mut self) -> Option<Bus> {
        self.bus.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Whether the fence was passed and the server answers now; else why not.
    pub(super) async fn ready(&self) -> Result<(), String> {
        let bus = self.bus()?;
        match tokio::time::timeout(ANSWER_WITHIN, bus.server_time()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(self.note(error)),
            Err(_) => Err("the server doesn't answer".to_owned()),
        }
    }

    /// Takes note of an error, and answers it in words. One that every later call would repeat ends
    /// the program.
    pub(super) fn note(&self, error: Error) -> String {
        let line = chain(&error);
        let is_final = matches!(error, Error::Refused(_) | Error::Closed) && !error.is_retryable();
        if is_final {
            // One is enough.
            let _ = self.broken.try_send(Failure::from(error));
        }
        line
    }

    pub(super) async fn close(&self) {
        if let Ok(bus) = self.bus() {
            let _ = tokio::time::timeout(GOODBYE, bus.close()).await;
        }
    }
}

async fn connect(builder: BusBuilder, found: watch::Sender<Option<Bus>>, link: Link) {
    loop {
        match tokio::time::timeout(TRY_TAKES, builder.clone().connect()).await {
            Ok(Ok(bus)) => {
                // It lives as long as somebody may ask for it.
                found.send_replace(Some(bus));
                return found.closed().await;
            }
            Ok(Err(error)) if error.is_retryable() => {
                link.why.send_replace(chain(&error));
            }
            Ok(Err(error)) => {
                let _ = link.broken.send(Failure::from(error)).await;
                return;
            }
            Err(_) => {
                link.why.send_replace("the server doesn't answer".to_owned());
            }
        }
        tokio::time::sleep(TRY_AGAIN_AFTER).await;
    }
}
