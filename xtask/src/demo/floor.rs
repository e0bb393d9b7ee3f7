//! The stores and the workers on the floor, under one tree, and how the handlers behave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emq_core::{Backoff, Bus, JobError, Worker};
use emq_stores::supervisor::{Killed, Owner, Supervisor, Tree};
use emq_stores::with_stores;

use super::Args;
use super::ledger::Ledger;
use crate::books::{Fill, FillJob, Shelf};
use crate::{Failure, Outcome};

/// Short, so that the jobs of a killed worker come back while one watches.
const LEASE: Duration = Duration::from_secs(2);
const BEAT: Duration = Duration::from_millis(500);
/// The worker that is killed.
const VICTIM: usize = 0;

/// Two stores and several workers, each with a bus of its own; one that is killed is restarted.
pub(super) struct Floor {
    tree: Tree,
}

impl Floor {
    pub(super) async fn open(
        url: &str,
        queue: &str,
        args: &Args,
        shelf: &Shelf,
        ledger: &Arc<Ledger>,
    ) -> Result<Self, Failure> {
        let opened = Instant::now();
        let mut supervisor = shelf.owners().into_iter().fold(Supervisor::new(), Supervisor::owner);
        for n in 0..usize::from(args.workers) {
            let (url, queue) = (url.to_owned(), queue.to_owned());
            let (books, ledger) = (Arc::clone(&shelf.books), Arc::clone(ledger));
            let concurrency = usize::from(args.concurrency);
            let worker = Owner::worker(name(n), move |_| {
                let (url, queue) = (url.clone(), queue.clone());
                let (books, ledger) = (Arc::clone(&books), Arc::clone(&ledger));
                async move {
                    let handler = with_stores(books, move |cx: FillJob| {
                        let ledger = Arc::clone(&ledger);
                        async move { fill(cx, &ledger, n, opened).await }
                    });
                    let bus = Bus::connect(&url).await?;
                    let worker = Worker::builder(bus.queue(queue)?.typed::<Fill>())
                        .concurrency(concurrency)
                        .lease(LEASE)
                        .beat(BEAT)
                        .max_attempts(3)
                        .backoff(Backoff::exponential(Duration::from_millis(50)).full_jitter())
                        .handler(handler);
                    Ok(worker.start()?)
                }
            });
            supervisor = supervisor.owner(worker);
        }
        let tree = supervisor.start()?;
        tree.ready().await?;
        Ok(Self { tree })
    }

    /// Kills the first worker where it stands: nothing is settled, nothing is released.
    pub(super) async fn kill_one(&self, ledger: &Ledger) -> Result<usize, Failure> {
        let in_hand = ledger.in_hand(VICTIM);
        match self.tree.kill(&name(VICTIM)).await {
            Killed::Aborted => Ok(in_hand),
            other => Err(format!("{} was to be killed: {other:?}", name(VICTIM)).into()),
        }
    }

    /// Fails when the tree has given up.
    pub(super) async fn pass(&self, time: Duration) -> Outcome {
        match tokio::time::timeout(time, self.tree.ended()).await {
            Err(_) => Ok(()),
            Ok(Ok(())) => Err("the tree has ended".into()),
            Ok(Err(gave_up)) => Err(gave_up.into()),
        }
    }

    /// Stops it; answers how often each owner was restarted.
    pub(super) async fn close(self) -> Result<Vec<(String, u64)>, Failure> {
        let report = self.tree.stop().await;
        if !report.is_clean() {
            return Err(format!("the tree did not stop cleanly: {report:?}").into());
        }
        let restarts =
            |owner: &emq_stores::supervisor::OwnerReport| (owner.name.to_string(), owner.restarts);
        Ok(report.owners.iter().map(restarts).collect())
    }
}

fn name(worker: usize) -> String {
    format!("worker-{}", worker + 1)
}

/// One fill: some fail at first, a few always, a few panic; the rest land in the books.
async fn fill(
    cx: FillJob,
    ledger: &Ledger,
    worker: usize,
    opened: Instant,
) -> Result<(), JobError> {
    let started = Instant::now();
    let waited = started.duration_since(opened);
    let before = ledger.deliver(cx.id());
    let in_hand = ledger.take(cx.id(), worker);
    let outcome = work(&cx, before).await;
    if outcome.is_err() {
        in_hand.put_down();
        ledger.fail();
        return outcome;
    }
    let absorbed = cx.stores().book(&cx).await;
    in_hand.put_down();
    ledger.book(cx.id(), absorbed?);
    let micros = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
    ledger.record(micros(waited), micros(started.elapsed()));
    Ok(())
}

/// The fill itself, with its faults: the same job fails in the same way in each run.
async fn work(cx: &FillJob, before: u64) -> Result<(), JobError> {
    match cx.id().hash32() % 200 {
        0 => return Err(JobError::new("limit check: the portfolio may not hold this order")),
        1 if before == 0 => panic!("the pricing library gave up"),
        2..=9 if before == 0 => return Err(JobError::new("venue timed out; try again")),
        other => tokio::time::sleep(Duration::from_micros(1_000 + u64::from(other) * 15)).await,
    }
    Ok(())
}
