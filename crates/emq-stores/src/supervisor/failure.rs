//! How an owner fails, and how a tree does.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

type Cause = Box<dyn StdError + Send + Sync>;

/// Why an owner can't go on. Any error turns into one with `?`.
///
/// ```
/// use emq_stores::supervisor::OwnerError;
///
/// fn port(text: &str) -> Result<u16, OwnerError> {
///     Ok(text.parse()?)
/// }
/// assert!(port("x").is_err());
/// assert_eq!(OwnerError::new("the table is of another kind").to_string(),
///     "the table is of another kind");
/// ```
#[derive(Clone)]
pub struct OwnerError(Arc<dyn StdError + Send + Sync>);

impl OwnerError {
    /// A failure with its cause, an error or words.
    #[must_use]
    pub fn new(cause: impl Into<Cause>) -> OwnerError {
        OwnerError(Arc::from(cause.into()))
    }

    pub(super) fn into_cause(self) -> Arc<dyn StdError + Send + Sync> {
        self.0
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for OwnerError {
    fn from(cause: E) -> Self {
        OwnerError::new(cause)
    }
}

impl fmt::Debug for OwnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for OwnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// How an owner ended that should not have.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerFailure {
    /// It answered an error.
    #[error("it failed")]
    Failed(#[source] Arc<dyn StdError + Send + Sync>),
    /// It panicked.
    #[error("it panicked: {0}")]
    Panicked(String),
    /// Its task was aborted, by [`Tree::kill`](super::Tree::kill) for instance.
    #[error("it was killed")]
    Killed,
    /// It ended without an error though nobody had told it to, and its policy doesn't let it.
    #[error("it ended before it was told to")]
    Ended,
    /// It did not say in time that it is ready.
    #[error("it was not ready within {0:?}")]
    NotReady(Duration),
    /// Its task was aborted and didn't end: it blocks its thread. It isn't started beside itself.
    #[error("it blocks its thread and can't be aborted")]
    Stuck,
}

/// Why a tree ended that nobody stopped.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{owner} failed and may not be restarted again, so the tree was stopped ({restarts} restarts within {window:?} are allowed)"
)]
#[non_exhaustive]
pub struct GaveUp {
    /// The owner whose failure was one too many.
    pub owner: Arc<str>,
    /// How it failed.
    #[source]
    pub failure: OwnerFailure,
    /// How many restarts are allowed.
    pub restarts: usize,
    /// Within this time.
    pub window: Duration,
}

/// Why a tree can't be started as it was described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// Two owners have one name.
    #[error("two owners are called {0}; give each a name of its own")]
    SameName(Arc<str>),
    /// There is nobody to start.
    #[error("a tree without owners; add one before it starts")]
    NoOwner,
}
