//! The relay: an owner that moves committed rows to the bus.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use emq_core::Bus;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::error::RelayError;
use super::listen::Listen;
use super::rounds::Rounds;
use super::shelf::{Batch, Shelf};
use super::status::RelayStatus;
use crate::error::StoreError;

/// Rows of one batch, unless said.
const BATCH: usize = 200;
/// How often it looks without being told, unless said.
const SWEEP: Duration = Duration::from_secs(1);
/// How long a row in SQLite stays with a relay that doesn't come back, unless said.
const HELD_FOR: Duration = Duration::from_secs(30);

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
    pub(super) shelf: Shelf,
    pub(super) bus: Bus,
    pub(super) settings: Settings,
    pub(super) wake: Arc<Notify>,
    pub(super) status: Arc<watch::Sender<RelayStatus>>,
    pub(super) before_delete: Option<Hook>,
    listen: Listen,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    batch: usize,
    pub(super) sweep: Duration,
    held_for: Duration,
    pub(super) volatile: bool,
}

impl Relay {
    /// A relay from an outbox to a bus.
    pub fn new(outbox: impl Into<Shelf>, bus: Bus) -> Relay {
        let shelf = outbox.into();
        Relay {
            listen: Listen::of(&shelf),
            shelf,
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

    /// Listens for commits on a connection of tokio-postgres of its own, which is made from
    /// `config` with `tls` ([`tokio_postgres::NoTls`], for instance), and again when it is lost.
    /// Without it the relay finds them at its sweep, since the pool hands no notifications out;
    /// with sqlx it isn't needed.
    #[cfg(feature = "tokio-postgres")]
    #[must_use]
    pub fn listen<T>(mut self, config: tokio_postgres::Config, tls: T) -> Relay
    where
        T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>,
        T: Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as tokio_postgres::tls::TlsConnect<tokio_postgres::Socket>>::Future: Send,
    {
        self.listen = Listen::tokio(config, tls);
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
    /// is out of reach the rows stay where they are, and it tries again after growing pauses. So it
    /// does when a server that synced has come back as one that doesn't: the rows are held until it
    /// does, and [`RelayStatus::not_durable`] says why. A queue that refuses its jobs as a whole is
    /// left out for a while, and the others go on ([`RelayStatus::stuck`]).
    ///
    /// # Errors
    /// [`RelayError::NotDurable`] when the server doesn't sync at the start, unless that is
    /// allowed; [`RelayError::Bus`] and [`RelayError::Store`] when they refuse for good.
    pub async fn run(self, stop: CancellationToken) -> Result<(), RelayError> {
        tokio::select! {
            outcome = Rounds::new(&self).run(&stop) => outcome,
            never = self.listen.run(&self.wake) => match never {},
        }
    }

    pub(super) async fn take(
        &self,
        mark: String,
        left_out: &[String],
    ) -> Result<Batch, StoreError> {
        let Settings { batch, held_for, .. } = self.settings;
        self.shelf.take(mark, batch, held_for, left_out).await
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
