//! A handler whose jobs start and end when the test says so.

use std::sync::Arc;

use bytes::Bytes;
use emq_core::{CancelReason, Handler, Job, JobError};
use emq_keys::BrandedId;
use tokio::sync::{Mutex, Semaphore, mpsc};

/// What a handler was given.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) id: BrandedId,
    pub(crate) token: u64,
    pub(crate) payload: Bytes,
    pub(crate) checkpoint: Option<Bytes>,
}

/// Tells of each job that starts, then waits until one more may end, or until it is cancelled.
#[derive(Clone)]
pub(crate) struct Crew {
    started: mpsc::UnboundedSender<Started>,
    seen: Arc<Mutex<mpsc::UnboundedReceiver<Started>>>,
    cancelled: mpsc::UnboundedSender<CancelReason>,
    reasons: Arc<Mutex<mpsc::UnboundedReceiver<CancelReason>>>,
    gate: Arc<Semaphore>,
}

impl Crew {
    /// All jobs wait at the gate.
    pub(crate) fn closed() -> Crew {
        let (started, seen) = mpsc::unbounded_channel();
        let (cancelled, reasons) = mpsc::unbounded_channel();
        Crew {
            started,
            seen: Arc::new(Mutex::new(seen)),
            cancelled,
            reasons: Arc::new(Mutex::new(reasons)),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    /// No job waits.
    pub(crate) fn open() -> Crew {
        let crew = Crew::closed();
        crew.let_end(1 << 30);
        crew
    }

    /// So many jobs more may end.
    pub(crate) fn let_end(&self, jobs: usize) {
        self.gate.add_permits(jobs);
    }

    /// The next job that started.
    pub(crate) async fn next(&self) -> Started {
        super::soon("a job", self.seen.lock().await.recv()).await.unwrap()
    }

    /// Whether no job started that [`Crew::next`] has not told of.
    pub(crate) async fn is_quiet(&self) -> bool {
        self.seen.lock().await.is_empty()
    }

    /// Why the next handler that was cancelled was.
    pub(crate) async fn next_cancelled(&self) -> CancelReason {
        super::soon("a cancel", self.reasons.lock().await.recv()).await.unwrap()
    }
}

impl Handler<Bytes> for Crew {
    async fn run(&self, job: Job<Bytes>) -> Result<(), JobError> {
        let started = Started {
            id: job.id(),
            token: job.token(),
            payload: job.payload.clone(),
            checkpoint: job.checkpoint().cloned(),
        };
        self.started.send(started)?;
        tokio::select! {
            permit = self.gate.acquire() => {
                permit?.forget();
                Ok(())
            }
            () = job.cancelled().cancelled() => {
                let reason = job.cancel_reason().ok_or_else(|| JobError::new("no reason"))?;
                self.cancelled.send(reason)?;
                Err(JobError::new("told to stop"))
            }
        }
    }
}
