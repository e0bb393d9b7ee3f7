//! What a claim costs in a queue of many lanes: the same backlog in few and in many, claimed and
//! completed in turns, and claimed one by one. The calls that the server ran are counted by its own
//! statistics, those of the scripts' commands included.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use emq_core::Queue;
use emq_keys::BrandedId;
use emq_scripts::LaneClaim;

use crate::board::{Board, Bound};
use crate::figures::{median, ratio};
use crate::ground::{Ground, LEASE};
use crate::turns::{settled, turn};
use crate::{Failure, Plan, require};

/// The two sides.
const LANES: [usize; 2] = [1_000, 100_000];
/// Jobs of each side.
const BACKLOG: usize = 200_000;
/// Jobs of one turn.
const BATCH: usize = 100;
/// What lanes may cost: the time at the most of them, to the time at the fewest.
const TARGET: f64 = 1.3;

/// Of one round.
struct Round {
    took: Duration,
    /// Calls of the server by command.
    calls: BTreeMap<String, i64>,
}

impl Round {
    fn total(&self) -> i64 {
        self.calls.values().sum()
    }
}

pub(crate) async fn measure(plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    // So few that no lane runs empty over all rounds, which would spare it a push.
    let count = plan.size(40, 70);
    let ground = Ground::start().await?;
    let mut queues = Vec::new();
    for lanes in LANES {
        let queue = ground.queue("lanes")?;
        let names = ground.lanes(lanes).await?;
        ground.fill(&queue, BACKLOG, &names).await?;
        queues.push(queue);
    }
    let work = async |queue: &Queue| turns(queue, count).await;
    compare("turn", plan, board, &ground, &queues, work).await?;
    let work = async |queue: &Queue| singles(queue, count * 10).await;
    compare("lane_claim", plan, board, &ground, &queues, work).await
}

async fn compare(
    what: &str,
    plan: &Plan,
    board: &mut Board,
    ground: &Ground,
    queues: &[Queue],
    work: impl AsyncFn(&Queue) -> Result<Duration, Failure>,
) -> Result<(), Failure> {
    let mut rounds: Vec<Vec<Round>> = queues.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.rounds {
        for (queue, rounds) in queues.iter().zip(&mut rounds) {
            let before = ground.commands().await?;
            let took = work(queue).await?;
            let mut calls = ground.commands().await?;
            for (command, n) in before {
                *calls.entry(command).or_default() -= n;
            }
            calls.retain(|command, n| *n != 0 && command != "info");
            rounds.push(Round { took, calls });
        }
    }
    for (lanes, rounds) in LANES.iter().zip(&rounds) {
        println!("  {what}, {lanes} lanes: {:?}", rounds.last().map(|round| &round.calls));
    }
    let [few, many] = &rounds[..] else { return Err("there are two sides".into()) };
    let times = |rounds: &[Round]| -> Vec<f64> {
        rounds.iter().map(|round| round.took.as_secs_f64()).collect()
    };
    let (shorts, longs) = (times(few), times(many));
    let [short, long] = [&shorts, &longs].map(|times| median(times.iter().copied()));
    let measured = format!("{:.1} ms and {:.1} ms", short * 1e3, long * 1e3);
    let target = format!("{what}, time at 100,000 lanes to 1,000");
    board.judge(&target, measured, ratio(&longs, &shorts), Bound::AtMost(TARGET));
    // A lane's last job leaves with an LPOP where another has an LMOVE: the number counts.
    let apart = few.iter().zip(many).map(|(few, many)| (many.total() - few.total()).abs()).max();
    let calls = many.last().map_or(0, Round::total);
    let target = format!("{what}, calls apart at 100,000 lanes and 1,000");
    let measured = format!("{calls} calls a round");
    board.judge(&target, measured, apart.unwrap_or(0) as f64, Bound::AtMost(0.0));
    Ok(())
}

/// Turns that settle what the one before claimed.
async fn turns(queue: &Queue, count: usize) -> Result<Duration, Failure> {
    let mut held: Vec<(BrandedId, u64)> = Vec::new();
    let begun = Instant::now();
    for n in 0..=count {
        let settles: Vec<_> = held.iter().map(|(id, token)| settled(*id, *token)).collect();
        let claim = if n == count { 0 } else { BATCH };
        let turned = queue.bus().fenced().call(queue.keys(), &turn(claim, &settles)).await?;
        let (jobs, verdicts) = (turned.jobs.len(), &turned.verdicts);
        require(jobs == claim, || format!("{jobs} jobs claimed of {claim}"))?;
        let done = |said: &emq_scripts::SettleVerdict| *said == emq_scripts::SettleVerdict::Done;
        require(verdicts.iter().all(done), || format!("not all settled: {verdicts:?}"))?;
        held = turned.jobs.iter().map(|job| (job.id, job.token)).collect();
    }
    Ok(begun.elapsed())
}

/// Claims one by one; what they hold stays held.
async fn singles(queue: &Queue, count: usize) -> Result<Duration, Failure> {
    let begun = Instant::now();
    for _ in 0..count {
        let call = LaneClaim { lease: LEASE, ticket: Some("bench.2") };
        let claimed = queue.bus().fenced().call(queue.keys(), &call).await?;
        require(claimed.is_some(), || "the backlog is too short".to_owned())?;
    }
    Ok(begun.elapsed())
}
