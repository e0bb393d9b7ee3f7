//! The least that a pickup takes: its calls over sockets of their own, with nothing in between.

use std::time::{Duration, Instant};

use contender::payload;
use emq_core::Queue;
use emq_keys::BrandedId;
use emq_scripts::{AdmitOptions, Enqueue, ScriptCall, ScriptName};
use emq_wire::Cmd;

use crate::Failure;
use crate::ground::Ground;
use crate::raw::{Batch, Raw};
use crate::turns::{settled, turn};

/// The slots of the worker that is measured beside it.
const SLOTS: usize = 10;

/// A producer, and a worker with its own connection to park on.
pub(crate) struct Floor {
    queue: Queue,
    producer: Raw,
    parked: Raw,
    worker: Raw,
    park: Batch,
}

impl Floor {
    pub(crate) async fn on(ground: &Ground) -> Result<Floor, Failure> {
        let queue = ground.queue("floor")?;
        let connect = || Raw::connect(&ground.valkey);
        let (mut producer, parked, worker) = (connect()?, connect()?, connect()?);
        for script in [ScriptName::Enqueue, ScriptName::Turn] {
            producer.load(ground.bus.fenced().bundle().script(script))?;
        }
        let mut park = Batch::default();
        park.push(&Cmd::new("BLPOP").arg(queue.keys().wake()).arg("60"));
        Ok(Floor { queue, producer, parked, worker, park })
    }

    /// From the producer's write to the claimed job at the worker.
    pub(crate) async fn pick_up(&mut self, ground: &Ground, i: usize) -> Result<Duration, Failure> {
        let id = ground.bus.mint_job().await?;
        let payload = payload(i);
        let (payload, options) = (payload.as_bytes(), AdmitOptions::default());
        let enqueue = self.call(ground, &Enqueue { id, payload, options, durable: false });
        let claim = self.call(ground, &turn(SLOTS, &[]));
        self.parked.send(&self.park)?;
        self.is_parked(ground).await?;

        let begun = Instant::now();
        self.producer.send(&enqueue)?;
        self.parked.take(1)?;
        self.worker.send(&claim)?;
        self.worker.take(1)?;
        let took = begun.elapsed();

        self.producer.take(1)?;
        self.finish(ground, id)?;
        Ok(took)
    }

    fn call<C: ScriptCall>(&self, ground: &Ground, call: &C) -> Batch {
        let mut batch = Batch::default();
        batch.push(&ground.bus.fenced().command(self.queue.keys(), call));
        batch
    }

    /// Waits until the server has seen that somebody is parked.
    async fn is_parked(&self, ground: &Ground) -> Result<(), Failure> {
        while ground.number("clients", "blocked_clients").await? < 2.0 {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Settles the job, so that the next pickup finds an empty queue.
    fn finish(&mut self, ground: &Ground, id: BrandedId) -> Result<(), Failure> {
        let settles = [settled(id, 1)];
        let settle = self.call(ground, &turn(0, &settles));
        self.worker.send(&settle)?;
        self.worker.take(1)
    }
}
