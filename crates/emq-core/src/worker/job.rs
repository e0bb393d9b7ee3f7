//! A job as its handler sees it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use emq_keys::BrandedId;
use emq_scripts::Extended;
use tokio_util::sync::CancellationToken;

use super::note::{Key, Note, Notes};
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
    pub(super) lane: Option<BrandedId>,
    pub(super) kind: Option<Bytes>,
    pub(super) checkpoint: Option<Bytes>,
    pub(super) cancel: Cancel,
    pub(super) stopping: CancellationToken,
    /// How the worker's loop is told, and by which key it knows the job.
    pub(super) notes: Notes,
    pub(super) key: Key,
}

impl Context {
    /// Cancels from the handler's side, of which the loop must hear.
    fn cancel(&self, reason: CancelReason) {
        if self.cancel.fire(reason) {
            // Nobody listens when the worker is gone, and the handler is about to be.
            let _ = self.notes.send(Note::Cancelled(self.key));
        }
    }
}

/// A cancellation with its first reason.
#[derive(Default)]
pub(super) struct Cancel {
    token: CancellationToken,
    reason: OnceLock<CancelReason>,
}

impl Cancel {
    /// Answers whether it was the first; the first reason stays.
    pub(super) fn fire(&self, reason: CancelReason) -> bool {
        let first = self.reason.set(reason).is_ok();
        self.token.cancel();
        first
    }

    pub(super) fn reason(&self) -> Option<CancelReason> {
        self.reason.get().copied()
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

    /// The number of this attempt, from 1: the token. Attempts that were lost or handed back count
    /// here, though not against the cap.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.context.hold.token
    }

    /// Its lane; `None` for the flat set.
    #[must_use]
    pub fn lane(&self) -> Option<BrandedId> {
        self.context.lane
    }

    /// The name of its handler, as the producer wrote it; `None` without one, or when it is no
    /// text.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        self.context.kind.as_deref().and_then(|kind| std::str::from_utf8(kind).ok())
    }

    /// What its producer sent along, such as a trace context. It is read from the job's row when
    /// it is asked for, so that jobs whose handler doesn't ask cost nothing; `None` also when the
    /// row is gone.
    ///
    /// ```no_run
    /// # use emq_core::{Job, JobError};
    /// async fn work(job: Job<String>) -> Result<(), JobError> {
    ///     if let Some(headers) = job.headers().await? {
    ///         // {"traceparent": "..."}: make it the parent of the current span.
    ///         tracing::debug!(headers, "sent by");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn headers(&self) -> Result<Option<String>, Error> {
        let record = self.context.queue.get(self.id()).await?;
        Ok(record.and_then(|record| record.headers))
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
        let Context { queue, hold, .. } = &*self.context;
        match queue.checkpoint(hold, progress, None).await {
            Ok(Extended::Held) => Ok(()),
            Ok(Extended::CancelAsked) => {
                self.context.cancel(CancelReason::Asked);
                Ok(())
            }
            Err(error) => {
                if matches!(error, Error::Stale { .. }) {
                    self.context.cancel(CancelReason::Stale);
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
