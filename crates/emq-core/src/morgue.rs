//! Dead letters.

mod pages;

use std::time::SystemTime;

use emq_keys::{BrandedId, EPOCH_MS, MAX_UNIX_MS, Namespace};
use emq_scripts::{CallError, Purge, Requeue, Requeued};
use emq_wire::{Cmd, Reply};

use crate::error::Error;
use crate::queue::{JobRecord, Queue, ids, misread};

/// How many jobs one call of a purge deletes.
const STEP: u32 = 1_000;
/// How many dead letters are requeued in one round trip, each by a call of its own.
const REQUEUE_STEP: usize = 200;

/// The dead letters of a queue: jobs that failed or were lost up to their cap. They stay until an
/// operator requeues, removes or purges them.
#[derive(Clone, Debug)]
pub struct Morgue {
    queue: Queue,
}

/// What [`Morgue::requeue_all`] came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequeuedAll {
    /// Jobs that wait again.
    pub requeued: u64,
    /// Jobs that had left the morgue when their turn came.
    pub gone: u64,
}

impl RequeuedAll {
    /// Counts the outcomes of a step; answers the first that is a failure.
    fn add(
        &mut self,
        step: &[Requeue],
        outcomes: Vec<Result<Requeued, CallError>>,
    ) -> Option<Error> {
        let mut failed = None;
        for (call, outcome) in step.iter().zip(outcomes) {
            match outcome.map_err(|error| Error::of_job(call.id, error)) {
                Ok(Requeued::Done) => self.requeued += 1,
                Ok(Requeued::NoRow) | Err(Error::State { .. }) => self.gone += 1,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed
    }
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

    /// Gives all dead letters another life, as [`Morgue::requeue`] does, two hundred a round trip
    /// and the oldest first. Each is requeued once: one that dies again meanwhile stays dead, and
    /// so does one that is younger than those at the start.
    ///
    /// # Errors
    /// See [`Error`]; what was requeued until then stays so, and the call can be made again.
    pub async fn requeue_all(&self) -> Result<RequeuedAll, Error> {
        self.requeue_all_with(|_| {}).await
    }

    /// As [`Morgue::requeue_all`], and says after each round trip what was done so far, also before
    /// it fails.
    ///
    /// # Errors
    /// As [`Morgue::requeue_all`].
    pub async fn requeue_all_with(
        &self,
        mut progress: impl FnMut(RequeuedAll),
    ) -> Result<RequeuedAll, Error> {
        let mut done = RequeuedAll::default();
        let newest = self.queue.newest(self.queue.keys().dead(), 1).await?;
        let Some(last) = newest.first() else { return Ok(done) };
        let last = format!("[{last}");
        let mut from = "-".to_owned();
        loop {
            let cmd = Cmd::new("ZRANGE").arg(self.queue.keys().dead()).arg(&from).arg(&last);
            let cmd = cmd.arg("BYLEX").arg("LIMIT").int(0).int(REQUEUE_STEP as i64);
            let reply = self.queue.read(cmd).await?;
            let Reply::Array(page) = &reply else { return Err(misread("ZRANGE", &reply)) };
            let step: Vec<Requeue> = ids(&reply).map(|id| Requeue { id }).collect();
            let Some(last) = step.last() else { return Ok(done) };
            from = format!("({}", last.id);
            let failed =
                done.add(&step, self.queue.call_all(&step).await.map_err(Error::of_queue)?);
            progress(done);
            if let Some(error) = failed {
                return Err(error);
            }
            if page.len() < REQUEUE_STEP {
                return Ok(done);
            }
        }
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
