//! Dead letters.

use std::time::SystemTime;

use emq_keys::{BrandedId, EPOCH_MS, MAX_UNIX_MS, Namespace};
use emq_scripts::{Purge, Requeue, Requeued};
use emq_wire::Cmd;

use crate::error::Error;
use crate::queue::{JobRecord, Queue};

/// How many jobs one call of a purge deletes.
const STEP: u32 = 1_000;

/// The dead letters of a queue: jobs that failed or were lost up to their cap. They stay until an
/// operator requeues, removes or purges them.
#[derive(Clone, Debug)]
pub struct Morgue {
    queue: Queue,
}

impl Morgue {
    pub(crate) fn new(queue: Queue) -> Morgue {
        Morgue { queue }
    }

    /// The newest dead letters by mint time, newest first, at most `n`, with what killed them.
    /// One that leaves the morgue while this reads is left out.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn browse(&self, n: usize) -> Result<Vec<JobRecord>, Error> {
        let ids = self.queue.newest(self.queue.keys().dead(), n).await?;
        Ok(self.queue.get_many(&ids).await?.into_iter().flatten().collect())
    }

    /// How many there are.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn depth(&self) -> Result<u64, Error> {
        self.queue.cardinality(Cmd::new("ZCARD").arg(self.queue.keys().dead())).await
    }

    /// Gives a dead letter another life: its caps count from now, its token keeps rising.
    ///
    /// # Errors
    /// [`Error::State`] when the job isn't dead; see [`Error`].
    pub async fn requeue(&self, id: BrandedId) -> Result<Requeued, Error> {
        self.queue.call(&Requeue { id }).await.map_err(|error| Error::of_job(id, error))
    }

    /// Deletes all dead letters, a thousand at a time. Answers how many.
    ///
    /// # Errors
    /// See [`Error`]; what was deleted until then stays deleted.
    pub async fn purge(&self) -> Result<u64, Error> {
        self.purge_below(None).await
    }

    /// Deletes the dead letters that were minted before a time. Answers how many.
    ///
    /// # Errors
    /// As [`Morgue::purge`].
    pub async fn purge_minted_before(&self, time: SystemTime) -> Result<u64, Error> {
        let ms = crate::queue::unix_ms(time).clamp(EPOCH_MS, MAX_UNIX_MS);
        self.purge_below(BrandedId::min_for(Namespace::JOB, ms).ok()).await
    }

    async fn purge_below(&self, before: Option<BrandedId>) -> Result<u64, Error> {
        let mut deleted = 0;
        loop {
            let step = self.queue.call(&Purge { before, limit: STEP }).await;
            let step = step.map_err(Error::of_queue)?;
            deleted += step;
            if step < u64::from(STEP) {
                return Ok(deleted);
            }
        }
    }
}
