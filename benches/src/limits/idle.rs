//! What parked workers send between two beats: nothing, however many they are.

use std::time::Duration;

use bytes::Bytes;
use emq_core::{Job, JobError, Phase, Worker};
use tokio::task::JoinSet;

use crate::board::{Board, Bound};
use crate::ground::{Ground, LEASE};
use crate::{Failure, Plan};

const PARKED: [usize; 3] = [1, 50, 500];
/// Longer than the run; a beat is never longer than half a lease.
const BEAT: Duration = Duration::from_secs(60);
/// How often it is looked whether the server has all of them parked.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) async fn measure(plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    let window = Duration::from_millis(plan.size(400, 2_000) as u64);
    for n in PARKED {
        // Of its own, since closing many lanes takes its time.
        let ground = Ground::start().await?;
        let workers = parked(&ground, n).await?;
        let mut most = 0;
        let mut which = Vec::new();
        for _ in 0..plan.rounds {
            let before = ground.commands().await?;
            tokio::time::sleep(window).await;
            let mut sent = ground.commands().await?;
            for (command, calls) in before {
                *sent.entry(command).or_default() -= calls;
            }
            // The question itself.
            sent.retain(|command, calls| *calls != 0 && command != "info");
            let total: i64 = sent.values().sum();
            if total > most {
                (most, which) = (total, sent.into_keys().collect());
            }
        }
        let target = format!("idle commands between beats, {n} parked");
        let seen =
            if which.is_empty() { String::new() } else { format!(" ({})", which.join(", ")) };
        let measured = format!("{most}{seen} in {window:?}, the most of {} looks", plan.rounds);
        board.judge(&target, measured, most as f64, Bound::AtMost(0.0));
        stop(workers).await;
    }
    Ok(())
}

async fn parked(ground: &Ground, n: usize) -> Result<Vec<Worker>, Failure> {
    let queue = ground.queue("idle")?;
    let mut workers = Vec::with_capacity(n);
    for _ in 0..n {
        let handler = |_: Job<Bytes>| async { Ok::<(), JobError>(()) };
        workers.push(Worker::builder(&queue).beat(BEAT).lease(LEASE).handler(handler).start()?);
    }
    for worker in &workers {
        worker.status().wait_for(|status| status.phase == Phase::Parked).await?;
    }
    // They have sent their last command; the server has still to read it.
    while ground.number("clients", "blocked_clients").await? < n as f64 {
        tokio::time::sleep(LOOK).await;
    }
    Ok(workers)
}

async fn stop(workers: Vec<Worker>) {
    let mut stopping = JoinSet::new();
    for worker in workers {
        stopping.spawn(async move { worker.stop(Duration::from_secs(5)).await });
    }
    stopping.join_all().await;
}
