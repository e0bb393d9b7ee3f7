//! What an owner is given when it starts.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use emq_core::StopReport;
use tokio_util::sync::CancellationToken;

use super::failure::OwnerError;

/// What an owner is given at each of its starts. Its clones are for the tasks and handlers that
/// belong to this start.
#[derive(Clone, Debug)]
pub struct OwnerContext {
    stopping: CancellationToken,
    grace: Duration,
    signals: Arc<Signals>,
}

/// What one start of an owner tells its tree.
#[derive(Debug, Default)]
pub(super) struct Signals {
    pub(super) ready: CancellationToken,
    pub(super) crashed: CancellationToken,
    crash: OnceLock<OwnerError>,
    worker: Mutex<Option<StopReport>>,
}

impl OwnerContext {
    pub(super) fn new(grace: Duration) -> OwnerContext {
        OwnerContext {
            stopping: CancellationToken::new(),
            grace,
            signals: Arc::new(Signals::default()),
        }
    }

    /// Fires when the owner shall end. It has its [grace](OwnerContext::grace) from then on.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// How long the owner may take to end.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Says that the owner does its work now, so that the next one may be started. The first call
    /// of a start counts.
    pub fn ready(&self) {
        self.signals.ready.cancel();
    }

    /// Crashes the owner from within one of its tasks or handlers: its future is dropped where it
    /// stands, and the tree restarts it. This is for a broken contract, a store of another kind
    /// for instance. What merely fails one job is that job's own error.
    pub fn crash(&self, error: impl Into<OwnerError>) {
        // The first reason stays.
        let _ = self.signals.crash.set(error.into());
        self.signals.crashed.cancel();
    }

    pub(super) fn keep_worker_report(&self, report: StopReport) {
        *self.signals.worker.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    pub(super) fn signals(&self) -> &Arc<Signals> {
        &self.signals
    }
}

impl Signals {
    pub(super) fn crash(&self) -> OwnerError {
        self.crash.get().cloned().unwrap_or_else(|| OwnerError::new("it crashed"))
    }

    pub(super) fn worker_report(&self) -> Option<StopReport> {
        *self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
