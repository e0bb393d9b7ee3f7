//! An owner: a named future that can be started again.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::context::OwnerContext;
use super::failure::OwnerError;

/// How long an owner may take to end, unless it is given another grace.
const GRACE_DEFAULT: Duration = Duration::from_secs(5);
/// No grace is shorter: an abort takes a moment, too.
const GRACE_LEAST: Duration = Duration::from_millis(20);
/// No wait is longer than this.
const WAIT_MAX: Duration = Duration::from_secs(86_400 * 365);
/// How long an owner may take until it is ready, unless it is given another time.
const READY_DEFAULT: Duration = Duration::from_secs(30);

type Running = Pin<Box<dyn Future<Output = Result<(), OwnerError>> + Send>>;
type Factory = Arc<dyn Fn(OwnerContext) -> Running + Send + Sync>;

/// Which ends of an owner are followed by a restart. While the tree stops, none is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restart {
    /// Every one: an owner that just ends has failed, too.
    #[default]
    Permanent,
    /// Those with an error, a panic or an abort. An owner that answers `Ok` is done.
    Transient,
    /// None: it runs once.
    Temporary,
}

/// A part of a tree: it owns some state or some work, and can be started again from nothing.
#[derive(Clone)]
pub struct Owner {
    pub(super) name: Arc<str>,
    pub(super) restart: Restart,
    pub(super) grace: Duration,
    pub(super) ready_within: Duration,
    factory: Factory,
}

impl Owner {
    /// An owner that is made by `factory` at each start. It calls [`OwnerContext::ready`] when it
    /// does its work, and ends when [`OwnerContext::stopping`] fires.
    ///
    /// The factory itself runs in the owner's task, so that its panic is the owner's.
    pub fn new<F, Fut>(name: impl Into<Arc<str>>, factory: F) -> Owner
    where
        F: Fn(OwnerContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), OwnerError>> + Send + 'static,
    {
        Owner {
            name: name.into(),
            restart: Restart::default(),
            grace: GRACE_DEFAULT,
            ready_within: READY_DEFAULT,
            factory: Arc::new(move |context| Box::pin(factory(context))),
        }
    }

    /// Which of its ends are followed by a restart: every one, by default.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> Self {
        self.restart = restart;
        self
    }

    /// How long it may take to end once it is told to: 5 s by default, 20 ms at least. At the end
    /// of it the owner is aborted.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace.clamp(GRACE_LEAST, WAIT_MAX);
        self
    }

    /// How long it may take from a start until it is ready: 30 s by default. Then it is aborted,
    /// which counts as a failure.
    #[must_use]
    pub fn ready_within(mut self, time: Duration) -> Self {
        self.ready_within = time.min(WAIT_MAX);
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn run(self, context: OwnerContext) -> Result<(), OwnerError> {
        (self.factory)(context).await
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("name", &self.name)
            .field("restart", &self.restart)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
