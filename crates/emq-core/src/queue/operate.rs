//! What an operator, or time, does to a queue.

use emq_keys::BrandedId;
use emq_scripts::{
    Cancel, Cancelled, Drain, Nudge, Promote, QueuePause, QueueResume, Reap, Reaped, Remove,
    Removed, Switched,
};

use super::Queue;
use crate::error::Error;
use crate::outcome::DrainScope;

/// How many jobs one call of a drain or a purge deletes.
pub(crate) const STEP: u32 = 1_000;

impl Queue {
    /// Moves due jobs to where they wait, at most `limit` (1..=200). Answers how many.
    /// Workers do this by themselves.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn promote(&self, limit: u32) -> Result<u64, Error> {
        self.call(&Promote { limit }).await.map_err(Error::of_queue)
    }

    /// Returns jobs whose lease has ended, at most `limit` (1..=200); one that was lost
    /// `lost_cap` times is dead. Workers do this by themselves.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn reap(&self, limit: u32, lost_cap: u32) -> Result<Reaped, Error> {
        self.call(&Reap { limit, lost_cap }).await.map_err(Error::of_queue)
    }

    /// Calls a job off: one that waits goes; the holder of an active one learns of it at its next
    /// extension.
    ///
    /// # Errors
    /// [`Error::State`] for a dead job (remove it instead); see [`Error`].
    pub async fn cancel(&self, id: BrandedId) -> Result<Cancelled, Error> {
        self.call(&Cancel { id }).await.map_err(|error| Error::of_job(id, error))
    }

    /// Deletes a job that nobody holds.
    ///
    /// # Errors
    /// [`Error::State`] for one that is held (cancel it instead); see [`Error`].
    pub async fn remove(&self, id: BrandedId) -> Result<Removed, Error> {
        self.call(&Remove { id }).await.map_err(|error| Error::of_job(id, error))
    }

    /// Claims answer empty from now on; what is in flight is untouched.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn pause(&self) -> Result<Switched, Error> {
        self.call(&QueuePause).await.map_err(Error::of_queue)
    }

    /// Claims are served again.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resume(&self) -> Result<Switched, Error> {
        self.call(&QueueResume).await.map_err(Error::of_queue)
    }

    /// Deletes what waits, a thousand at a time, until a step finds fewer. Answers how many.
    ///
    /// # Errors
    /// See [`Error`]; what was deleted until then stays deleted.
    pub async fn drain(&self, scope: DrainScope) -> Result<u64, Error> {
        let scheduled = scope == DrainScope::WaitingAndScheduled;
        let mut deleted = 0;
        loop {
            let step = self.call(&Drain { scheduled, limit: STEP }).await;
            let step = step.map_err(Error::of_queue)?;
            deleted += step;
            if step < u64::from(STEP) {
                return Ok(deleted);
            }
        }
    }

    /// Passes a wake on to a parked worker.
    pub(crate) async fn nudge(&self) -> Result<(), Error> {
        self.call(&Nudge).await.map_err(Error::of_queue)
    }
}
