//! Which row is whose.

use contender::Report;
use emq_core::{Durability, EnqueueOptions, Queue};

use crate::{Failure, enqueue, look, recovery, work};

/// Plays one row on its queue and prints it.
pub(crate) async fn play(
    row: &str,
    n: usize,
    queue: &Queue,
    options: &EnqueueOptions,
    durability: Durability,
    report: &Report<'_>,
) -> Result<(), Failure> {
    match row {
        "enqueue_1by1" => report.enqueued(enqueue::one_by_one(queue, n, options).await?),
        "enqueue_50" => report.enqueued(enqueue::from_tasks(queue, n, options).await?),
        "enqueue_bulk" => report.enqueued(enqueue::bulk(queue, n, durability).await?),
        "process_lanes" => {
            enqueue::fill_lanes(queue, n).await?;
            let (took, effects) = work::all(queue, n, 50).await?;
            report.worked(took, &effects);
        }
        "idle_pickup_ms" => report.picked_up(look::pickup(queue, n, options).await?),
        "bytes_a_job" => report.line(look::bytes(queue, n).await?),
        "fairness" => report.line(look::fairness(queue, n).await?),
        "recovery" => recovery::play(queue, n, row).await?,
        "transactional" => {
            report.absent("no transaction spans bus and store: the outbox is the answer");
        }
        other => match other.strip_prefix("process_c").map(str::parse) {
            Some(Ok(concurrency)) => {
                enqueue::fill(queue, n).await?;
                let (took, effects) = work::all(queue, n, concurrency).await?;
                report.worked(took, &effects);
            }
            _ => report.absent("no such row here"),
        },
    }
    Ok(())
}
