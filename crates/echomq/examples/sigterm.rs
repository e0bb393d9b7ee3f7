//! A worker that stops gracefully on SIGTERM: it takes no more jobs, lets the short one finish and
//! hands the long one back, for another worker to claim at once.
//!
//! Needs no server: without `EMQ_VALKEY_URL` it starts one. Stop it with `kill <pid>` or Ctrl-C.
#![allow(clippy::print_stdout)] // An example speaks on standard output.

mod server;

use std::time::Duration;

use echomq::prelude::*;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let (url, _server) = server::find()?;
    let queue = Bus::connect(&url).await?.queue("exports")?.typed::<Duration>();
    let long = queue.job(&Duration::from_secs(3_600)).await?;
    let short = queue.job(&Duration::from_millis(500)).await?;
    queue.queue().enqueue_many(&[long, short]).await?;

    let (start, mut started) = tokio::sync::mpsc::channel(2);
    let worker = Worker::builder(&queue)
        .concurrency(2)
        .handler(move |job: Job<Duration>| {
            let start = start.clone();
            async move {
                start.send(()).await?;
                if job.payload < Duration::from_secs(60) {
                    // Begun when the stop is, and done within its grace.
                    job.stopping().cancelled().await;
                    tokio::time::sleep(job.payload).await;
                    return Ok(());
                }
                // Without this the worker would hand it back at the end of the grace.
                tokio::select! {
                    () = tokio::time::sleep(job.payload) => Ok(()),
                    () = job.stopping().cancelled() => Err(JobError::release()),
                }
            }
        })
        .start()?;
    for _ in 0..2 {
        started.recv().await.ok_or("the worker ended")?;
    }
    println!("process {} is at work", std::process::id());

    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    let report = worker.stop(Duration::from_secs(20)).await;
    println!("{} finished, {} handed back", report.finished, report.released);
    Ok(())
}
