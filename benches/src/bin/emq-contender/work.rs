//! Jobs out of a queue: a worker whose handler does nothing but count.

use std::future::ready;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use contender::{Effects, id_of};
use emq_core::{Job, JobError, Phase, Queue, Worker};
use tokio::time::timeout;

use crate::Failure;

/// A row that takes longer has lost jobs.
const AT_MOST: Duration = Duration::from_secs(120);
pub(crate) const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Works all n jobs; the time is from the worker's start to the last acknowledgement.
pub(crate) async fn all(
    queue: &Queue,
    n: usize,
    concurrency: usize,
) -> Result<(Duration, Arc<Effects>), Failure> {
    let effects = Arc::new(Effects::of(n));
    let happen = Arc::clone(&effects);
    let begun = Instant::now();
    let worker = Worker::builder(queue)
        .concurrency(concurrency)
        .handler(move |job: Job<Bytes>| {
            // A payload that isn't ours can't be: the queue is this row's alone.
            ready(number(&job.payload).map(|i| happen.happened(i)))
        })
        .start()?;
    if timeout(AT_MOST, acknowledged(&worker, &effects)).await.is_err() {
        eprintln!("of {n} jobs {} were done in {AT_MOST:?}", effects.done());
    }
    let took = begun.elapsed();
    let report = worker.stop(STOP_WITHIN).await;
    if report.totals.done != n as u64 {
        eprintln!("not every job was completed: {report:?}");
    }
    Ok((took, effects))
}

/// Waits until every effect happened and the worker holds nothing any more.
async fn acknowledged(worker: &Worker, effects: &Effects) {
    effects.all().await;
    let mut status = worker.status();
    // It fails when the worker is gone, and then nothing is held either.
    let _ =
        status.wait_for(|status| status.in_flight == 0 && status.phase != Phase::Starting).await;
}

/// Which job a payload is of.
pub(crate) fn number(payload: &[u8]) -> Result<usize, JobError> {
    id_of(payload).ok_or_else(|| JobError::dead("a payload of somebody else"))
}
