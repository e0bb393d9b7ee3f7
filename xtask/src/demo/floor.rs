//! The workers on the floor, and how their handlers behave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emq_core::{Backoff, Bus, Job, JobError, Totals, Worker};

use emq_keys::BrandedId;

use super::Args;
use super::input::Fill;
use super::ledger::Ledger;
use crate::Failure;

/// Short, so that the jobs of a killed worker come back while one watches.
const LEASE: Duration = Duration::from_secs(2);
const BEAT: Duration = Duration::from_millis(500);

/// Several workers, each with a bus of its own.
pub(super) struct Floor {
    /// The crew, and their connections.
    workers: Vec<(Worker, Bus)>,
    /// What the killed ones had done.
    gone: Vec<Totals>,
}

impl Floor {
    pub(super) async fn open(
        url: &str,
        queue: &str,
        args: &Args,
        ledger: Arc<Ledger>,
    ) -> Result<Self, Failure> {
        let opened = Instant::now();
        let mut workers = Vec::new();
        for _ in 0..args.workers {
            let bus = Bus::connect(url).await?;
            let ledger = Arc::clone(&ledger);
            let worker = Worker::builder(bus.queue(queue)?.typed::<Fill>())
                .concurrency(usize::from(args.concurrency))
                .lease(LEASE)
                .beat(BEAT)
                .max_attempts(3)
                .backoff(Backoff::exponential(Duration::from_millis(50)).full_jitter())
                .handler(move |job: Job<Fill>| {
                    let ledger = Arc::clone(&ledger);
                    async move { fill(job, &ledger, opened).await }
                })
                .start()?;
            workers.push((worker, bus));
        }
        Ok(Self { workers, gone: Vec::new() })
    }

    /// Kills the first worker where it stands: nothing is settled, nothing is released.
    pub(super) fn kill_one(&mut self) -> usize {
        let (worker, bus) = self.workers.remove(0);
        let in_flight = worker.status().borrow().in_flight;
        self.gone.push(worker.totals());
        drop(worker);
        drop(bus);
        in_flight
    }

    /// How many handlers run now.
    pub(super) fn in_flight(&self) -> usize {
        self.workers.iter().map(|(worker, _)| worker.status().borrow().in_flight).sum()
    }

    /// A worker that gave up, if any did.
    pub(super) fn failed(&self) -> Option<Failure> {
        self.workers.iter().find_map(|(worker, _)| worker.error()).map(Into::into)
    }

    /// Stops the rest; answers what each of them did, the killed ones first.
    pub(super) async fn close(self, grace: Duration) -> Vec<Totals> {
        let mut totals = self.gone;
        for (worker, bus) in self.workers {
            totals.push(worker.stop(grace).await.totals);
            bus.close().await;
        }
        totals
    }
}

/// One fill: some fail at first, a few always, a few panic; the rest land in the books.
async fn fill(job: Job<Fill>, ledger: &Ledger, opened: Instant) -> Result<(), JobError> {
    let started = Instant::now();
    let waited = started.duration_since(opened);
    let before = ledger.deliver(job.id());
    let in_hand = InHand { ledger, job: job.id() };
    let outcome = work(&job, before).await;
    in_hand.put_down();
    outcome?;
    ledger.absorb(job.id(), &job.payload);
    let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    ledger.record(micros(waited), micros(started.elapsed()));
    Ok(())
}

/// The fill itself, with its faults: the same job fails in the same way in each run.
async fn work(job: &Job<Fill>, before: u64) -> Result<(), JobError> {
    match job.id().hash32() % 200 {
        0 => return Err(JobError::new("limit check: the portfolio may not hold this order")),
        1 if before == 0 => panic!("the pricing library gave up"),
        2..=9 if before == 0 => return Err(JobError::new("venue timed out; try again")),
        other => tokio::time::sleep(Duration::from_micros(1_000 + u64::from(other) * 15)).await,
    }
    Ok(())
}

/// A job in a handler's hand: dropped with the handler, it is an orphan.
struct InHand<'a> {
    ledger: &'a Ledger,
    job: BrandedId,
}

impl InHand<'_> {
    fn put_down(self) {
        std::mem::forget(self);
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.ledger.orphan(self.job);
        }
    }
}
