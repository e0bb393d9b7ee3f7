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
/// It makes one call a round, which settles what has ended, extends leases, and claims as many jobs
/// as there are free slots, from lanes and flat set in turn; two such calls may be on their way.
///
/// Each handler runs in a `tracing` span `job` with the fields `queue`, `kind`, `id`, `token` and
/// `lane`; what the producer sent along, a trace context for instance, is [`Job::headers`]. With the
/// feature `metrics` it tells that crate's facade what it does: counters `emq_jobs_*_total`
/// (started, done, retried, dead, released, cancelled, lost, stale, abandoned, panicked, timed_out;
/// and of whichever worker's jobs its turns moved: promoted, returned, buried) and
/// `emq_worker_*_total` (parks, wakes, reconnects), the gauge `emq_jobs_in_flight`, and the
/// histograms `emq_job_wait_seconds` (from its minting to its first start) and
/// `emq_job_run_seconds`, each with the label `queue`. The recorder must be installed before the
/// worker starts.
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
