//! What the handles of a connection and its driver share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc, watch};

use super::ConnectionState;
use crate::codec::Reply;
use crate::config::{Config, Overload};
use crate::counters::Tally;
use crate::error::WireError;

/// How many push frames wait for a reader before the next ones are only counted.
const PUSH_ROOM: usize = 1024;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) tally: Tally,
    pub(crate) state: watch::Sender<ConnectionState>,
    /// The state `Ready`, readable without a lock.
    pub(crate) ready: AtomicBool,
    pub(crate) commands: Bound,
    pub(crate) bytes: Bound,
    pub(crate) pushes: mpsc::Sender<Reply>,
    pub(crate) push_reader: Mutex<Option<mpsc::Receiver<Reply>>>,
    /// Why the last attempt to come up failed, for the caller that gives up waiting.
    pub(crate) last_error: Mutex<Option<WireError>>,
}

impl Core {
    pub(crate) fn new(config: Config) -> Self {
        let (pushes, push_reader) = mpsc::channel(PUSH_ROOM);
        Self {
            commands: Bound::new(config.max_in_flight, "commands"),
            bytes: Bound::new(config.max_queued_bytes, "queued bytes"),
            tally: Tally::default(),
            state: watch::Sender::new(ConnectionState::Connecting),
            ready: AtomicBool::new(false),
            pushes,
            push_reader: Mutex::new(Some(push_reader)),
            last_error: Mutex::new(None),
            config,
        }
    }

    pub(crate) fn enter(&self, state: ConnectionState) {
        tracing::debug!(address = %self.config.address, ?state, "connection state");
        self.ready.store(matches!(state, ConnectionState::Ready), Ordering::Release);
        self.state.send_replace(state);
    }

    /// Takes room for a submission, or says which bound it would pass.
    pub(crate) async fn admit(&self, replies: usize, bytes: usize) -> Result<(), WireError> {
        let overload = self.config.overload;
        if let Err(error) = self.commands.take(replies, overload).await {
            self.tally.overloads.add(1);
            return Err(error);
        }
        if let Err(error) = self.bytes.take(bytes, overload).await {
            self.commands.give(replies);
            self.tally.overloads.add(1);
            return Err(error);
        }
        Ok(())
    }
}

/// A bound on something in flight. Taking and giving are one atomic step each; only callers
/// that have to wait touch anything else.
#[derive(Debug)]
pub(crate) struct Bound {
    limit: usize,
    what: &'static str,
    used: AtomicUsize,
    waiting: AtomicUsize,
    room: Notify,
}

impl Bound {
    fn new(limit: usize, what: &'static str) -> Self {
        Self {
            limit,
            what,
            used: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            room: Notify::new(),
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn try_take(&self, n: usize) -> bool {
        let fits = |used: usize| used.checked_add(n).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::SeqCst, Ordering::Relaxed, fits).is_ok()
    }

    async fn take(&self, n: usize, overload: Overload) -> Result<(), WireError> {
        if self.try_take(n) {
            return Ok(());
        }
        if overload == Overload::Refuse || n > self.limit {
            return Err(WireError::Overloaded { limit: self.limit, what: self.what });
        }
        let _waiting = Waiting::on(&self.waiting);
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            // Registered before the second look: room given in between is not missed.
            room.as_mut().enable();
            if self.try_take(n) {
                return Ok(());
            }
            room.await;
        }
    }

    /// Takes room without asking: for the few bytes of the connector's own probe.
    pub(crate) fn claim(&self, n: usize) {
        self.used.fetch_add(n, Ordering::SeqCst);
    }

    pub(crate) fn give(&self, n: usize) {
        self.used.fetch_sub(n, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.room.notify_waiters();
        }
    }
}

/// Counts a waiting caller, also one whose future is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn on(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
