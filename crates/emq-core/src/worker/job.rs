//! A job as its handler sees it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use emq_keys::BrandedId;
use emq_scripts::Extended;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::lease::Hold;
use crate::queue::Queue;

/// Why a handler is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelReason {
    /// Somebody called the job off.
    Asked,
    /// The lease is somebody else's, or over.
    Stale,
    /// The lease couldn't be extended in time, so another worker may soon have the job.
    Deadline,
    /// The handler ran longer than the worker allows.
    Timeout,
    /// The worker stops and its grace is over.
    Stopping,
}

/// What the worker and the handler of one job share.
pub(super) struct Context {
    pub(super) queue: Queue,
    pub(super) hold: Hold,
    pub(super) checkpoint: Option<Bytes>,
    pub(super) cancel: Cancel,
    pub(super) stopping: CancellationToken,
}

/// A cancellation with its first reason.
#[derive(Default)]
pub(super) struct Cancel {
    token: CancellationToken,
    reason: OnceLock<CancelReason>,
}

impl Cancel {
    pub(super) fn fire(&self, reason: CancelReason) {
        // The first reason stays.
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    pub(super) fn reason(&self) -> Option<CancelReason> {
        self.reason.get().copied()
    }

    pub(super) async fn fired(&self) {
        self.token.cancelled().await;
    }
}

/// A job in a handler's hands. The worker keeps its lease, settles it by what the handler
/// answers, and cancels the handler when the job isn't its any more.
pub struct Job<T> {
    /// What was enqueued.
    pub payload: T,
    context: Arc<Context>,
}

impl<T> Job<T> {
    pub(super) fn new(payload: T, context: Arc<Context>) -> Job<T> {
        Job { payload, context }
    }

    /// The job.
    #[must_use]
    pub fn id(&self) -> BrandedId {
        self.context.hold.id
    }

    /// The fencing token of this attempt: what a store checks that absorbs the job's effect.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.context.hold.token
    }

    /// The number of this attempt, from 1. Attempts whose worker was lost count too.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.context.hold.token
    }

    /// What an earlier attempt wrote last with [`Job::save`].
    #[must_use]
    pub fn checkpoint(&self) -> Option<&Bytes> {
        self.context.checkpoint.as_ref()
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.context.queue
    }

    /// What the queue's verbs know this attempt by.
    #[must_use]
    pub fn hold(&self) -> &Hold {
        &self.context.hold
    }

    /// Keeps progress in the job's row, at most 64 KiB: the next attempt starts with it.
    ///
    /// # Errors
    /// [`Error::Stale`] when the job isn't this handler's any more, which also cancels it; see
    /// [`Error`].
    pub async fn save(&self, progress: &[u8]) -> Result<(), Error> {
        let Context { queue, hold, cancel, .. } = &*self.context;
        match queue.checkpoint(hold, progress, None).await {
            Ok(Extended::Held) => Ok(()),
            Ok(Extended::CancelAsked) => {
                cancel.fire(CancelReason::Asked);
                Ok(())
            }
            Err(error) => {
                if matches!(error, Error::Stale { .. }) {
                    cancel.fire(CancelReason::Stale);
                }
                Err(error)
            }
        }
    }

    /// Fires when the handler shall stop: a grace later it is dropped at its next await.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.context.cancel.token
    }

    /// Why it was cancelled; `None` as long as it wasn't.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.context.cancel.reason()
    }

    /// Fires when the worker begins to stop. A handler may go on, up to the worker's grace; one
    /// that would take longer saves its progress and answers [`JobError::release`].
    ///
    /// [`JobError::release`]: crate::JobError::release
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.context.stopping
    }
}

/// Without the payload, which may be secret or large.
impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("queue", self.context.queue.name())
            .field("hold", &self.context.hold)
            .finish_non_exhaustive()
    }
}
