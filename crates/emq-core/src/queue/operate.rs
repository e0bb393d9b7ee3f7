//! What an operator, or time, does to a queue.

use emq_keys::BrandedId;
use emq_scripts::{
    Cancel, Cancelled, Drain, LaneReassign, LaneReassignBacklog, Nudge, Obliterate, Promote,
    QueuePause, QueueResume, Reap, Reaped, Reassigned, Remove, Removed, Switched,
};
use emq_wire::Cmd;

use super::Queue;
use crate::error::Error;
use crate::outcome::DrainScope;

/// How many jobs one call of a drain or an obliteration deletes.
const STEP: u32 = 1_000;
/// How many jobs one call moves to another lane.
const MOVE_STEP: u32 = 200;

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

    /// Moves a job to a lane, or to the flat set with `None`. One that is scheduled or dead enters
    /// its new place when it is due or requeued.
    ///
    /// # Errors
    /// [`Error::State`] for a leased one: its lease counts for the lane that it was claimed from;
    /// see [`Error`].
    pub async fn reassign(
        &self,
        id: BrandedId,
        to: Option<BrandedId>,
    ) -> Result<Reassigned, Error> {
        self.call(&LaneReassign { id, to }).await.map_err(|error| Error::of_job(id, error))
    }

    /// Moves what waits in a lane, or in the flat set, to another of them, two hundred jobs at a
    /// time and the oldest first, until a step finds fewer. What is in flight, scheduled or dead
    /// stays. Answers how many left.
    ///
    /// # Errors
    /// See [`Error`]; what was moved until then stays moved. From a lane to itself is refused.
    pub async fn reassign_backlog(
        &self,
        from: Option<BrandedId>,
        to: Option<BrandedId>,
    ) -> Result<u64, Error> {
        let mut moved = 0;
        loop {
            let step = self.call(&LaneReassignBacklog { from, to, limit: MOVE_STEP }).await;
            let step = step.map_err(Error::of_queue)?;
            moved += step;
            if step < u64::from(MOVE_STEP) {
                return Ok(moved);
            }
        }
    }

    /// Takes a paused queue down, its jobs, lanes, settings and schedules, a thousand jobs at a time. Answers
    /// how many jobs went. What producers admit meanwhile goes too, until the last key goes; what
    /// they admit after that is the start of a new queue, which isn't paused.
    ///
    /// # Errors
    /// [`Error::State`] when the queue isn't paused, or when jobs are in flight (see
    /// [`Queue::obliterate_in_flight`]); see [`Error`]. What went until then is gone.
    pub async fn obliterate(&self) -> Result<u64, Error> {
        self.obliterate_steps(false).await
    }

    /// Takes a paused queue down as [`Queue::obliterate`] does, and the jobs in flight with it:
    /// their holders learn of it when they next extend or settle.
    ///
    /// # Errors
    /// [`Error::State`] when the queue isn't paused; see [`Error`]. What went until then is gone.
    pub async fn obliterate_in_flight(&self) -> Result<u64, Error> {
        self.obliterate_steps(true).await
    }

    async fn obliterate_steps(&self, force: bool) -> Result<u64, Error> {
        let mut removed = 0;
        loop {
            let step = self.call(&Obliterate { force, limit: STEP }).await;
            let step = step.map_err(Error::of_queue)?;
            removed += step.removed;
            // The script is older than schedules. It has agreed that the queue goes.
            self.read(Cmd::new("UNLINK").arg(self.keys().timetable())).await?;
            if !step.left {
                return Ok(removed);
            }
        }
    }

    /// Passes a wake on to a parked worker.
    pub(crate) async fn nudge(&self) -> Result<(), Error> {
        self.call(&Nudge).await.map_err(Error::of_queue)
    }
}
