//! Latencies of an idle worker: from enqueue to handler, and of jobs that are due later.

use std::time::{Duration, Instant};

use bytes::Bytes;
use contender::payload;
use emq_core::{EnqueueOptions, Enqueued, Job, JobError, Phase, Queue, Worker};
use emq_wire::Script;
use tokio::sync::mpsc;

use crate::board::{Board, Bound};
use crate::figures::{median, ms, quantile};
use crate::ground::{Ground, HANG, LEASE};
use crate::pickup_floor::Floor;
use crate::{Failure, Plan, require};

/// Both sides of a pickup begin on a machine that was idle this long.
const IDLE: Duration = Duration::from_millis(1);
/// How late a delayed job may be at p99.
const LATE: Duration = Duration::from_millis(5);

pub(crate) async fn measure(plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    let ground = Ground::start().await?;
    picked_up(plan, board, &ground).await?;
    delayed(plan, board, &ground).await
}

/// A worker that has nothing to do, and what it begins.
struct Parked {
    worker: Worker,
    begun: mpsc::UnboundedReceiver<Instant>,
}

impl Parked {
    async fn on(queue: &Queue) -> Result<Parked, Failure> {
        let (tell, begun) = mpsc::unbounded_channel();
        let worker = Worker::builder(queue)
            .concurrency(10)
            .lease(LEASE)
            .beat(Duration::from_secs(60))
            .handler(move |_: Job<Bytes>| {
                // The receiver goes last.
                let _ = tell.send(Instant::now());
                async { Ok::<(), JobError>(()) }
            })
            .start()?;
        Ok(Parked { worker, begun })
    }

    async fn rest(&self) -> Result<(), Failure> {
        self.worker.status().wait_for(|status| status.phase == Phase::Parked).await?;
        Ok(())
    }

    async fn next(&mut self) -> Result<Instant, Failure> {
        let begun = tokio::time::timeout(HANG, self.begun.recv()).await;
        begun.map_err(|_| "a job was lost")?.ok_or_else(|| "the worker ended".into())
    }

    /// Each job ran once.
    async fn stop(mut self, jobs: usize) -> Result<(), Failure> {
        let report = self.worker.stop(Duration::from_secs(10)).await;
        require(self.begun.try_recv().is_err(), || "a job ran twice".to_owned())?;
        require(report.totals.done == jobs as u64, || format!("of {jobs} jobs: {report:?}"))
    }
}

async fn picked_up(plan: &Plan, board: &mut Board, ground: &Ground) -> Result<(), Failure> {
    let samples = plan.size(100, 400);
    let queue = ground.queue("pickup")?;
    let mut parked = Parked::on(&queue).await?;
    let empty = Script::new("bare", "return 1");
    let mut floor = Floor::on(ground).await?;
    let (mut times, mut trips, mut floors) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..samples * plan.rounds {
        parked.rest().await?;
        tokio::time::sleep(IDLE).await;
        let begun = Instant::now();
        ground.command(empty.call(0, 0)).await?;
        trips.push(begun.elapsed());
        tokio::time::sleep(IDLE).await;
        floors.push(floor.pick_up(ground, i).await?);
        tokio::time::sleep(IDLE).await;
        let begun = Instant::now();
        let Enqueued::Admitted(_) = queue.enqueue(payload(i)).await? else {
            return Err("a fresh job wasn't admitted".into());
        };
        times.push(parked.next().await?.saturating_duration_since(begun));
    }
    parked.stop(times.len()).await?;
    let halves = |times: &mut Vec<Duration>| {
        median(times.chunks_mut(samples).map(|round| quantile(round, 0.5).as_secs_f64()))
    };
    let (half, trip, lowest) = (halves(&mut times), halves(&mut trips), halves(&mut floors));
    let (p99, trip_p99) = (quantile(&mut times, 0.99), quantile(&mut trips, 0.99));
    let [half_time, trip_time] = [half, trip].map(Duration::from_secs_f64);
    let measured = format!("{} beside a bare round trip of {}", ms(half_time), ms(trip_time));
    board.judge("idle pickup, p50, in round trips", measured, half / trip, Bound::AtMost(2.5));
    let measured = ms(Duration::from_secs_f64(lowest)).to_string();
    board.tell("the same calls, raw, beside a bare trip", measured, Some(lowest / trip));
    board.tell("idle pickup, p50, beside the same calls", ms(half_time), Some(half / lowest));
    let measured = format!("{}, a bare round trip's {}", ms(p99), ms(trip_p99));
    board.tell("idle pickup, p99", measured, Some(p99.as_secs_f64() / trip_p99.as_secs_f64()));
    Ok(())
}

async fn delayed(plan: &Plan, board: &mut Board, ground: &Ground) -> Result<(), Failure> {
    let samples = plan.size(100, 400);
    let queue = ground.queue("delayed")?;
    let mut parked = Parked::on(&queue).await?;
    let mut late = Vec::new();
    for n in 0..samples {
        parked.rest().await?;
        let delay = Duration::from_millis(20 + (n % 37) as u64);
        let begun = Instant::now();
        let options = EnqueueOptions::new().delay(delay);
        let Enqueued::Admitted(_) = queue.enqueue_with(payload(n), &options).await? else {
            return Err("a fresh job wasn't admitted".into());
        };
        let took = parked.next().await?.saturating_duration_since(begun);
        // Its time is by the server's clock, in whole milliseconds.
        require(took + Duration::from_millis(1) >= delay, || {
            format!("early: {took:?} of {delay:?}")
        })?;
        late.push(took.saturating_sub(delay));
    }
    parked.stop(late.len()).await?;
    let [half, p99, most] = [0.5, 0.99, 1.0].map(|q| quantile(&mut late, q));
    let measured = format!("late by p50 {}, p99 {}, most {}", ms(half), ms(p99), ms(most));
    let share = p99.as_secs_f64() / LATE.as_secs_f64();
    board.judge("delayed job, all parked, p99 to 5 ms", measured, share, Bound::AtMost(1.0));
    Ok(())
}
