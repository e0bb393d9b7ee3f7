//! The relay: an owner that moves committed rows to the bus.

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use emq_core::{Bus, Durability, Error};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::deliver::{Delivered, deliver};
use super::error::RelayError;
use super::shelf::{Batch, Shelf};
use super::status::{RelayStatus, tell};
use crate::error::StoreError;

/// Rows of one batch, unless said.
const BATCH: usize = 200;
/// How often it looks without being told, unless said.
const SWEEP: Duration = Duration::from_secs(1);
/// How long a row in SQLite stays with a relay that doesn't come back, unless said.
const HELD_FOR: Duration = Duration::from_secs(30);
/// Pauses after failures double from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(5);

type Hook = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Moves the rows of an outbox to the bus, and deletes a row once the bus has its job on disk.
///
/// Any number of relays may run on one outbox: each row is one's at a time. A relay that dies
/// between the bus's answer and its delete leaves the row, and it is sent once more: the bus knows
/// the job while its row there lives, and later the store that absorbed its name declines it.
///
/// In a tree it is an owner: `Owner::service("relay", move |stop| relay.clone().run(stop))`.
#[derive(Clone)]
pub struct Relay {
    shelf: Shelf,
    bus: Bus,
    settings: Settings,
    wake: Arc<Notify>,
    status: Arc<watch::Sender<RelayStatus>>,
    before_delete: Option<Hook>,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    batch: usize,
    sweep: Duration,
    held_for: Duration,
    volatile: bool,
}

impl Relay {
    /// A relay from an outbox to a bus.
    pub fn new(outbox: impl Into<Shelf>, bus: Bus) -> Relay {
        Relay {
            shelf: outbox.into(),
            bus,
            settings: Settings { batch: BATCH, sweep: SWEEP, held_for: HELD_FOR, volatile: false },
            wake: Arc::new(Notify::new()),
            status: Arc::new(watch::Sender::default()),
            before_delete: None,
        }
    }

    /// The most rows of one batch, from 1.
    #[must_use]
    pub fn batch(mut self, rows: usize) -> Relay {
        self.settings.batch = rows.max(1);
        self
    }

    /// How often it looks without being woken: what is committed by other processes is found so.
    #[must_use]
    pub fn sweep(mut self, every: Duration) -> Relay {
        self.settings.sweep = every;
        self
    }

    /// How long a row in SQLite stays with a relay that doesn't come back. It must be longer than
    /// the bus may take to answer, else a row is sent twice (which is harmless). In PostgreSQL
    /// locks end with the connection.
    #[must_use]
    pub fn held_for(mut self, time: Duration) -> Relay {
        self.settings.held_for = time;
        self
    }

    /// Takes it that a server which doesn't sync its writes loses admitted jobs at a crash. A
    /// server that does is still waited for.
    #[must_use]
    pub fn allow_volatile(mut self) -> Relay {
        self.settings.volatile = true;
        self
    }

    /// A step between the bus's answer and the delete, for tests that kill it there.
    #[doc(hidden)]
    #[must_use]
    pub fn before_delete<F, Fut>(mut self, hook: F) -> Relay
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.before_delete = Some(Arc::new(move || Box::pin(hook())));
        self
    }

    /// Has it look now: call it after a commit in this process where nothing else tells the relay
    /// (SQLite).
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Watches what it does.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<RelayStatus> {
        self.status.subscribe()
    }

    /// Works until `stop` fires: the batch in hand is finished first. While the bus or the database
    /// is out of reach the rows stay where they are, and it tries again after growing pauses.
    ///
    /// # Errors
    /// [`RelayError::NotDurable`] when the server doesn't sync, unless that is allowed;
    /// [`RelayError::Bus`] and [`RelayError::Store`] when they refuse for good.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RelayError> {
        let listening = super::listen::listen(&self.shelf, Arc::clone(&self.wake));
        tokio::select! {
            outcome = self.work(&stop) => outcome,
            never = listening => match never {},
        }
    }

    async fn work(&self, stop: &CancellationToken) -> Result<(), RelayError> {
        let mut pause = PAUSE_MIN;
        while !stop.is_cancelled() {
            let wait = match self.round().await {
                Ok(0) => {
                    pause = PAUSE_MIN;
                    self.settings.sweep
                }
                Ok(_) => {
                    pause = PAUSE_MIN;
                    continue;
                }
                Err(failure) => {
                    self.note_failure(failure)?;
                    let wait = pause;
                    pause = (pause * 2).min(PAUSE_MAX);
                    // A wake doesn't cut a pause short: the bus is no nearer for one more row.
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                    continue;
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        Ok(())
    }

    /// One batch. Answers how many rows it settled or refused.
    async fn round(&self) -> Result<usize, Failure> {
        let durability = self.durability().await?;
        let mark = mark();
        let Settings { batch, held_for, .. } = self.settings;
        let batch = self.shelf.take(mark, batch, held_for).await?;
        if batch.rows.is_empty() {
            batch.conclude(Vec::new(), Vec::new()).await?;
            self.measure().await?;
            return Ok(0);
        }
        self.move_on(batch, durability).await
    }

    async fn move_on(&self, batch: Batch, durability: Durability) -> Result<usize, Failure> {
        let delivered = deliver(&self.bus, &batch.rows, durability).await;
        if let Some(hook) = &self.before_delete {
            hook().await;
        }
        let Delivered { settled, refused, admitted, duplicates, held, error } = delivered;
        for (queue, id, reason) in &refused {
            tracing::warn!(queue, id, reason, "the bus will never take a job of the outbox");
        }
        let done = settled.len() + refused.len();
        batch.conclude(settled, refused).await?;
        self.status.send_modify(|status| {
            status.admitted += admitted;
            status.duplicates += duplicates;
            status.held += held;
        });
        match error {
            Some(error) => Err(Failure::Bus(error)),
            None => {
                self.status.send_modify(|status| status.last_error = None);
                Ok(done)
            }
        }
    }

    /// What the server can promise. It is asked before each batch (the answer is kept as long as
    /// the connection), since it may have come back without its append-only file.
    async fn durability(&self) -> Result<Durability, Failure> {
        match self.bus.check_fsynced().await {
            Ok(()) => Ok(Durability::Fsynced),
            Err(Error::NotDurable { .. }) if self.settings.volatile => Ok(Durability::Volatile),
            Err(error) => Err(Failure::Bus(error)),
        }
    }

    async fn measure(&self) -> Result<(), Failure> {
        let depth = self.shelf.depth().await?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let oldest = depth.oldest_ms.and_then(|ms| u64::try_from(ms).ok());
        let oldest = oldest.map_or(since, Duration::from_millis);
        self.status.send_modify(|status| {
            status.depth = depth.waiting;
            status.refused = depth.refused;
            status.lag = since.saturating_sub(oldest);
            status.last_error = None;
            tell(status);
        });
        Ok(())
    }

    /// Notes a failure, and answers an error when no repetition helps.
    fn note_failure(&self, failure: Failure) -> Result<(), RelayError> {
        tracing::warn!(%failure, "the relay failed; the rows stay");
        self.status.send_modify(|status| {
            status.failures += 1;
            status.last_error = Some(failure.to_string());
            tell(status);
        });
        match failure {
            Failure::Bus(error @ Error::NotDurable { .. }) => Err(RelayError::NotDurable(error)),
            Failure::Bus(error @ (Error::Closed | Error::Refused(_) | Error::Config(_)))
                if !error.is_retryable() =>
            {
                Err(RelayError::Bus(error))
            }
            Failure::Store(error) if !error.is_retryable() => Err(RelayError::Store(error)),
            Failure::Store(error @ StoreError::Closed) => Err(RelayError::Store(error)),
            Failure::Bus(_) | Failure::Store(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("outbox", &self.shelf)
            .field("settings", &self.settings)
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the bus did not take the jobs: {0}")]
    Bus(Error),
    #[error("the outbox could not be read or written: {0}")]
    Store(#[from] StoreError),
}

/// A mark that no other batch of any process has.
fn mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{since}-{next}", std::process::id())
}

/// For databases that tell nothing.
#[allow(dead_code)] // Used where no feature gives a listener.
pub(super) async fn silence() -> std::convert::Infallible {
    pending().await
}
