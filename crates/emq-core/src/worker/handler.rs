//! What a user writes: a handler, and how it says that a job failed.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use super::job::Job;

/// Works jobs. Every async function from a [`Job`] to `Result<(), JobError>` is one.
///
/// ```
/// use emq_core::{Handler, Job, JobError};
///
/// struct Mailer {
///     from: String,
/// }
///
/// impl Handler<String> for Mailer {
///     async fn run(&self, job: Job<String>) -> Result<(), JobError> {
///         println!("{} to {}", self.from, job.payload);
///         Ok(())
///     }
/// }
/// ```
pub trait Handler<T>: Send + Sync + 'static {
    /// Works one job. It may be run again after any await: what it does to the world must absorb
    /// a second time.
    fn run(&self, job: Job<T>) -> impl Future<Output = Result<(), JobError>> + Send;
}

impl<T, F, Fut> Handler<T> for F
where
    F: Fn(Job<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), JobError>> + Send,
{
    fn run(&self, job: Job<T>) -> impl Future<Output = Result<(), JobError>> + Send {
        self(job)
    }
}

type Cause = Box<dyn StdError + Send + Sync>;

/// Why a handler didn't finish its job, and what shall become of it. Any error turns into one with
/// `?`: then the job is tried again by the worker's backoff.
///
/// ```
/// use std::time::Duration;
/// use emq_core::JobError;
///
/// fn parse(text: &str) -> Result<u32, JobError> {
///     Ok(text.parse()?)
/// }
/// assert!(parse("x").is_err());
/// let _ = JobError::dead("the account is closed");
/// let _ = JobError::retry_after(Duration::from_secs(60), "the rate limit is reached");
/// ```
pub struct JobError {
    pub(super) fate: Fate,
    cause: Cause,
}

/// What shall become of a job that didn't finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Retry,
    RetryAfter(Duration),
    Dead,
    Release,
}

impl JobError {
    /// Try again by the worker's backoff.
    pub fn new(cause: impl Into<Cause>) -> JobError {
        JobError { fate: Fate::Retry, cause: cause.into() }
    }

    /// Dead now: no attempt can help.
    pub fn dead(cause: impl Into<Cause>) -> JobError {
        JobError { fate: Fate::Dead, cause: cause.into() }
    }

    /// Try again after a delay, whatever the worker's backoff says.
    pub fn retry_after(delay: Duration, cause: impl Into<Cause>) -> JobError {
        JobError { fate: Fate::RetryAfter(delay), cause: cause.into() }
    }

    /// Hand the job back at once and without blame: what a handler answers that was told to stop.
    #[must_use]
    pub fn release() -> JobError {
        JobError { fate: Fate::Release, cause: "handed back".into() }
    }

    /// The error itself, for what wraps handlers and decides by its type.
    ///
    /// ```
    /// # use emq_core::JobError;
    /// let error = JobError::from("x".parse::<u32>().unwrap_err());
    /// assert!(error.cause().is::<std::num::ParseIntError>());
    /// ```
    #[must_use]
    pub fn cause(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.cause
    }

    /// The same error, of which no attempt can help.
    #[must_use]
    pub fn into_dead(self) -> JobError {
        JobError { fate: Fate::Dead, ..self }
    }

    /// The error and its causes in one line, as it is kept.
    pub(super) fn words(&self) -> String {
        with_causes(&*self.cause)
    }
}

/// An error and its causes in one line.
pub(super) fn with_causes(error: &dyn StdError) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}

impl<E: StdError + Send + Sync + 'static> From<E> for JobError {
    fn from(error: E) -> JobError {
        JobError::new(error)
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobError({:?}, {:?})", self.fate, self.words())
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cause, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_causes_and_its_fate() {
        #[derive(Debug, thiserror::Error)]
        #[error("no invoice")]
        struct Outer(#[source] std::fmt::Error);
        let error = JobError::from(Outer(std::fmt::Error));
        assert_eq!(error.fate, Fate::Retry);
        assert!(error.words().starts_with("no invoice: "), "{error:?}");
        assert!(error.cause().is::<Outer>());
        let (words, dead) = (error.words(), error.into_dead());
        assert_eq!((dead.fate, dead.words()), (Fate::Dead, words));
        assert_eq!(JobError::dead("closed").words(), "closed");
        assert_eq!(JobError::release().fate, Fate::Release);
    }
}
