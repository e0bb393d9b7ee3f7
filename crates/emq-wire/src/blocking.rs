//! A connection of one's own to park on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::codec::{Cmd, Reply};
use crate::config::Config;
use crate::connection::{BootError, BootLink, Connection, Handshake, NoHandshake, boot};
use crate::error::WireError;

/// An idle server may fire a timeout this late; later than this the peer is taken for dead.
const GRACE: Duration = Duration::from_secs(1);
/// How often an unblock is repeated while the call it aims at is on its way to the server.
const UNBLOCK_EVERY: Duration = Duration::from_millis(2);
/// How long an unblock is tried before the socket is closed instead.
const UNBLOCK_TRIES: u32 = 100;

/// A connection for blocking commands, one at a time. It climbs the same ladder as every other
/// connection and dials again by itself on the next call after a loss.
pub struct BlockingLane {
    config: Config,
    handshake: Arc<dyn Handshake>,
    link: Option<BootLink>,
    been_ready: bool,
    failures: u32,
    parking: Arc<Parking>,
}

/// What the lane and those who may end its call share.
#[derive(Debug, Default)]
struct Parking {
    /// The server's number for the lane's socket.
    client_id: AtomicI64,
    /// A blocking call is, or is about to be, at the server.
    parked: AtomicBool,
    /// Somebody wants the next or present call to end.
    wanted: AtomicBool,
    /// The fallback: give the socket up.
    abandon: Notify,
}

impl BlockingLane {
    /// Connects a lane without a handshake.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn connect(config: Config) -> Result<Self, WireError> {
        Self::connect_with(config, Arc::new(NoHandshake)).await
    }

    /// Connects a lane; `handshake` runs on each of its sockets.
    ///
    /// # Errors
    /// See [`WireError`]; one attempt is made.
    pub async fn connect_with(
        config: Config,
        handshake: Arc<dyn Handshake>,
    ) -> Result<Self, WireError> {
        config.validate()?;
        let parking = Arc::default();
        let mut lane =
            Self { config, handshake, link: None, been_ready: false, failures: 0, parking };
        lane.dial().await?;
        Ok(lane)
    }

    /// Pops the head of a list, waiting at most `bound`; `None` when nothing came or the call was
    /// ended early. The bound is kept between a millisecond and the heartbeat: zero would block
    /// for ever, and a blocked connection can't be probed.
    ///
    /// # Errors
    /// See [`WireError`]; `Disconnected` when no reply came within the bound and a grace. The
    /// next call dials again.
    pub async fn blpop(
        &mut self,
        key: impl AsRef<[u8]>,
        bound: Duration,
    ) -> Result<Option<Bytes>, WireError> {
        let bound = bound.clamp(Duration::from_millis(1), self.config.heartbeat);
        let seconds = format!("{:.3}", bound.as_secs_f64());
        match self.call(Cmd::new("BLPOP").arg(key).arg(seconds), bound).await? {
            Reply::Nil => Ok(None),
            Reply::Array(mut pair) if pair.len() == 2 => match pair.pop() {
                Some(Reply::Bulk(element)) => Ok(Some(element)),
                other => Err(unexpected(&format!("{other:?}"))),
            },
            Reply::Error(source) => Err(WireError::Server { step: "BLPOP", source }),
            other => Err(unexpected(&format!("{other:?}"))),
        }
    }

    /// Runs one command whose own timeout is `bound`. A call that was asked to end before it
    /// left answers [`Reply::Nil`], like one that timed out.
    ///
    /// Dropping the future gives the socket up, and with it whatever the server was answering:
    /// end a parked call with [`Unblocker::wake`] instead.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn call(&mut self, cmd: Cmd, bound: Duration) -> Result<Reply, WireError> {
        // Taken out: a future dropped below leaves no half-read socket behind.
        let mut link = match self.link.take() {
            Some(link) => link,
            None => {
                self.dial().await?;
                self.link.take().ok_or(WireError::NotReady)?
            }
        };
        let parked = Parked::on(&self.parking);
        if self.parking.wanted.swap(false, Ordering::SeqCst) {
            self.link = Some(link);
            return Ok(Reply::Nil);
        }
        let encoded = cmd.encode();
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(bound + GRACE, link.exchange(encoded)) => outcome,
            () = self.parking.abandon.notified() => return Err(lost()),
        };
        drop(parked);
        self.parking.wanted.store(false, Ordering::SeqCst);
        let reply = outcome.map_err(|_| lost())??.pop().ok_or_else(lost)?;
        self.link = Some(link);
        Ok(reply)
    }

    /// The server's number for the lane's socket.
    pub fn client_id(&self) -> Option<i64> {
        self.link.as_ref().and_then(|link| link.client_id)
    }

    /// A handle that ends the lane's parked call through another connection.
    pub fn unblocker(&self, through: &Connection) -> Unblocker {
        Unblocker { parking: Arc::clone(&self.parking), through: through.clone() }
    }

    /// One climb, after a jittered pause when the last one failed.
    async fn dial(&mut self) -> Result<(), WireError> {
        if self.failures > 0 {
            let reconnect = &self.config.reconnect;
            let factor = 1_u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX);
            let ceiling = reconnect.base.saturating_mul(factor).min(reconnect.cap);
            tokio::time::sleep(ceiling.mul_f64(fastrand::f64())).await;
        }
        self.failures = self.failures.saturating_add(1);
        let link = boot(&self.config, &*self.handshake, self.been_ready)
            .await
            .map_err(|(BootError::Passing(error) | BootError::Fatal(error))| error)?;
        self.failures = 0;
        self.been_ready = true;
        self.parking.client_id.store(link.client_id.unwrap_or(-1), Ordering::SeqCst);
        self.link = Some(link);
        Ok(())
    }
}

impl std::fmt::Debug for BlockingLane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockingLane")
            .field("address", &self.config.address.to_string())
            .field("connected", &self.link.is_some())
            .finish_non_exhaustive()
    }
}

/// Ends the parked call of a [`BlockingLane`]. An element popped in the same instant is still
/// returned by that call.
#[derive(Clone, Debug)]
pub struct Unblocker {
    parking: Arc<Parking>,
    through: Connection,
}

impl Unblocker {
    /// Ends the present call, or makes the next one end at once when none is parked. When the
    /// server can't be asked, the lane's socket is given up.
    pub async fn wake(&self) {
        self.parking.wanted.store(true, Ordering::SeqCst);
        for _ in 0..UNBLOCK_TRIES {
            // The lane looks at `wanted` after it says that it is parked: one of us sees the other.
            if !self.parking.parked.load(Ordering::SeqCst) {
                return;
            }
            let client = self.parking.client_id.load(Ordering::SeqCst);
            match tokio::time::timeout(GRACE, self.through.unblock(client)).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => tokio::time::sleep(UNBLOCK_EVERY).await,
                Ok(Err(_)) | Err(_) => break,
            }
        }
        if self.parking.parked.load(Ordering::SeqCst) {
            self.parking.abandon.notify_waiters();
        }
    }
}

/// Says "parked" for as long as it lives, also through a dropped future.
struct Parked(Arc<Parking>);

impl Parked {
    fn on(parking: &Arc<Parking>) -> Self {
        parking.parked.store(true, Ordering::SeqCst);
        Self(Arc::clone(parking))
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.0.parked.store(false, Ordering::SeqCst);
    }
}

fn lost() -> WireError {
    WireError::Disconnected { written: true }
}

fn unexpected(found: &str) -> WireError {
    WireError::Unexpected { step: "BLPOP", found: found.chars().take(200).collect() }
}
