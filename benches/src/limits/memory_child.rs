//! A worker in a process that counts its own heap: `limits-memory <url> <queue> <held> <jobs>`.
//!
//! It works so many jobs, with at most so many in handlers at once, and prints what it grew by; then
//! it holds so many, and prints what it has grown by now.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use emq_core::{Bus, Job, JobError, Worker};
use peak_alloc::PeakAlloc;
use tokio::sync::{Notify, Semaphore};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// A bound that only a lost job reaches.
const HANG: Duration = Duration::from_secs(300);

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(run(&words)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("limits-memory: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run(words: &[String]) -> Result<(), Failure> {
    let [url, queue, held, jobs] = words else {
        return Err("limits-memory <url> <queue> <held> <jobs>".into());
    };
    let (held, jobs): (usize, usize) = (held.parse()?, jobs.parse()?);
    let queue = Bus::connect(url).await?.queue(queue)?;
    // Paid once by whoever connects, not by a job.
    queue.counts().await?;
    let (heap, resident) = (HEAP.current_usage(), resident());
    HEAP.reset_peak_usage();
    let most = tokio::time::timeout(HANG, work(&queue, held, jobs)).await;
    let most = most.map_err(|_| "jobs were lost")??;
    println!(
        "{{\"heap\":{},\"resident\":{},\"holding\":{}}}",
        most.heap.saturating_sub(heap),
        most.resident.saturating_sub(resident),
        most.holding.saturating_sub(heap),
    );
    Ok(())
}

/// In bytes: the most while jobs were worked, and the heap while as many were held as may be.
struct Most {
    heap: usize,
    resident: usize,
    holding: usize,
}

/// Works exactly `jobs`, then holds as many as may be, which go back.
async fn work(queue: &emq_core::Queue, held: usize, jobs: usize) -> Result<Most, Failure> {
    let (most, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(jobs)));
    let (holding, full) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let handler = {
        let (most, left) = (Arc::clone(&most), Arc::clone(&left));
        let (holding, full) = (Arc::clone(&holding), Arc::clone(&full));
        move |_: Job<Bytes>| {
            let (most, left) = (Arc::clone(&most), Arc::clone(&left));
            let (holding, full) = (Arc::clone(&holding), Arc::clone(&full));
            async move {
                let Ok(permit) = left.try_acquire() else {
                    if holding.fetch_add(1, Ordering::Relaxed) + 1 == held {
                        full.notify_one();
                    }
                    return std::future::pending().await;
                };
                permit.forget();
                tokio::time::sleep(Duration::from_millis(2)).await;
                // One look in a hundred: it costs a system call.
                if left.available_permits().is_multiple_of(100) {
                    most.fetch_max(resident(), Ordering::Relaxed);
                }
                Ok::<(), JobError>(())
            }
        }
    };
    let worker = Worker::builder(queue).concurrency(held).handler(handler).start()?;
    full.notified().await;
    while worker.totals().done < jobs as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (heap, holding) = (HEAP.peak_usage(), HEAP.current_usage());
    let report = worker.stop(Duration::ZERO).await;
    if report.totals.done != jobs as u64 {
        return Err(format!("{jobs} jobs were to be worked: {report:?}").into());
    }
    Ok(Most { heap, resident: most.load(Ordering::Relaxed), holding })
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<usize> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0) * 1024
}
