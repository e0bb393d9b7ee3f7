//! The worker's own figures: `cargo bench -p emq-core --bench worker [-- part ...] [name=value ...]`.
//!
//! Parts: `flat`, `lanes`, `pickup`, `delayed`, `memory`; all but `memory` unless named. Each figure
//! is of this machine and this moment: compare ratios taken in one run.
#![allow(clippy::print_stdout)] // Its output is what it is for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use emq_core::{Bus, EnqueueOptions, Enqueued, Job, NewJob, Phase, Queue, Worker};
use emq_keys::{BrandedId, Namespace};
use emq_scripts::{Settle, SettleOutcome, Turn};
use emq_testkit::Valkey;
use emq_wire::Script;
use tokio::sync::{Notify, mpsc};

const LEASE: Duration = Duration::from_secs(600);
const PAYLOAD: &[u8] = &[b'x'; 100];
/// Jobs of one call of the script when its own limit is taken.
const BATCH: usize = 100;

struct Asked {
    parts: Vec<String>,
    jobs: usize,
    samples: usize,
    rounds: usize,
}

impl Asked {
    fn read() -> Asked {
        let mut asked = Asked { parts: Vec::new(), jobs: 40_000, samples: 200, rounds: 3 };
        for word in std::env::args().skip(1).filter(|word| word != "--bench") {
            match word.split_once('=') {
                Some(("jobs", n)) => asked.jobs = n.parse().expect("jobs=<number>"),
                Some(("samples", n)) => asked.samples = n.parse().expect("samples=<number>"),
                Some(("rounds", n)) => asked.rounds = n.parse().expect("rounds=<number>"),
                _ => asked.parts.push(word),
            }
        }
        if asked.parts.is_empty() {
            asked.parts = ["flat", "lanes", "pickup", "delayed"].map(str::to_owned).into();
        }
        asked
    }

    fn wants(&self, part: &str) -> bool {
        self.parts.iter().any(|wanted| wanted == part)
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let asked = Asked::read();
        let valkey = Valkey::start().expect("a server");
        let bus = Bus::connect(&valkey.url()).await.expect("a bus");
        if asked.wants("flat") {
            flat(&bus, &asked).await;
        }
        if asked.wants("lanes") {
            lanes(&bus, &asked).await;
        }
        if asked.wants("pickup") {
            pickup(&bus, &asked).await;
        }
        if asked.wants("delayed") {
            delayed(&bus, &asked).await;
        }
        if asked.wants("memory") {
            memory(&bus, &asked).await;
        }
    });
}

fn queue(bus: &Bus, name: &str) -> Queue {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    bus.queue(format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))).unwrap()
}

async fn fill(queue: &Queue, jobs: usize) -> Vec<BrandedId> {
    let mut ids = Vec::with_capacity(jobs);
    while ids.len() < jobs {
        let mut list = Vec::new();
        for _ in 0..(jobs - ids.len()).min(10_000) {
            let id = queue.bus().mint_job().await.unwrap();
            ids.push(id);
            list.push(NewJob::new(id, PAYLOAD));
        }
        queue.enqueue_many(&list).await.unwrap();
    }
    ids
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn quantile(times: &mut [Duration], q: f64) -> Duration {
    times.sort();
    times[((times.len() - 1) as f64 * q).round() as usize]
}

/// What one run came to.
#[derive(Clone, Copy, Default)]
struct Run {
    jobs_per_second: f64,
    /// Time on a processor in microseconds per job, which a busy machine lengthens less.
    client_us: f64,
    server_us: f64,
}

impl Run {
    fn median(runs: &[Run]) -> Run {
        let of = |figure: fn(&Run) -> f64| median(runs.iter().map(figure).collect());
        Run {
            jobs_per_second: of(|run| run.jobs_per_second),
            client_us: of(|run| run.client_us),
            server_us: of(|run| run.server_us),
        }
    }

    fn print(&self, what: &str, limit: Option<f64>) {
        let Run { jobs_per_second, client_us, server_us } = self;
        let share = limit.map(|limit| format!("{:.2} of it, ", jobs_per_second / limit));
        let share = share.unwrap_or_default();
        println!(
            "{what:<42} {jobs_per_second:>9.0} jobs/s, {share}{client_us:.1} us here and \
             {server_us:.1} us there a job"
        );
    }
}

/// Time on a processor so far, in microseconds: of this thread, and of the server.
async fn spent(bus: &Bus) -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let here = stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    let info = emq_wire::Cmd::new("INFO").arg("cpu");
    let info = bus.fenced().connection().command(info).await.unwrap();
    let info = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
    let of = |field: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|seconds| seconds.trim().parse::<f64>().ok()).unwrap_or(0.0)
    };
    let there = of("used_cpu_user_main_thread:") + of("used_cpu_sys_main_thread:");
    (here.unwrap_or(0.0) / 1e3, there * 1e6)
}

async fn measured(bus: &Bus, jobs: usize, work: impl Future<Output = ()>) -> Run {
    let (here, there) = spent(bus).await;
    let begun = Instant::now();
    work.await;
    let took = begun.elapsed();
    let (here_after, there_after) = spent(bus).await;
    Run {
        jobs_per_second: jobs as f64 / took.as_secs_f64(),
        client_us: (here_after - here) / jobs as f64,
        server_us: (there_after - there) / jobs as f64,
    }
}

/// A worker whose handler does nothing, until it has done all.
async fn worked(queue: &Queue, concurrency: usize, jobs: usize) {
    let left = Arc::new(AtomicUsize::new(jobs));
    let over = Arc::new(Notify::new());
    let handler = {
        let (left, over) = (Arc::clone(&left), Arc::clone(&over));
        move |_: Job<Bytes>| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                over.notify_one();
            }
            async { Ok(()) }
        }
    };
    let worker = Worker::builder(queue)
        .concurrency(concurrency)
        .lease(LEASE)
        .handler(handler)
        .start()
        .unwrap();
    over.notified().await;
    let report = worker.stop(Duration::from_secs(10)).await;
    assert_eq!(report.totals.done, jobs as u64, "{report:?}");
}

/// The script alone: settle a hundred and claim a hundred, two calls in flight.
async fn limit(bus: &Bus, jobs: usize) -> Run {
    let queue = queue(bus, "limit");
    let ids = fill(&queue, jobs).await;
    let batches: Vec<&[BrandedId]> = ids.chunks(BATCH).collect();
    let fenced = bus.fenced();
    let mut commands = Vec::new();
    for k in 0..batches.len() + 2 {
        let done = k.checked_sub(2).map_or(&[][..], |k| batches[k]);
        let settles: Vec<Settle<'_>> = done
            .iter()
            .map(|id| Settle {
                id: *id,
                token: 1,
                ticket: Some("bench.1"),
                outcome: SettleOutcome::Complete,
            })
            .collect();
        let turn = Turn {
            ticket: Some("bench.1"),
            lease: LEASE,
            claim: BATCH as u32,
            promote: 200,
            reap: 0,
            lost_cap: 10,
            max_attempts: 25,
            settles: &settles,
            extensions: &[],
        };
        commands.push(fenced.command(queue.keys(), &turn));
    }
    let run = measured(bus, jobs, async {
        let mut flights = VecDeque::new();
        for command in commands {
            let connection = fenced.connection().clone();
            flights.push_back(tokio::spawn(async move { connection.command(command).await }));
            if flights.len() == 2 {
                let reply = flights.pop_front().unwrap().await.unwrap().unwrap();
                assert!(reply.as_error().is_none(), "{:?}", reply.as_error());
            }
        }
        flights.pop_front().unwrap().await.unwrap().unwrap();
    });
    let run = run.await;
    assert_eq!(queue.counts().await.unwrap().active, 0);
    run
}

async fn flat(bus: &Bus, asked: &Asked) {
    let mut limits = Vec::new();
    let mut runs = vec![Vec::new(); 4];
    let sizes = [1, 10, 50, 200];
    for _ in 0..asked.rounds {
        limits.push(limit(bus, asked.jobs).await);
        for (runs, c) in runs.iter_mut().zip(sizes) {
            let jobs = if c == 1 { asked.jobs / 4 } else { asked.jobs };
            let queue = queue(bus, "flat");
            fill(&queue, jobs).await;
            runs.push(measured(bus, jobs, worked(&queue, c, jobs)).await);
        }
    }
    let limit = Run::median(&limits);
    limit.print("turn alone, 100 a call, two in flight", None);
    for (runs, c) in runs.iter().zip(sizes) {
        Run::median(runs).print(&format!("flat, c={c}"), Some(limit.jobs_per_second));
    }
}

async fn lanes(bus: &Bus, asked: &Asked) {
    let mut runs = Vec::new();
    let jobs = asked.jobs / 4;
    for _ in 0..asked.rounds {
        let queue = queue(bus, "lanes");
        let lanes: Vec<BrandedId> = fresh(bus, 100).await;
        for n in 0..jobs {
            let lane = queue.lane(lanes[n % lanes.len()]);
            let _ = lane.enqueue(PAYLOAD).await.unwrap();
        }
        runs.push(measured(bus, jobs, worked(&queue, 50, jobs)).await);
    }
    Run::median(&runs).print("100 lanes, c=50", None);
}

async fn fresh(bus: &Bus, n: usize) -> Vec<BrandedId> {
    let namespace = Namespace::new("TEN").unwrap();
    let mut ids = Vec::new();
    for _ in 0..n {
        ids.push(bus.mint(namespace).await.unwrap());
    }
    ids
}

async fn parked(queue: &Queue, concurrency: usize) -> (Worker, mpsc::UnboundedReceiver<Instant>) {
    let (told, heard) = mpsc::unbounded_channel();
    let worker = Worker::builder(queue)
        .concurrency(concurrency)
        .lease(LEASE)
        .beat(Duration::from_secs(60))
        .handler(move |_: Job<Bytes>| {
            let _ = told.send(Instant::now());
            async { Ok(()) }
        })
        .start()
        .unwrap();
    rest(&worker).await;
    (worker, heard)
}

async fn rest(worker: &Worker) {
    worker.status().wait_for(|status| status.phase == Phase::Parked).await.unwrap();
}

async fn pickup(bus: &Bus, asked: &Asked) {
    let queue = queue(bus, "pickup");
    let (worker, mut heard) = parked(&queue, 10).await;
    let (mut times, mut trips) = (Vec::new(), Vec::new());
    let bare = Script::new("bare", "return 1");
    let idle = Duration::from_millis(1);
    for _ in 0..asked.samples * 5 {
        rest(&worker).await;
        // Both begin on a machine that was idle as long.
        tokio::time::sleep(idle).await;
        let begun = Instant::now();
        bus.fenced().connection().command(bare.call(0, 0)).await.unwrap();
        trips.push(begun.elapsed());
        tokio::time::sleep(idle).await;
        let begun = Instant::now();
        let _ = queue.enqueue(PAYLOAD).await.unwrap();
        times.push(heard.recv().await.unwrap().saturating_duration_since(begun));
    }
    let trip = quantile(&mut trips, 0.5);
    let half = quantile(&mut times, 0.5);
    println!(
        "idle pickup                                p50 {half:?}, p99 {:?}; {:.2} bare round trips of {trip:?}",
        quantile(&mut times, 0.99),
        half.as_secs_f64() / trip.as_secs_f64()
    );
}

async fn delayed(bus: &Bus, asked: &Asked) {
    let queue = queue(bus, "delayed");
    let mut workers = Vec::new();
    let (worker, mut heard) = parked(&queue, 10).await;
    workers.push(worker);
    let mut late = Vec::new();
    for n in 0..asked.samples {
        for worker in &workers {
            rest(worker).await;
        }
        let delay = Duration::from_millis(20 + (n % 37) as u64);
        let begun = Instant::now();
        let options = EnqueueOptions::new().delay(delay);
        let Enqueued::Admitted(_) = queue.enqueue_with(PAYLOAD, &options).await.unwrap() else {
            panic!("a fresh id")
        };
        late.push((heard.recv().await.unwrap() - begun).saturating_sub(delay));
    }
    println!(
        "delayed, everyone parked, beat 60 s        late by p50 {:?}, p99 {:?}, most {:?}",
        quantile(&mut late, 0.5),
        quantile(&mut late, 0.99),
        quantile(&mut late, 1.0)
    );
}

/// Resident memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

async fn memory(bus: &Bus, asked: &Asked) {
    for jobs in [asked.jobs, asked.jobs * 5] {
        let queue = queue(bus, "memory");
        fill(&queue, jobs).await;
        let before = resident();
        let most = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&most);
        let worker = Worker::builder(&queue)
            .concurrency(1_000)
            .lease(LEASE)
            .handler(move |_: Job<Bytes>| {
                let seen = Arc::clone(&seen);
                async move {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    seen.fetch_max(resident_sampled(), Ordering::Relaxed);
                    Ok(())
                }
            })
            .start()
            .unwrap();
        while worker.totals().done < jobs as u64 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        worker.stop(Duration::from_secs(10)).await;
        let most = most.load(Ordering::Relaxed);
        println!(
            "c=1000, backlog {jobs:<8}                    {before} KiB before, {most} KiB at most"
        );
    }
}

/// Looks at one job in a hundred.
fn resident_sampled() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if NEXT.fetch_add(1, Ordering::Relaxed).is_multiple_of(100) { resident() } else { 0 }
}
