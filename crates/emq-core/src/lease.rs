//! A job in the caller's hands.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use emq_keys::BrandedId;
use emq_scripts::{Claimed, Completed, Extended, Retried};

use crate::error::Error;
use crate::queue::{Failure, Queue};

/// What settles a job: its id, and the token and ticket of the claim that took it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The job.
    pub id: BrandedId,
    /// The fencing token: it rises with each claim of the job.
    pub token: u64,
    /// The ticket of the claim, when it carried one.
    pub ticket: Option<Arc<str>>,
}

impl Hold {
    pub(crate) fn ticket(&self) -> Option<&str> {
        self.ticket.as_deref()
    }
}

/// A job that was claimed by hand, and the way to settle it. Dropping it settles nothing: the
/// lease ends by itself and the job waits again.
#[must_use]
pub struct Lease {
    queue: Queue,
    hold: Hold,
    payload: Bytes,
    group: Option<BrandedId>,
    checkpoint: Option<Bytes>,
}

impl Lease {
    pub(crate) fn new(queue: Queue, claimed: Claimed, ticket: Option<Arc<str>>) -> Lease {
        let Claimed { id, payload, token, group, checkpoint } = claimed;
        Lease { queue, hold: Hold { id, token, ticket }, payload, group, checkpoint }
    }

    /// The job.
    #[must_use]
    pub fn id(&self) -> BrandedId {
        self.hold.id
    }

    /// What was enqueued.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The fencing token, which is also the number of this attempt.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.hold.token
    }

    /// The ticket of the claim, when it carried one.
    #[must_use]
    pub fn ticket(&self) -> Option<&str> {
        self.hold.ticket()
    }

    /// Its lane; `None` for the flat set.
    #[must_use]
    pub fn group(&self) -> Option<BrandedId> {
        self.group
    }

    /// What an earlier holder wrote last with [`Lease::save`].
    #[must_use]
    pub fn checkpoint(&self) -> Option<&Bytes> {
        self.checkpoint.as_ref()
    }

    /// What the queue's verbs settle it by.
    #[must_use]
    pub fn hold(&self) -> &Hold {
        &self.hold
    }

    /// The job is done. See [`Queue::complete`].
    ///
    /// # Errors
    /// As [`Queue::complete`].
    pub async fn complete(&self) -> Result<Completed, Error> {
        self.queue.complete(&self.hold).await
    }

    /// The job failed. See [`Queue::retry`].
    ///
    /// # Errors
    /// As [`Queue::retry`].
    pub async fn retry(&self, failure: &Failure) -> Result<Retried, Error> {
        self.queue.retry(&self.hold, failure).await
    }

    /// Hands the job back unfinished. See [`Queue::release`].
    ///
    /// # Errors
    /// As [`Queue::release`].
    pub async fn release(&self) -> Result<(), Error> {
        self.queue.release(&self.hold).await
    }

    /// Moves the end of the lease. See [`Queue::extend`].
    ///
    /// # Errors
    /// As [`Queue::extend`].
    pub async fn extend(&self, lease: Duration) -> Result<Extended, Error> {
        self.queue.extend(&self.hold, lease).await
    }

    /// Keeps progress in the row. See [`Queue::checkpoint`].
    ///
    /// # Errors
    /// As [`Queue::checkpoint`].
    pub async fn save(&self, data: &[u8], lease: Option<Duration>) -> Result<Extended, Error> {
        self.queue.checkpoint(&self.hold, data, lease).await
    }
}

/// Without the payload and the checkpoint, which may be secret or large.
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("queue", self.queue.name())
            .field("hold", &self.hold)
            .field("group", &self.group)
            .field("payload_bytes", &self.payload.len())
            .field("checkpoint_bytes", &self.checkpoint.as_ref().map(Bytes::len))
            .finish_non_exhaustive()
    }
}
