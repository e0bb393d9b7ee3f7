//! Rows that look at one property: latency, memory, fairness.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use contender::{Effects, Waits};
use emq_core::{EnqueueOptions, Job, Phase, Queue, Worker};
use emq_wire::Cmd;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::work::{STOP_WITHIN, number};
use crate::{Failure, enqueue};

/// How often a job comes, whether or not the last was served.
const EVERY: Duration = Duration::from_millis(3);
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const CONCURRENCY: usize = 10;
const QUIET_TENANTS: usize = 10;

/// From the call of enqueue to the handler's start, in an open loop.
pub(crate) async fn pickup(
    queue: &Queue,
    n: usize,
    options: &EnqueueOptions,
) -> Result<Waits, Failure> {
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = Worker::builder(queue)
        .concurrency(CONCURRENCY)
        .handler(move |job: Job<Bytes>| {
            let started = Instant::now();
            // Nobody listens any more when the row is over.
            ready(number(&job.payload).map(|i| told.send((i, started)).unwrap_or(())))
        })
        .start()?;
    worker.status().wait_for(|status| status.phase == Phase::Parked).await?;
    let called = feed(queue, n, options).await?;
    let mut started: Vec<Option<Instant>> = vec![None; n];
    for _ in 0..n {
        let next = timeout(SERVED_WITHIN, heard.recv()).await;
        let (i, at) = next.map_err(|_| "a job was never served")?.ok_or("the worker is gone")?;
        started[i] = Some(at);
    }
    let mut waits = Waits::default();
    for (called, started) in called.iter().zip(&started) {
        waits.add(started.ok_or("a job was served twice")?.saturating_duration_since(*called));
    }
    worker.stop(STOP_WITHIN).await;
    Ok(waits)
}

/// When each job's enqueue was called.
async fn feed(queue: &Queue, n: usize, options: &EnqueueOptions) -> Result<Vec<Instant>, Failure> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut called = Vec::with_capacity(n);
    let mut calls = JoinSet::new();
    for i in 0..n {
        ticks.tick().await;
        let (queue, options) = (queue.clone(), options.clone());
        called.push(Instant::now());
        calls.spawn(async move { enqueue::one(&queue, i, &options).await });
    }
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    Ok(called)
}

/// What the server's memory grew by, a job.
pub(crate) async fn bytes(queue: &Queue, n: usize) -> Result<Value, Failure> {
    let before = used_memory(queue).await?;
    enqueue::fill(queue, n).await?;
    let grown = used_memory(queue).await?.saturating_sub(before);
    Ok(json!({ "n": n, "bytes": grown / n.max(1) }))
}

async fn used_memory(queue: &Queue) -> Result<usize, Failure> {
    let info = Cmd::new("INFO").arg("memory");
    let reply = queue.bus().fenced().connection().command(info).await?;
    let text = reply.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned());
    let text = text.ok_or("INFO answered no text")?;
    let used = text.lines().find_map(|line| line.strip_prefix("used_memory:"));
    Ok(used.ok_or("INFO has no used_memory")?.trim().parse()?)
}

/// How many of the noisy tenant's jobs start before the last of the quiet ones'.
pub(crate) async fn fairness(queue: &Queue, n: usize) -> Result<Value, Failure> {
    let each = (n / 1_000).max(1);
    let quiet = QUIET_TENANTS * each;
    let noisy = enqueue::tenant(0)?;
    let jobs = enqueue::list(queue, 0..n, |_| Some(noisy)).await?;
    enqueue::admitted(queue.enqueue_many(&jobs).await?)?;
    for tenant in 1..=QUIET_TENANTS {
        let lane = enqueue::tenant(tenant)?;
        let first = n + (tenant - 1) * each;
        let jobs = enqueue::list(queue, first..first + each, |_| Some(lane)).await?;
        enqueue::admitted(queue.enqueue_many(&jobs).await?)?;
    }
    let (effects, noise) = (Arc::new(Effects::of(quiet)), Arc::new(AtomicUsize::new(0)));
    let (happen, count) = (Arc::clone(&effects), Arc::clone(&noise));
    let worker = Worker::builder(queue)
        .concurrency(CONCURRENCY)
        .handler(move |job: Job<Bytes>| {
            ready(number(&job.payload).map(|i| match i.checked_sub(n) {
                Some(quiet) => happen.happened(quiet),
                None if happen.done() < quiet => {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                None => {}
            }))
        })
        .start()?;
    timeout(SERVED_WITHIN, effects.all()).await.map_err(|_| "quiet tenants were never served")?;
    let before = noise.load(Ordering::Relaxed);
    worker.stop(STOP_WITHIN).await;
    Ok(json!({ "n": n, "quiet": quiet, "noisy_before_last_quiet": before }))
}
