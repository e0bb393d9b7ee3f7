//! chasquimq, a queue on streams, as one side of the referee.
//!
//! As published it needs Redis 8.6: it adds by `XADD ... IDMP`, reads by `XREADGROUP ... CLAIM` and
//! acknowledges by `XACKDEL`, whatever the settings. Valkey has none of the three, so there every
//! row is absent, with what the server said.
//!
//! At its defaults: 64 entries a read, 256 acknowledgements a call or 5 ms; an event added to a
//! stream at each start and each end of a job; a job claimed again after 30 s without
//! acknowledgement; no token that the acknowledgement is checked against. `RIVAL_TUNED=1` turns its
//! events off.

use std::ops::Range;
use std::process::ExitCode;

use chasquimq::{Bytes, Consumer, ConsumerConfig, HandlerError, Job, Producer, ProducerConfig};
use contender::{id_of, payload};
use course::{Fault, Handler, Rival, Valkey, Worker, tuned, version};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> ExitCode {
    course::run::<Chasqui>().await
}

struct Chasqui {
    url: String,
    queue: String,
    /// Carries text: the rival's own encoding of a struct is shorter than the 100 bytes agreed.
    producer: Producer<String>,
    valkey: Valkey,
}

impl Rival for Chasqui {
    fn versions() -> Value {
        json!({
            "chasquimq": version("chasquimq"),
            "fred": version("fred"),
            "settings": if tuned() { "events off" } else { "defaults" },
        })
    }

    fn lacks(row: &str) -> Option<&'static str> {
        match row {
            "process_lanes" | "fairness" => Some("no tenants"),
            "transactional" => Some("its store isn't the caller's database"),
            _ => None,
        }
    }

    async fn open(url: &str, queue: &str) -> Result<Chasqui, Fault> {
        let valkey = Valkey::emptied(url).await?;
        let config = ProducerConfig { queue_name: queue.to_owned(), ..ProducerConfig::default() };
        let producer = Producer::connect(url, config).await?;
        // What it adds first tells whether this server has the commands that it is made of.
        producer.add(payload(0)).await.map_err(|said| {
            Fault::Absent(format!("needs Redis 8.6, and this server refuses its XADD: {said}"))
        })?;
        valkey.ask::<usize>(&["DEL", producer.stream_key()]).await?;
        Ok(Chasqui { url: url.to_owned(), queue: queue.to_owned(), producer, valkey })
    }

    async fn enqueue(&self, i: usize) -> Result<(), Fault> {
        self.producer.add(payload(i)).await?;
        Ok(())
    }

    async fn enqueue_bulk(&self, jobs: Range<usize>) -> Result<(), Fault> {
        self.producer.add_bulk(jobs.map(payload).collect()).await?;
        Ok(())
    }

    async fn work(&self, concurrency: usize, handler: Handler) -> Result<Worker, Fault> {
        let config = ConsumerConfig {
            queue_name: self.queue.clone(),
            concurrency,
            events_enabled: !tuned(),
            ..ConsumerConfig::default()
        };
        let consumer = Consumer::<String>::new(self.url.clone(), config);
        let handle = move |job: Job<String>| {
            let handler = handler.clone();
            async move {
                let id = id_of(job.payload.as_bytes());
                let id = id.ok_or_else(|| HandlerError::new(std::fmt::Error))?;
                handler.handle(id).await;
                Ok(Bytes::new())
            }
        };
        Ok(Worker::spawn(|stop| async move {
            let stopping = CancellationToken::new();
            let mut running = std::pin::pin!(consumer.run(handle, stopping.clone()));
            tokio::select! {
                ended = &mut running => return Ok(ended?),
                _ = stop => stopping.cancel(),
            }
            Ok(running.await?)
        }))
    }

    async fn acknowledged(&self, enqueued: usize) -> Result<usize, Fault> {
        // An entry that is acknowledged is deleted.
        let left: usize = self.valkey.ask(&["XLEN", self.producer.stream_key()]).await?;
        Ok(enqueued.saturating_sub(left))
    }

    async fn stored_bytes(&self) -> Result<u64, Fault> {
        self.valkey.used_memory().await
    }
}
