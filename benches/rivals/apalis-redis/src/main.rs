//! apalis-redis, as one side of the referee.
//!
//! At its defaults: 10 tasks a fetch, each task locked when it starts and its result stored, an
//! event published at each step; a heartbeat every 30 s, a worker given up after ten of them.
//! A task without a time goes into the set of scheduled tasks, and each fetch moves all that are
//! due at once: with some 8,000 of them the script has too many values to unpack, and the worker
//! ends.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use apalis::layers::WorkerBuilderExt;
use apalis::prelude::{BackendExt, Data, TaskSink, WorkerBuilder, WorkerError};
use apalis_redis::{Config, RedisStorage};
use course::{Fault, Handler, Job, Rival, Valkey, Worker, version};
use serde_json::{Value, json};

/// How often an idle worker looks for tasks. There is no default: without an interval it looks
/// only at its heartbeats, and its pubsub tells of no task that has a time, which is every one.
const POLL_EVERY: Duration = Duration::from_millis(10);

#[tokio::main]
async fn main() -> ExitCode {
    course::run::<Apalis>().await
}

struct Apalis {
    storage: RedisStorage<Job>,
    valkey: Valkey,
    queue: String,
}

impl Rival for Apalis {
    fn versions() -> Value {
        json!({
            "apalis": version("apalis"),
            "apalis-redis": version("apalis-redis"),
            "redis": version("redis"),
        })
    }

    fn lacks(row: &str) -> Option<&'static str> {
        match row {
            "process_lanes" | "fairness" => Some("no tenants"),
            "transactional" => Some("its store isn't the caller's database"),
            _ => None,
        }
    }

    async fn open(url: &str, queue: &str) -> Result<Apalis, Fault> {
        let valkey = Valkey::emptied(url).await?;
        let config = Config::default().queue(queue);
        let storage = RedisStorage::new(apalis_redis::connect(url).await?).with_config(config);
        Ok(Apalis { storage, valkey, queue: queue.to_owned() })
    }

    async fn enqueue(&self, i: usize) -> Result<(), Fault> {
        // Handles share their connection; a handle is cloned because it is taken by `&mut`.
        self.storage.clone().push(Job::of(i)).await?;
        Ok(())
    }

    async fn enqueue_bulk(&self, jobs: Range<usize>) -> Result<(), Fault> {
        self.storage.clone().push_bulk(jobs.map(Job::of).collect()).await?;
        Ok(())
    }

    async fn work(&self, concurrency: usize, handler: Handler) -> Result<Worker, Fault> {
        let worker = WorkerBuilder::new("worker")
            .backend(self.storage.clone().poll_with_interval(POLL_EVERY))
            .data(handler)
            .concurrency(concurrency)
            .build(handle);
        Ok(Worker::spawn(|stop| async move {
            let stopped = async move {
                let _ = stop.await;
                Ok::<(), WorkerError>(())
            };
            Ok(worker.run_until(stopped).await?)
        }))
    }

    async fn acknowledged(&self, _enqueued: usize) -> Result<usize, Fault> {
        let done = format!("{}:done", self.queue);
        self.valkey.ask(&["SCARD", &done]).await
    }

    async fn stored_bytes(&self) -> Result<u64, Fault> {
        self.valkey.used_memory().await
    }
}

async fn handle(job: Job, handler: Data<Handler>) {
    handler.handle(job.id).await;
}
