//! bullmq-official, BullMQ's own port to Rust, as one side of the referee.
//!
//! At its defaults: a lock of 30 s for each job, renewed every 15 s; stalled jobs looked for every
//! 30 s; each transition added to the event stream of the queue; completed jobs kept for ever;
//! after a failed fetch a pause of 15 s.

use std::ops::Range;
use std::process::ExitCode;

use bullmq::options::RedisConnectionOptions;
use bullmq::{BulkJob, Error, Job as BullJob, Queue, QueueOptions, Worker as BullWorker};
use course::{Fault, Handler, Job, Rival, Valkey, Worker, version};
use serde_json::{Value, json};

/// The name that BullMQ gives to a kind of job.
const NAME: &str = "job";
/// How long an idle worker may take to close: its blocking read ends only after 5 s.
const CLOSE_WITHIN_MS: u64 = 6000;

#[tokio::main]
async fn main() -> ExitCode {
    course::run::<Bull>().await
}

struct Bull {
    queue: Queue,
    connection: RedisConnectionOptions,
    valkey: Valkey,
}

impl Rival for Bull {
    fn versions() -> Value {
        json!({ "bullmq-official": version("bullmq-official") })
    }

    fn lacks(row: &str) -> Option<&'static str> {
        match row {
            "process_lanes" | "fairness" => Some("no groups: they are in BullMQ Pro only"),
            "transactional" => Some("its store isn't the caller's database"),
            _ => None,
        }
    }

    async fn open(url: &str, queue: &str) -> Result<Bull, Fault> {
        let valkey = Valkey::emptied(url).await?;
        let connection = RedisConnectionOptions::new().url(url);
        let options = QueueOptions::new().connection(connection.clone());
        let queue = Queue::with_options(queue, options).await?;
        Ok(Bull { queue, connection, valkey })
    }

    async fn enqueue(&self, i: usize) -> Result<(), Fault> {
        self.queue.add(NAME, Job::of(i)).await?;
        Ok(())
    }

    async fn enqueue_bulk(&self, jobs: Range<usize>) -> Result<(), Fault> {
        // One script call for each job, all of them in flight at once.
        let jobs = jobs.map(|i| BulkJob::new(NAME, Job::of(i))).collect();
        self.queue.add_bulk(jobs).await?;
        Ok(())
    }

    async fn work(&self, concurrency: usize, handler: Handler) -> Result<Worker, Fault> {
        let processor = move |job: BullJob, _cancelled| {
            let handler = handler.clone();
            async move {
                let id = job.data()["id"].as_u64().and_then(|id| usize::try_from(id).ok());
                let id = id.ok_or_else(|| Error::ProcessingError("no id".to_owned()))?;
                handler.handle(id).await;
                Ok(Value::Null)
            }
        };
        let options = bullmq::WorkerOptions::new()
            .connection(self.connection.clone())
            .concurrency(concurrency);
        let worker = BullWorker::with_options(self.queue.name(), processor, options).await?;
        Ok(Worker::spawn(|stop| async move {
            drain_events(&worker, stop).await;
            worker.close(CLOSE_WITHIN_MS).await?;
            Ok(())
        }))
    }

    async fn acknowledged(&self, _enqueued: usize) -> Result<usize, Fault> {
        self.valkey.ask(&["ZCARD", &self.queue.keys().completed()]).await
    }

    async fn stored_bytes(&self) -> Result<u64, Fault> {
        self.valkey.used_memory().await
    }
}

/// Reads the worker's own events, which pile up without bound when nobody does.
async fn drain_events(worker: &BullWorker, mut stop: course::Stop) {
    loop {
        tokio::select! {
            _ = &mut stop => return,
            event = worker.next_event() => if event.is_none() { return },
        }
    }
}
