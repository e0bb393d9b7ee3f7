//! A worker whose server is killed under it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use contender::{Effects, Report};
use emq_core::{Job, Queue, Worker};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::work::{STOP_WITHIN, number};
use crate::{Failure, enqueue};

const WORK: Duration = Duration::from_millis(1);
/// Jobs that were claimed when the server fell, with the answer lost, come back when it ends. The
/// referee gives a side up that is silent for longer than the default.
const LEASE: Duration = Duration::from_secs(4);
const AT_MOST: Duration = Duration::from_secs(60);

/// Tells each handler's start; the referee kills the server when it likes.
pub(crate) async fn play(queue: &Queue, n: usize, row: &str) -> Result<(), Failure> {
    enqueue::fill(queue, n).await?;
    let effects = Arc::new(Effects::of(n));
    let (happen, name) = (Arc::clone(&effects), row.to_owned());
    let worker = Worker::builder(queue)
        .concurrency(10)
        .lease(LEASE)
        .handler(move |job: Job<Bytes>| {
            let (happen, name) = (Arc::clone(&happen), name.clone());
            async move {
                let i = number(&job.payload)?;
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
                Report::of(&name, n).line(json!({ "served_us": u64::try_from(now)? }));
                sleep(WORK).await;
                happen.happened(i);
                Ok(())
            }
        })
        .start()?;
    if timeout(AT_MOST, effects.all()).await.is_err() {
        eprintln!("of {n} jobs {} were done in {AT_MOST:?}", effects.done());
    }
    // What was left to a lease's end would be done a second time from here on.
    let report = worker.stop(STOP_WITHIN).await;
    eprintln!("{report:?}");
    Report::of(row, n).line(json!({
        "n": n, "done": effects.done(), "twice": effects.twice(),
    }));
    Ok(())
}
