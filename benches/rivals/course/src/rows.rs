//! The rows, one after the other.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use contender::{Asked, Effects, Report, Waits};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, timeout};

use crate::patience::{self, all_acknowledged};
use crate::{Fault, Handler, Rival};

/// Jobs in one bulk call.
const BULK: usize = 1000;
/// Tasks that share a client.
const TASKS: usize = 50;
/// Between two jobs into an idle worker.
const PICKUP_EVERY: Duration = Duration::from_millis(3);
/// How long a handler takes while the server is killed.
const RECOVERY_TAKES: Duration = Duration::from_millis(1);

/// Does what the referee asks of this rival.
pub async fn run<R: Rival>() -> ExitCode {
    let asked = match Asked::from_env() {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    Report::versions(R::versions());
    for (row, n) in asked.rows {
        let report = Report::of(&row, n);
        match guarded::<R>(&asked.url, &row, n).await {
            Ok(()) => {}
            Err(Fault::Absent(why)) => report.absent(&why),
            Err(Fault::Failed(what)) => report.failed(&what),
        }
    }
    ExitCode::SUCCESS
}

/// One row in a task of its own: a rival that panics or hangs ends its row and no other.
async fn guarded<R: Rival>(url: &str, row: &str, n: usize) -> Result<(), Fault> {
    if let Some(why) = R::lacks(row) {
        return Err(Fault::Absent(why.to_owned()));
    }
    let (url, name) = (url.to_owned(), row.to_owned());
    let mut running = tokio::spawn(async move { one::<R>(&url, &name, n).await });
    match timeout(patience::ROW, &mut running).await {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => Err(Fault::Failed(panic.to_string())),
        Err(_) => {
            running.abort();
            Err(Fault::Failed(format!("not done within {} s", patience::ROW.as_secs())))
        }
    }
}

async fn one<R: Rival>(url: &str, row: &str, n: usize) -> Result<(), Fault> {
    let rival = R::open(url, row).await?;
    let report = Report::of(row, n);
    match row {
        "enqueue_1by1" => one_by_one(&rival, &report, n).await,
        "enqueue_50" => from_50_tasks(rival, &report, n).await,
        "enqueue_bulk" => {
            let start = Instant::now();
            fill(&rival, n).await?;
            report.enqueued(start.elapsed());
            Ok(())
        }
        "process_c1" => process(&rival, &report, n, 1).await,
        "process_c10" => process(&rival, &report, n, 10).await,
        "process_c50" => process(&rival, &report, n, 50).await,
        "process_c200" => process(&rival, &report, n, 200).await,
        "idle_pickup_ms" => idle_pickup(rival, &report, n).await,
        "bytes_a_job" => bytes_a_job(&rival, &report, n).await,
        "recovery" => recovery(&rival, &report, n).await,
        "transactional" => {
            report.line(rival.transactional(n).await?);
            Ok(())
        }
        _ => Err(Fault::Absent("no such row".to_owned())),
    }
}

async fn one_by_one<R: Rival>(rival: &R, report: &Report<'_>, n: usize) -> Result<(), Fault> {
    let start = Instant::now();
    for i in 0..n {
        rival.enqueue(i).await?;
    }
    report.enqueued(start.elapsed());
    Ok(())
}

async fn from_50_tasks<R: Rival>(rival: R, report: &Report<'_>, n: usize) -> Result<(), Fault> {
    let rival = Arc::new(rival);
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    for _ in 0..TASKS {
        let (rival, next) = (rival.clone(), next.clone());
        tasks.spawn(async move {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= n {
                    return Ok::<(), Fault>(());
                }
                rival.enqueue(i).await?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    report.enqueued(start.elapsed());
    Ok(())
}

async fn fill<R: Rival>(rival: &R, n: usize) -> Result<(), Fault> {
    for from in (0..n).step_by(BULK) {
        rival.enqueue_bulk(from..n.min(from + BULK)).await?;
    }
    Ok(())
}

async fn process<R: Rival>(
    rival: &R,
    report: &Report<'_>,
    n: usize,
    concurrency: usize,
) -> Result<(), Fault> {
    fill(rival, n).await?;
    let effects = Arc::new(Effects::of(n));
    let start = Instant::now();
    let mut worker = rival.work(concurrency, Handler::no_op(&effects)).await?;
    let done = all_acknowledged(rival, &mut worker, &effects, n, patience::IDLE).await;
    let took = start.elapsed();
    worker.stop().await;
    done?;
    report.worked(took, &effects);
    Ok(())
}

async fn idle_pickup<R: Rival>(rival: R, report: &Report<'_>, n: usize) -> Result<(), Fault> {
    let rival = Arc::new(rival);
    let effects = Arc::new(Effects::of(n));
    let started: Arc<[OnceLock<Instant>]> = (0..n).map(|_| OnceLock::new()).collect();
    let seen = started.clone();
    let handler = Handler::no_op(&effects).on_start(move |i| {
        // A job that starts twice waited until its first start.
        let _ = seen[i].set(Instant::now());
    });
    let mut worker = rival.work(10, handler).await?;

    let mut sent = Vec::with_capacity(n);
    let mut enqueueing = JoinSet::new();
    let mut next = tokio::time::interval(PICKUP_EVERY);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for i in 0..n {
        next.tick().await;
        sent.push(Instant::now());
        let rival = rival.clone();
        enqueueing.spawn(async move { rival.enqueue(i).await });
    }
    while let Some(done) = enqueueing.join_next().await {
        done??;
    }
    let done = all_acknowledged(&*rival, &mut worker, &effects, n, patience::IDLE).await;
    worker.stop().await;
    done?;

    let mut waits = Waits::default();
    for (sent, started) in sent.iter().zip(started.iter()) {
        let started = started.get().ok_or_else(|| Fault::failed("a job that never started"))?;
        waits.add(started.duration_since(*sent));
    }
    report.picked_up(waits);
    Ok(())
}

async fn bytes_a_job<R: Rival>(rival: &R, report: &Report<'_>, n: usize) -> Result<(), Fault> {
    let before = rival.stored_bytes().await?;
    fill(rival, n).await?;
    let grown = rival.stored_bytes().await?.saturating_sub(before);
    report.line(json!({ "n": n, "bytes": grown / n.max(1) as u64 }));
    Ok(())
}

async fn recovery<R: Rival>(rival: &R, report: &Report<'_>, n: usize) -> Result<(), Fault> {
    fill(rival, n).await?;
    let effects = Arc::new(Effects::of(n));
    let handler = Handler::no_op(&effects).takes(RECOVERY_TAKES).on_start(move |_| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        let served_us = u64::try_from(now.as_micros()).expect("a clock before 500,000");
        Report::of("recovery", n).line(json!({ "served_us": served_us }));
    });
    let mut worker = rival.work(10, handler).await?;
    let idle = patience::IDLE_AFTER_A_KILL;
    let done = all_acknowledged(rival, &mut worker, &effects, n, idle).await;
    worker.stop().await;
    done?;
    report.line(json!({ "n": n, "done": effects.done(), "twice": effects.twice() }));
    Ok(())
}
