//! What a queued job takes of the server's memory.

use emq_core::NewJob;

use crate::board::{Board, Bound};
use crate::figures::median;
use crate::ground::{Ground, waiting};
use crate::{Failure, Plan};

/// Bytes that a job of a short payload may take.
const SHORT_MOST: f64 = 260.0;
/// The two lengths of payload: under the length up to which the server packs a row, and over it.
const SHORT: usize = 40;
const LONG: usize = 100;
const LIST: usize = 10_000;

pub(crate) async fn measure(plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    let n = plan.size(20_000, 100_000);
    let ground = Ground::start().await?;
    let (mut short, mut long) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        short.push(grown(&ground, n, SHORT).await?);
        long.push(grown(&ground, n, LONG).await?);
    }
    let (short, long) = (median(short), median(long));
    let measured = format!("{short:.0} bytes a job of {n}");
    let target = "bytes a queued job, 40-byte payload, to 260";
    board.judge(target, measured, short / SHORT_MOST, Bound::AtMost(1.0));
    let measured = format!("{long:.0} bytes a job of {n}");
    board.tell("bytes a queued job, 100-byte payload (target: `referee`)", measured, None);
    Ok(())
}

/// What the server grew by, a job.
async fn grown(ground: &Ground, n: usize, bytes: usize) -> Result<f64, Failure> {
    ground.empty().await?;
    let queue = ground.queue("bytes")?;
    let ids = ground.mint(n).await?;
    let before = ground.number("memory", "used_memory").await?;
    for ids in ids.chunks(LIST) {
        let jobs: Vec<_> = ids.iter().map(|id| NewJob::new(*id, vec![b'x'; bytes])).collect();
        queue.enqueue_many(&jobs).await?;
    }
    let after = ground.number("memory", "used_memory").await?;
    waiting(&queue, n).await?;
    Ok((after - before) / n as f64)
}
