//! What the tests of schedules stand on: schedulers that are started and stopped, and a worker that
//! tells of each tick's job.
#![allow(dead_code)] // Each test binary uses a part of it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use emq_core::{
    Bus, Missed, Queue, QueueSchedules, Schedule, SchedulerStatus, SchedulerTotals, Timing, Worker,
};
use emq_keys::{BrandedId, Namespace};
use emq_wire::Cmd;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ground::crew::Crew;
use super::ground::{shared, soon};

/// A bus, a queue of the test's own, and its timetable.
pub(crate) async fn recurring() -> (Bus, Queue, QueueSchedules) {
    let (bus, queue) = shared().await;
    let table = bus.schedules().queue(queue.name().as_str()).unwrap();
    (bus, queue, table)
}

/// A schedule of an interval, in milliseconds, that makes up each tick that it missed.
pub(crate) fn every(name: &str, interval_ms: u64) -> Schedule {
    let timing = Timing::every(Duration::from_millis(interval_ms)).unwrap();
    Schedule::new(name, timing).unwrap().payload("p").missed(Missed::All)
}

/// A schedule that doesn't tick while a test runs.
pub(crate) fn seldom(name: &str) -> Schedule {
    let timing = Timing::every(Duration::from_secs(86_400 * 300)).unwrap();
    Schedule::new(name, timing).unwrap()
}

/// The server's clock, in unix milliseconds.
pub(crate) async fn server_ms(bus: &Bus) -> u64 {
    let reply = bus.fenced().connection().command(Cmd::new("TIME")).await.unwrap();
    let part = |at: usize| -> u64 {
        let bytes = reply.as_array().unwrap()[at].as_bytes().unwrap();
        std::str::from_utf8(bytes).unwrap().parse().unwrap()
    };
    part(0) * 1_000 + part(1) / 1_000
}

/// Waits until the server's clock has passed a moment.
pub(crate) async fn wait_past(bus: &Bus, unix_ms: u64) {
    super::ground::until("the time", async || server_ms(bus).await > unix_ms).await;
}

/// The id that a tick's job must have.
pub(crate) fn id_of(queue: &Queue, name: &str, tick_ms: u64) -> BrandedId {
    let from = format!("{}/{name}", queue.name());
    BrandedId::derive_at(Namespace::JOB, tick_ms, from.as_bytes()).unwrap()
}

/// A scheduler that runs.
pub(crate) struct Running {
    pub(crate) status: watch::Receiver<SchedulerStatus>,
    stop: CancellationToken,
    task: JoinHandle<Result<SchedulerTotals, emq_core::Error>>,
}

impl Running {
    pub(crate) fn start(bus: &Bus, queue: &Queue, beat: Duration) -> Running {
        let scheduler = bus.schedules().scheduler([queue.name().as_str()]).unwrap().beat(beat);
        let (status, stop) = (scheduler.status(), CancellationToken::new());
        let stopped = stop.clone().cancelled_owned();
        Running { status, stop, task: tokio::spawn(scheduler.run(stopped)) }
    }

    /// Waits until it says so.
    pub(crate) async fn until(&mut self, holds: impl FnMut(&SchedulerStatus) -> bool) {
        soon("the scheduler", self.status.wait_for(holds)).await.unwrap();
    }

    /// Stops it as a program does that ends.
    pub(crate) async fn stop(self) -> SchedulerTotals {
        self.stop.cancel();
        soon("the end of a scheduler", self.task).await.unwrap().unwrap()
    }

    /// Ends it wherever it is, as a crash does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = soon("the end of a scheduler", self.task).await;
    }
}

/// A worker that completes each job at once, and what it was given.
pub(crate) struct Served {
    crew: Crew,
    pub(crate) worker: Worker,
    /// By tick: the payload.
    pub(crate) ticks: BTreeMap<u64, Bytes>,
}

impl Served {
    pub(crate) fn start(queue: &Queue) -> Served {
        let crew = Crew::open();
        // A job whose claim was lost with a server comes back after its lease.
        let lease = Duration::from_secs(1);
        let worker = Worker::builder(queue).lease(lease).handler(crew.clone()).start().unwrap();
        Served { crew, worker, ticks: BTreeMap::new() }
    }

    /// The next tick's job. Each tick has one job, its id is derived from it, and it comes once: a
    /// job that was admitted twice, the first one long gone, would be given out twice.
    pub(crate) async fn next(&mut self, queue: &Queue, name: &str) -> u64 {
        let started = self.crew.next().await;
        let tick_ms = started.id.unix_ms();
        assert_eq!(started.id, id_of(queue, name, tick_ms));
        let before = self.ticks.insert(tick_ms, started.payload);
        // One whose claim or settle was lost comes again, under a higher token.
        let again = before.is_some() && started.token == 1;
        assert!(!again, "the tick at {tick_ms} has had a job before");
        tick_ms
    }

    /// Takes jobs until so many ticks from a moment on had one.
    pub(crate) async fn until_from(
        &mut self,
        from_ms: u64,
        count: usize,
        queue: &Queue,
        name: &str,
    ) {
        while self.ticks.range(from_ms..).count() < count {
            self.next(queue, name).await;
        }
    }

    /// Takes jobs until each tick has had one, from the first on, so many of them.
    pub(crate) async fn until_whole(
        &mut self,
        ticks: impl Iterator<Item = u64>,
        queue: &Queue,
        name: &str,
    ) {
        for tick in ticks {
            while !self.ticks.contains_key(&tick) {
                self.next(queue, name).await;
            }
        }
    }

    /// Takes jobs until there were so many.
    pub(crate) async fn until(&mut self, count: usize, queue: &Queue, name: &str) {
        while self.ticks.len() < count {
            self.next(queue, name).await;
        }
    }

    /// Fails unless there is a job for each tick of an interval, from a moment to the last one seen.
    /// Jobs run beside each other, so a later one may be told of first: a tick counts as lost when
    /// many others have come meanwhile.
    pub(crate) async fn assert_whole(
        &mut self,
        from_ms: u64,
        interval_ms: u64,
        queue: &Queue,
        name: &str,
    ) {
        let mut gap = None;
        for _ in 0..50 {
            let ticks: Vec<u64> = self.ticks.range(from_ms..).map(|(tick, _)| *tick).collect();
            assert!(ticks.iter().all(|tick| tick % interval_ms == 0), "{ticks:?}");
            let apart = |two: &&[u64]| two[1] - two[0] != interval_ms;
            gap = ticks.windows(2).find(apart).map(<[u64]>::to_vec);
            if gap.is_none() {
                return;
            }
            self.next(queue, name).await;
        }
        panic!("a tick was lost between {gap:?}");
    }
}
