//! What may be said about a job when it is enqueued.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use emq_keys::BrandedId;
use emq_scripts::{AdmitOptions, When};

use crate::durability::Durability;

/// What may be said about a job when it is enqueued; by default nothing.
///
/// ```
/// use std::time::Duration;
/// use emq_core::{Durability, EnqueueOptions};
///
/// let options = EnqueueOptions::new()
///     .kind("invoice")
///     .max_attempts(5)
///     .unique("invoice:2026-11")
///     .delay(Duration::from_secs(60))
///     .durability(Durability::Fsynced);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct EnqueueOptions {
    pub(crate) id: Option<BrandedId>,
    pub(crate) kind: Option<String>,
    pub(crate) headers: Option<String>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) unique: Option<String>,
    pub(crate) when: Option<When>,
    pub(crate) durability: Durability,
}

impl EnqueueOptions {
    /// Nothing said.
    pub fn new() -> EnqueueOptions {
        EnqueueOptions::default()
    }

    /// The job's id, of kind `JOB`. An enqueue is idempotent by it while the job's row exists: a
    /// caller that mints or derives the id first can send the same job again safely.
    pub fn id(mut self, id: BrandedId) -> Self {
        self.id = Some(id);
        self
    }

    /// The handler's name.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Trace context and the like, as a JSON object. The bus doesn't look into it.
    pub fn headers(mut self, headers: impl Into<String>) -> Self {
        self.headers = Some(headers.into());
        self
    }

    /// This job's own cap of attempts, from 1; it goes before the worker's.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// A key that at most one job of the queue holds, from now until it is gone (or dead and
    /// purged). An enqueue under a held key answers [`Enqueued::Held`](crate::Enqueued::Held).
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.unique = Some(key.into());
        self
    }

    /// Runs it after a delay, on the server's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.when = Some(When::In(delay));
        self
    }

    /// Runs it at a time, by the server's clock; a time that has passed means now.
    pub fn at(mut self, time: SystemTime) -> Self {
        self.when = Some(When::At(unix_ms(time)));
        self
    }

    /// How far the write must have gone before the enqueue is acknowledged.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// What was said, for one who keeps a job elsewhere before it is enqueued, such as an outbox.
    #[must_use]
    pub fn said(&self) -> Said<'_> {
        Said {
            kind: self.kind.as_deref(),
            headers: self.headers.as_deref(),
            max_attempts: self.max_attempts,
            unique: self.unique.as_deref(),
            due: self.when.map(|when| match when {
                When::At(unix_ms) => Due::At { unix_ms },
                When::In(delay) => Due::In(delay),
            }),
        }
    }

    pub(crate) fn admit(&self) -> AdmitOptions<'_> {
        AdmitOptions {
            kind: self.kind.as_deref(),
            headers: self.headers.as_deref(),
            max_attempts: self.max_attempts,
            unique: self.unique.as_deref(),
        }
    }
}

/// What was said about a job: see [`EnqueueOptions::said`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Said<'a> {
    /// The handler's name.
    pub kind: Option<&'a str>,
    /// Trace context and the like.
    pub headers: Option<&'a str>,
    /// The job's own cap of attempts.
    pub max_attempts: Option<u32>,
    /// The key that at most one job holds.
    pub unique: Option<&'a str>,
    /// When it runs; `None` for now.
    pub due: Option<Due>,
}

/// When a job runs that doesn't run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At a time, in milliseconds since 1970.
    At {
        /// The time.
        unix_ms: u64,
    },
    /// After a delay.
    In(Duration),
}

/// Unix milliseconds, rounded up: a job never runs before its time. Times before 1970 have passed.
pub(crate) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
