//! The worker: one loop over one queue, with handlers that run beside it.

mod attempt;
mod builder;
mod depart;
mod handler;
mod held;
mod inside;
mod job;
mod land;
mod meters;
mod note;
mod pace;
mod park;
mod rounds;
mod route;
mod settle;
mod status;
mod stop;
mod term;
mod turns;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use self::builder::Settings;
pub use self::builder::{Handled, NoHandler, WorkQueue, WorkerBuilder};
pub use self::handler::{Handler, JobError};
use self::inside::Inside;
pub use self::job::{CancelReason, Job};
pub use self::pace::Rates;
pub use self::status::{Phase, Totals, WorkerStatus};
use self::stop::Running;
pub use self::stop::StopReport;
use crate::error::Error;

/// Works a queue until it is stopped.
///
/// It claims jobs under a lease, runs a handler for each, extends leases while handlers run, and
/// settles what they answer. With nothing to do it parks on the queue's wake key and sends nothing
/// between beats. It survives restarts of the server, and panics of its handlers.
///
/// ```no_run
/// # async fn example() -> Result<(), emq_core::Error> {
/// use std::time::Duration;
/// use emq_core::{Bus, Job, JobError, Worker};
///
/// let bus = Bus::connect("valkey://127.0.0.1").await?;
/// let mails = bus.queue("mails")?.typed::<String>();
/// let worker = Worker::builder(&mails)
///     .concurrency(20)
///     .handler(|job: Job<String>| async move {
///         if job.payload.is_empty() {
///             return Err(JobError::dead("nobody to write to"));
///         }
///         Ok(())
///     })
///     .start()?;
///
/// // ... until the process is told to end:
/// let report = worker.stop(Duration::from_secs(10)).await;
/// println!("{report:?}");
/// # Ok(()) }
/// ```
///
/// Dropping a worker without [`Worker::stop`] is like a crash of its process: its handlers are
/// dropped, its leases end by themselves, and other workers get the jobs.
#[must_use = "a worker ends when it is dropped"]
pub struct Worker {
    inside: Arc<Inside>,
    running: Running,
}

impl Worker {
    /// A worker for a queue, with or without a type, and the default settings.
    pub fn builder<Q: WorkQueue>(queue: Q) -> WorkerBuilder<Q::Item, Q::Codec> {
        WorkerBuilder::new(queue.into_typed())
    }

    /// Watches what it does.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<WorkerStatus> {
        self.inside.status.subscribe()
    }

    /// What it has done so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.inside.tally.read()
    }

    /// How fast it is, over the last seconds.
    #[must_use]
    pub fn rates(&self) -> Rates {
        self.inside.pace.read(Instant::now(), &self.inside.tally.read())
    }

    /// The first part of its tickets, which tells an operator who holds a job.
    #[must_use]
    pub fn incarnation(&self) -> &str {
        self.inside.tickets.incarnation()
    }

    /// Why it can't go on, in [`Phase::Failed`].
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.inside.failure.get().cloned()
    }

    /// Stops it: claims nothing more, lets running handlers end, hands back what can't end in
    /// time, and reports. The last second of the grace (at most half of it) is kept for handing
    /// back. It returns within the grace (or a quarter of a second, if that is longer), also when
    /// the server is out of reach.
    pub async fn stop(self, grace: Duration) -> StopReport {
        let Worker { inside, running } = self;
        stop::stop(&inside, running, grace).await
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", self.inside.queue.name())
            .field("incarnation", &self.incarnation())
            .field("status", &*self.inside.status.borrow())
            .finish_non_exhaustive()
    }
}
