//! A long job saves its progress, its process is killed in the middle, and another process goes on
//! where the last checkpoint was.
//!
//! Needs no server: without `EMQ_VALKEY_URL` it starts one. `checkpoints work <step>` is the process
//! that is killed; it gets stuck at that step.
#![allow(clippy::print_stdout)] // An example speaks on standard output.

mod server;

use std::process::Stdio;
use std::time::Duration;

use echomq::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;

const STEPS: u32 = 10;
/// How long a job of a killed process stays its own.
const LEASE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (url, _server) = server::find()?;
    let queue = Bus::connect(&url).await?.queue("reports")?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [role, step] = &args[..]
        && role == "work"
    {
        return work(&queue, Some(step.parse()?)).await;
    }

    println!("{:?}", queue.enqueue("the year's report").await?);
    let mut first = Command::new(std::env::current_exe()?)
        .args(["work", "3"])
        .env("EMQ_VALKEY_URL", &url)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let said = first.stdout.take().ok_or("no output")?;
    let mut said = BufReader::new(said).lines();
    while let Some(line) = said.next_line().await? {
        println!("first process: {line}");
        if line == "step 2 is saved" {
            first.kill().await?; // As the kernel would: nothing is flushed, nothing is settled.
            println!("first process: killed");
        }
    }
    work(&queue, None).await
}

/// Works until one job is done.
async fn work(queue: &Queue, stuck_at: Option<u32>) -> Result<(), Box<dyn std::error::Error>> {
    let (done, mut finished) = mpsc::channel(1);
    let worker = Worker::builder(queue)
        .lease(LEASE)
        .beat(LEASE / 2)
        .handler(move |job: Job<_>| {
            let done = done.clone();
            async move {
                report(&job, stuck_at).await?;
                Ok(done.send(job.attempt()).await?)
            }
        })
        .start()?;
    let attempt = finished.recv().await.ok_or("the worker ended")?;
    worker.stop(Duration::from_secs(5)).await;
    println!("done in attempt {attempt}");
    Ok(())
}

/// The long job. What it does at a step may happen twice, when it is killed between the step and
/// its checkpoint; what was saved is never done again.
async fn report<T>(job: &Job<T>, stuck_at: Option<u32>) -> Result<(), JobError> {
    let saved = match job.checkpoint() {
        Some(saved) => std::str::from_utf8(saved)?.parse::<u32>()?,
        None => 0,
    };
    println!("attempt {} begins after step {saved}", job.attempt());
    for n in saved + 1..=STEPS {
        let stuck = stuck_at == Some(n);
        tokio::time::sleep(Duration::from_millis(if stuck { 3_600_000 } else { 20 })).await;
        job.save(n.to_string().as_bytes()).await?;
        println!("step {n} is saved");
    }
    Ok(())
}
