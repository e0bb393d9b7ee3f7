//! Settling by hand: what the holder of a job says about it.

use std::time::Duration;

use emq_scripts::{Checkpoint, Complete, Completed, Extend, Extended, Release, Retried, Retry};

use super::Queue;
use crate::error::Error;
use crate::lease::Hold;

/// Why a job failed and what shall become of it.
///
/// ```
/// use std::time::Duration;
/// use emq_core::Failure;
/// let failure = Failure::new("card declined").delay(Duration::from_secs(30)).max_attempts(5);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Failure {
    pub(crate) error: String,
    pub(crate) delay: Duration,
    pub(crate) max_attempts: u32,
    pub(crate) dead: bool,
}

impl Failure {
    /// A failure that is tried again at once, and buried at the cap of
    /// [`Failure::MAX_ATTEMPTS`]. The error is kept as the job's `last_error`, its first 4 KiB.
    pub fn new(error: impl Into<String>) -> Failure {
        Failure {
            error: error.into(),
            delay: Duration::ZERO,
            max_attempts: Self::MAX_ATTEMPTS,
            dead: false,
        }
    }

    /// The cap of attempts unless said.
    pub const MAX_ATTEMPTS: u32 = 25;

    /// How long until it is tried again, on the server's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The cap for a job without one of its own.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Dead now, whatever the caps say.
    pub fn dead(mut self) -> Self {
        self.dead = true;
        self
    }
}

impl Queue {
    /// The job is done: its row goes. Works also after the lease ended, as long as nobody else
    /// has claimed the job since.
    ///
    /// # Errors
    /// [`Error::Stale`] when it isn't the caller's any more; see [`Error`].
    pub async fn complete(&self, hold: &Hold) -> Result<Completed, Error> {
        let Hold { id, token, .. } = *hold;
        let call = Complete { id, token, ticket: hold.ticket() };
        self.call(&call).await.map_err(|error| Error::of_job(id, error))
    }

    /// The job failed: it runs again after a delay, or is dead at the cap. Needs a live lease.
    ///
    /// # Errors
    /// [`Error::Stale`] when the lease isn't the caller's (any more); see [`Error`].
    pub async fn retry(&self, hold: &Hold, failure: &Failure) -> Result<Retried, Error> {
        let Hold { id, token, .. } = *hold;
        let call = Retry {
            id,
            token,
            ticket: hold.ticket(),
            delay: failure.delay,
            max_attempts: failure.max_attempts,
            error: &failure.error,
            force_dead: failure.dead,
        };
        self.call(&call).await.map_err(|error| Error::of_job(id, error))
    }

    /// Hands the job back unfinished, at once and without blame. Needs a live lease.
    ///
    /// # Errors
    /// [`Error::Stale`] when the lease isn't the caller's (any more); see [`Error`].
    pub async fn release(&self, hold: &Hold) -> Result<(), Error> {
        let Hold { id, token, .. } = *hold;
        let call = Release { id, token, ticket: hold.ticket() };
        self.call(&call).await.map_err(|error| Error::of_job(id, error))
    }

    /// Moves the end of the lease to now + `lease` on the server's clock. Needs a live lease.
    ///
    /// # Errors
    /// [`Error::Stale`] when the lease isn't the caller's (any more); see [`Error`].
    pub async fn extend(&self, hold: &Hold, lease: Duration) -> Result<Extended, Error> {
        let Hold { id, token, .. } = *hold;
        let call = Extend { id, token, ticket: hold.ticket(), lease };
        self.call(&call).await.map_err(|error| Error::of_job(id, error))
    }

    /// Keeps progress in the row (at most 64 KiB): it survives a crash, and the next holder gets
    /// it. With a `lease` it extends too. Needs a live lease.
    ///
    /// # Errors
    /// [`Error::Stale`] when the lease isn't the caller's (any more); see [`Error`].
    pub async fn checkpoint(
        &self,
        hold: &Hold,
        data: &[u8],
        lease: Option<Duration>,
    ) -> Result<Extended, Error> {
        let Hold { id, token, .. } = *hold;
        if data.len() > Checkpoint::MAX_BYTES {
            let limit = Checkpoint::MAX_BYTES;
            return Err(Error::PayloadTooLarge { bytes: data.len(), limit });
        }
        let call = Checkpoint { id, token, ticket: hold.ticket(), lease, data };
        self.call(&call).await.map_err(|error| Error::of_job(id, error))
    }
}
