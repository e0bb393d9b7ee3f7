//! The worker with a handler that does nothing, beside what the turn script allows.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use contender::{Effects, id_of};
use emq_core::{Job, JobError, Queue, Worker};

use crate::board::{Board, Bound};
use crate::figures::{ratio, spread};
use crate::ground::{Ground, HANG, LEASE, Run, timed, waiting};
use crate::{Failure, Plan, require, turns};

/// Handlers at once, and the one that has a target.
const SIZES: [usize; 4] = [1, 10, 50, 200];
const JUDGED: usize = 50;
const LANES: usize = 100;
/// The most jobs of a worker's turn.
const MOST: usize = 100;

pub(crate) async fn measure(plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    let n = plan.size(20_000, 100_000);
    let ground = Ground::start().await?;
    let lanes = ground.lanes(LANES).await?;
    let (mut limit, mut same, mut laned) = (Vec::new(), Vec::new(), Vec::new());
    let mut flat = SIZES.map(|_| Vec::new());
    for _ in 0..plan.rounds {
        ground.empty().await?;
        limit.push(turns::limit(&ground, n, MOST).await?);
        same.push(turns::limit(&ground, n, JUDGED / turns::IN_FLIGHT).await?);
        for (size, runs) in SIZES.iter().zip(&mut flat) {
            // One handler at once is a round trip a job.
            let n = if *size == 1 { n / 4 } else { n };
            runs.push(worked(&ground, *size, n, &[]).await?);
        }
        laned.push(worked(&ground, JUDGED, n, &lanes).await?);
    }
    board.tell("turn alone, 100 a call, two in flight", says(&limit), None);
    board.tell(
        "turn alone, 25 a call, as c=50 can have it",
        says(&same),
        Some(share(&same, &limit)),
    );
    for (size, runs) in SIZES.iter().zip(&flat) {
        let share = share(runs, &limit);
        if *size == JUDGED {
            let target = "worker, flat, c=50, beside turn's limit";
            board.judge(target, says(runs), share, Bound::AtLeast(0.85));
            let target = "worker, flat, c=50, beside the same calls";
            board.judge(target, says(runs), self::share(runs, &same), Bound::AtLeast(0.85));
            let share = self::share(&laned, runs);
            let target = "worker, 100 lanes, c=50, beside flat";
            board.judge(target, says(&laned), share, Bound::AtLeast(0.5));
        } else {
            board.tell(&format!("worker, flat, c={size}"), says(runs), Some(share));
        }
    }
    Ok(())
}

fn rates(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.per_s).collect()
}

fn share(ours: &[Run], limit: &[Run]) -> f64 {
    ratio(&rates(ours), &rates(limit))
}

fn says(runs: &[Run]) -> String {
    format!("{} ({})", Run::median(runs).says(), spread(&rates(runs)))
}

/// Fills a queue and has a worker empty it; each job must have its effect, and none twice.
async fn worked(
    ground: &Ground,
    concurrency: usize,
    n: usize,
    lanes: &[emq_keys::BrandedId],
) -> Result<Run, Failure> {
    let queue = ground.queue("worked")?;
    ground.fill(&queue, n, lanes).await?;
    let effects = Arc::new(Effects::of(n));
    let run = timed(ground, n, work_off(&queue, concurrency, &effects)).await?;
    let (done, twice) = (effects.done(), effects.twice());
    require((done, twice) == (n, 0), || format!("{n} jobs: {done} done, {twice} twice"))?;
    waiting(&queue, 0).await?;
    Ok(run)
}

/// Until the last job is acknowledged.
async fn work_off(
    queue: &Queue,
    concurrency: usize,
    effects: &Arc<Effects>,
) -> Result<(), Failure> {
    let seen = Arc::clone(effects);
    let handler = move |job: Job<Bytes>| {
        let id = id_of(&job.payload);
        if let Some(i) = id {
            seen.happened(i);
        }
        async move { id.map(|_| ()).ok_or_else(|| JobError::dead("not our payload")) }
    };
    let worker =
        Worker::builder(queue).concurrency(concurrency).lease(LEASE).handler(handler).start()?;
    if tokio::time::timeout(HANG, effects.all()).await.is_err() {
        return Err(format!("jobs were lost: only {} had their effect", effects.done()).into());
    }
    let report = worker.stop(Duration::from_secs(10)).await;
    let done = usize::try_from(report.totals.done).unwrap_or(usize::MAX);
    require(done == effects.done(), || format!("not each job was acknowledged: {report:?}"))
}
