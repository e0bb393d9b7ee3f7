//! An owner's place in a running tree.

use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::context::{OwnerContext, Signals};
use super::failure::{OwnerError, OwnerFailure};
use super::owner::Owner;
use super::status::{OwnerEnd, OwnerPhase, OwnerReport, OwnerStatus};

/// How an owner's task ended.
pub(super) type Ended = Result<Result<(), OwnerError>, JoinError>;

/// An owner, and what is known of it.
pub(super) struct Place {
    pub(super) owner: Owner,
    pub(super) state: State,
    /// Whether any of its starts got as far as ready.
    pub(super) was_ready: bool,
    pub(super) restarts: u64,
    pub(super) last_failure: Option<OwnerFailure>,
    /// How it ended, once it has.
    pub(super) end: Option<OwnerEnd>,
    signals: Arc<Signals>,
}

pub(super) enum State {
    Waiting,
    Up(Up),
    Pausing { until: Instant },
    Ended,
}

/// One start of an owner.
pub(super) struct Up {
    pub(super) task: AbortHandle,
    pub(super) stopping: CancellationToken,
    pub(super) step: Step,
}

/// How far it is.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Starting { until: Instant },
    Running,
    Aborting { until: Instant, late: bool },
    Stopping,
}

impl Place {
    pub(super) fn new(owner: &Owner) -> Place {
        Place {
            owner: owner.clone(),
            state: State::Waiting,
            was_ready: false,
            restarts: 0,
            last_failure: None,
            end: None,
            signals: Arc::default(),
        }
    }

    /// Starts the owner, in a task of its own.
    pub(super) fn start(
        &mut self,
        tasks: &mut JoinSet<Result<(), OwnerError>>,
        told: &Arc<Notify>,
    ) -> tokio::task::Id {
        let context = OwnerContext::new(self.owner.grace);
        self.signals = Arc::clone(context.signals());
        let stopping = context.stopping().clone();
        let span = tracing::info_span!("owner", name = &*self.owner.name);
        let run = run(self.owner.clone(), context, Arc::clone(told)).instrument(span);
        let task = tasks.spawn(run);
        let id = task.id();
        let until = Instant::now() + self.owner.ready_within;
        self.state = State::Up(Up { task, stopping, step: Step::Starting { until } });
        tracing::debug!(owner = &*self.owner.name, restarts = self.restarts, "started");
        id
    }

    /// Takes notice of what the owner has said.
    pub(super) fn look(&mut self) {
        if !self.signals.ready.is_cancelled() {
            return;
        }
        self.was_ready = true;
        if let State::Up(Up { step: step @ Step::Starting { .. }, .. }) = &mut self.state {
            *step = Step::Running;
            tracing::info!(owner = &*self.owner.name, restarts = self.restarts, "ready");
        }
    }

    /// Aborts its task, when it has one that isn't aborted yet.
    pub(super) fn abort(&mut self, late: bool) -> bool {
        let State::Up(up) = &mut self.state else { return false };
        if matches!(up.step, Step::Aborting { .. }) {
            return false;
        }
        up.step = Step::Aborting { until: Instant::now() + self.owner.grace, late };
        up.task.abort();
        true
    }

    /// How its task ended, where that is a failure.
    pub(super) fn failure(&self, ended: Ended) -> OwnerFailure {
        match ended {
            Ok(Ok(())) => OwnerFailure::Ended,
            Ok(Err(error)) => OwnerFailure::Failed(error.into_cause()),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => OwnerFailure::Panicked(words(panic.as_ref())),
                Err(_) if self.is_late() => OwnerFailure::NotReady(self.owner.ready_within),
                Err(_) => OwnerFailure::Killed,
            },
        }
    }

    fn is_late(&self) -> bool {
        matches!(&self.state, State::Up(Up { step: Step::Aborting { late: true, .. }, .. }))
    }

    /// When something is to be done about it.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.state {
            State::Pausing { until } => Some(*until),
            State::Up(up) => match up.step {
                Step::Starting { until } | Step::Aborting { until, .. } => Some(until),
                Step::Running | Step::Stopping => None,
            },
            State::Waiting | State::Ended => None,
        }
    }

    pub(super) fn status(&self) -> OwnerStatus {
        let phase = match &self.state {
            State::Waiting => OwnerPhase::Waiting,
            State::Pausing { .. } => OwnerPhase::Restarting,
            State::Ended => OwnerPhase::Ended,
            State::Up(up) => match up.step {
                Step::Starting { .. } => OwnerPhase::Starting,
                Step::Running => OwnerPhase::Running,
                Step::Aborting { .. } => OwnerPhase::Aborting,
                Step::Stopping => OwnerPhase::Stopping,
            },
        };
        OwnerStatus {
            name: Arc::clone(&self.owner.name),
            phase,
            restarts: self.restarts,
            last_failure: self.last_failure.clone(),
        }
    }

    pub(super) fn report(&self) -> OwnerReport {
        OwnerReport {
            name: Arc::clone(&self.owner.name),
            end: self.end.clone().unwrap_or(OwnerEnd::NotRunning),
            restarts: self.restarts,
            worker: self.signals.worker_report(),
        }
    }
}

/// The owner's future, and beside it what it says. The supervisor is told from here and not from
/// within the owner: woken there, it would wait on this thread behind an owner that blocks it.
async fn run(owner: Owner, context: OwnerContext, told: Arc<Notify>) -> Result<(), OwnerError> {
    let signals = Arc::clone(context.signals());
    let mut work = std::pin::pin!(owner.run(context));
    let mut is_told = false;
    loop {
        tokio::select! {
            biased;
            () = signals.crashed.cancelled() => return Err(signals.crash()),
            ended = &mut work => return ended,
            () = signals.ready.cancelled(), if !is_told => {
                is_told = true;
                told.notify_one();
                step_back().await;
            }
        }
    }
}

/// Lets the supervisor run first. Unlike a yield it leaves this task where another thread finds it.
async fn step_back() {
    let mut stepped = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What a panic says.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => (*words).to_owned(),
        (None, Some(words)) => words.clone(),
        (None, None) => "without words".to_owned(),
    }
}
