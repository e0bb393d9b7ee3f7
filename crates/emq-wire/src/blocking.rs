//! A connection of one's own to park on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use crate::codec::{Cmd, Reply};
use crate::config::Config;
use crate::connection::{BootError, BootLink, Connection, Handshake, NoHandshake, boot, pause};
use crate::error::WireError;

/// An idle server may fire a timeout this late; later than this the peer is taken for dead.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// The shortest park: zero would be for ever.
const SHORTEST_PARK: Duration = Duration::from_millis(1);
/// The longest park, should the heartbeat be longer: a server knows larger numbers than it takes.
const LONGEST_PARK: Duration = Duration::from_secs(24 * 3600);
/// How long the first pause is before an unblock is repeated: the call it aims at is on its way.
const UNBLOCK_AGAIN: Duration = Duration::from_millis(1);
/// How long the pause grows.
const UNBLOCK_AGAIN_CAP: Duration = Duration::from_millis(50);

/// A connection for blocking commands, one at a time. It climbs the same ladder as every other
/// connection and dials again by itself on the next call after a loss, or after the server turned
/// out to be no primary any more. Once refused for good, every later call says the same.
pub struct BlockingLane {
    config: Config,
    handshake: Arc<dyn Handshake>,
    link: Option<BootLink>,
    been_ready: bool,
    /// Dials and calls that failed in a row: the next dial waits accordingly.
    failures: u32,
    refused: Option<WireError>,
    parking: Arc<Parking>,
}

/// What the lane and those who may end its call share.
#[derive(Debug, Default)]
struct Parking {
    /// The server's number for the lane's socket.
    client_id: AtomicI64,
    /// Counts the beginnings and the ends of calls: odd while one is, or is about to be, at the
    /// server.
    serial: watch::Sender<u64>,
    /// Somebody wants the next or present call to end.
    wanted: AtomicBool,
    /// The fallback: the call whose socket shall be given up.
    abandoned: watch::Sender<u64>,
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
        let mut lane = Self {
            config,
            handshake,
            link: None,
            been_ready: false,
            failures: 0,
            refused: None,
            parking: Arc::default(),
        };
        lane.link = Some(lane.dial().await?);
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
        let bound = park(bound, self.config.heartbeat);
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

    /// Runs one command whose own timeout is `bound`, which should be at most the heartbeat. A call
    /// that was asked to end before it left answers [`Reply::Nil`], like one that timed out.
    ///
    /// Dropping the future gives the socket up, and with it whatever the server was answering:
    /// end a parked call with [`Unblocker::wake`] instead.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn call(&mut self, cmd: Cmd, bound: Duration) -> Result<Reply, WireError> {
        if self.parking.take_wish() {
            return Ok(Reply::Nil);
        }
        // Taken out: a future dropped below leaves no half-read socket behind.
        let mut link = self.take_link().await?;
        let parked = Parked::on(&self.parking);
        if self.parking.take_wish() {
            self.link = Some(link);
            return Ok(Reply::Nil);
        }
        self.failures = self.failures.saturating_add(1);
        let exchange =
            tokio::time::timeout(bound.saturating_add(GRACE), link.exchange(cmd.encode()));
        let outcome = tokio::select! {
            // First: a reply that has come is never given up.
            biased;
            outcome = exchange => outcome.map_err(|_| lost())?,
            () = parked.abandoned() => return Err(lost()),
        };
        let reply = outcome?.pop().ok_or_else(lost)?;
        if !has_moved(&reply) {
            self.failures = 0;
            self.link = Some(link);
        }
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

    /// The link as the last call left it, or a new one.
    async fn take_link(&mut self) -> Result<BootLink, WireError> {
        if let Some(mut link) = self.link.take()
            && link.check_idle().await.is_ok()
        {
            return Ok(link);
        }
        self.dial().await
    }

    /// One climb, after a jittered pause when something failed before.
    async fn dial(&mut self) -> Result<BootLink, WireError> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        if self.failures > 0 {
            tokio::time::sleep(pause(&self.config.reconnect, self.failures)).await;
        }
        self.failures = self.failures.saturating_add(1);
        let link = match boot(&self.config, &*self.handshake, self.been_ready).await {
            Ok(link) => link,
            Err(BootError::Passing(error)) => return Err(error),
            Err(BootError::Fatal(error)) => {
                self.refused = Some(error.clone());
                return Err(error);
            }
        };
        self.failures -= 1;
        self.been_ready = true;
        self.parking.client_id.store(link.client_id.unwrap_or(-1), Ordering::SeqCst);
        Ok(link)
    }
}

/// What a server may be told to park for.
pub(crate) fn park(bound: Duration, heartbeat: Duration) -> Duration {
    bound.min(heartbeat).clamp(SHORTEST_PARK, LONGEST_PARK)
}

/// Whether the reply says that the server is no primary any more.
fn has_moved(reply: &Reply) -> bool {
    reply.as_error().is_some_and(|error| error.is("READONLY") || error.is("UNBLOCKED"))
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
        let parking = &self.parking;
        // A swap, not a store: it sees the beginning of the call that took the last wish.
        parking.wanted.swap(true, Ordering::SeqCst);
        let mut serial = parking.serial.subscribe();
        let present = *serial.borrow();
        if present.is_multiple_of(2) {
            return;
        }
        tokio::select! {
            biased;
            _ = serial.wait_for(|now| *now != present) => {}
            () = self.end(present) => {}
        }
    }

    /// Asks the server until it says that the call was parked and is not any more.
    async fn end(&self, call: u64) {
        let mut again = UNBLOCK_AGAIN;
        loop {
            let client = self.parking.client_id.load(Ordering::SeqCst);
            match self.through.unblock(client).await {
                Ok(true) => return,
                // Not there yet, or not any more; or the question itself had no room.
                Ok(false) | Err(WireError::Overloaded { .. } | WireError::Timeout { .. }) => {
                    tokio::time::sleep(again).await;
                    again = (again * 2).min(UNBLOCK_AGAIN_CAP);
                }
                Err(_) => {
                    self.parking.abandoned.send_replace(call);
                    return;
                }
            }
        }
    }
}

impl Parking {
    fn take_wish(&self) -> bool {
        self.wanted.swap(false, Ordering::SeqCst)
    }
}

/// Says "parked" for as long as it lives, also through a dropped future.
struct Parked {
    parking: Arc<Parking>,
    serial: u64,
}

impl Parked {
    fn on(parking: &Arc<Parking>) -> Self {
        parking.serial.send_modify(|serial| *serial += 1);
        let serial = *parking.serial.borrow();
        Self { parking: Arc::clone(parking), serial }
    }

    /// Comes when the call shall be given up.
    async fn abandoned(&self) {
        let mut abandoned = self.parking.abandoned.subscribe();
        // The sender lives as long as we do.
        let _ = abandoned.wait_for(|serial| *serial == self.serial).await;
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.parking.serial.send_modify(|serial| {
            // While nobody can see the end yet: a wish made after it is for the next call.
            self.parking.wanted.store(false, Ordering::SeqCst);
            *serial += 1;
        });
    }
}

fn lost() -> WireError {
    WireError::Disconnected { written: true }
}

fn unexpected(found: &str) -> WireError {
    WireError::Unexpected { step: "BLPOP", found: found.chars().take(200).collect() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Who sees that a call is over and then wishes for an end wishes for that of the next one.
    #[test]
    fn a_wish_made_after_the_end_of_a_call_is_kept() {
        const ROUNDS: usize = 2000;
        let parking = Arc::new(Parking::default());
        let wishes = AtomicUsize::new(0);
        // Awake for the moment that counts, but not for ever on a machine with one core.
        let wait = |holds: &dyn Fn() -> bool| {
            for spins in 0_u32.. {
                match holds() {
                    true => break,
                    false if spins % 1000 == 999 => std::thread::yield_now(),
                    false => std::hint::spin_loop(),
                }
            }
        };
        let mut lost = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    wait(&|| *parking.serial.borrow() >= 2 * round as u64);
                    parking.wanted.swap(true, Ordering::SeqCst);
                    wishes.store(round, Ordering::SeqCst);
                }
            });
            for round in 1..=ROUNDS {
                drop(Parked::on(&parking));
                wait(&|| wishes.load(Ordering::SeqCst) >= round);
                lost += usize::from(!parking.take_wish());
            }
        });
        assert_eq!(lost, 0);
    }
}
