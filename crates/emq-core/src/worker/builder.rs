//! The settings of a worker.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;

use super::handler::Handler;
use super::route::Routes;
use super::{Worker, inside};
use crate::backoff::Backoff;
use crate::error::Error;
use crate::payload::{Codec, Json, Raw};
use crate::queue::{Failure, Queue, TypedQueue};

const LEASE_MAX: Duration = Duration::from_millis(1 << 40);
const CONCURRENCY_MAX: usize = 100_000;

/// A queue that a worker can work: with a type, or plain, where payloads are bytes.
pub trait WorkQueue {
    /// What a handler gets.
    type Item: Send + 'static;
    /// How payloads become that.
    type Codec: Codec<Self::Item>;

    /// The queue with its type.
    fn into_typed(self) -> TypedQueue<Self::Item, Self::Codec>;
}

impl WorkQueue for Queue {
    type Item = Bytes;
    type Codec = Raw;

    fn into_typed(self) -> TypedQueue<Bytes, Raw> {
        TypedQueue::new(self)
    }
}

impl WorkQueue for &Queue {
    type Item = Bytes;
    type Codec = Raw;

    fn into_typed(self) -> TypedQueue<Bytes, Raw> {
        TypedQueue::new(self.clone())
    }
}

impl<T: Send + 'static, C: Codec<T>> WorkQueue for TypedQueue<T, C> {
    type Item = T;
    type Codec = C;

    fn into_typed(self) -> TypedQueue<T, C> {
        self
    }
}

impl<T: Send + 'static, C: Codec<T>> WorkQueue for &TypedQueue<T, C> {
    type Item = T;
    type Codec = C;

    fn into_typed(self) -> TypedQueue<T, C> {
        self.clone()
    }
}

/// How a worker behaves.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) concurrency: usize,
    pub(super) lease: Duration,
    pub(super) beat: Duration,
    pub(super) backoff: Backoff,
    pub(super) max_attempts: u32,
    pub(super) lost_cap: u32,
    pub(super) timeout: Option<Duration>,
    pub(super) cancel_grace: Duration,
    pub(super) aside: Duration,
}

impl Settings {
    fn check(&self) -> Result<(), Error> {
        let wrong = |what, range| Err(Error::Setting { what, range });
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            return wrong("concurrency", "1 to 100,000");
        }
        if self.lease < Duration::from_millis(10) || self.lease > LEASE_MAX {
            return wrong("lease", "10 ms to 2^40 ms");
        }
        if self.beat < Duration::from_millis(1) {
            return wrong("beat", "a millisecond or more");
        }
        if self.max_attempts == 0 || self.max_attempts > 1 << 31 {
            return wrong("max_attempts", "1 to 2^31");
        }
        if self.lost_cap == 0 || self.lost_cap > 1 << 31 {
            return wrong("lost_cap", "1 to 2^31");
        }
        if self.aside > LEASE_MAX {
            return wrong("hold_aside", "at most 2^40 ms");
        }
        Ok(())
    }
}

/// No handler was given yet: [`WorkerBuilder::handler`] and [`WorkerBuilder::route`] give one.
#[derive(Clone, Copy, Debug)]
pub struct NoHandler;

/// A handler was given, so that the worker can start.
#[derive(Clone, Copy, Debug)]
pub struct Handled;

/// The settings of a [`Worker`], made by [`Worker::builder`].
#[must_use]
pub struct WorkerBuilder<T, C, S = NoHandler> {
    queue: TypedQueue<T, C>,
    settings: Settings,
    routes: Routes,
    state: PhantomData<fn(T) -> S>,
}

impl<T: Send + 'static, C: Codec<T>> WorkerBuilder<T, C> {
    pub(super) fn new(queue: TypedQueue<T, C>) -> Self {
        let settings = Settings {
            concurrency: 10,
            lease: Duration::from_secs(30),
            beat: Duration::from_secs(5),
            backoff: Backoff::default(),
            max_attempts: Failure::MAX_ATTEMPTS,
            lost_cap: 10,
            timeout: None,
            cancel_grace: Duration::from_secs(1),
            aside: Duration::from_secs(5),
        };
        Self { queue, settings, routes: Routes::default(), state: PhantomData }
    }
}

impl<T: Send + 'static, C: Codec<T>, S> WorkerBuilder<T, C, S> {
    /// How many handlers run at once (10 unless said).
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers;
        self
    }

    /// How long a job is held before another worker may have it (30 s unless said). A handler may
    /// run longer: the worker extends its lease at each third of it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How often the worker looks after the queue unasked: jobs whose worker was lost come back
    /// within their lease plus a beat (5 s unless said; at most half the lease counts). Nothing
    /// else waits for it.
    pub fn beat(mut self, beat: Duration) -> Self {
        self.settings.beat = beat;
        self
    }

    /// How long a failed job waits for its next attempt, by the number of the attempt that failed:
    /// its token, so that attempts that were lost or handed back lengthen the delay too.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// How many attempts a job has that says nothing itself (25 unless said). Attempts that were
    /// lost or handed back don't count.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self
    }

    /// How often a job may be lost, by a crash of its worker for instance, before it is buried
    /// (10 unless said).
    pub fn lost_cap(mut self, times: u32) -> Self {
        self.settings.lost_cap = times;
        self
    }

    /// How long a handler may run (for ever unless said): then it is cancelled, and the attempt
    /// has failed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// How long a cancelled handler may take to end by itself before it is dropped at its next
    /// await (1 s unless said).
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.cancel_grace = grace;
        self
    }

    /// How long a job of a kind that no handler here knows is held aside before it is handed back
    /// (5 s unless said); see [`WorkerBuilder::route`].
    pub fn hold_aside(mut self, unknown: Duration) -> Self {
        self.settings.aside = unknown;
        self
    }

    /// What works the jobs that no [`WorkerBuilder::route`] is for: all of them without routes.
    pub fn handler<H: Handler<T>>(mut self, handler: H) -> WorkerBuilder<T, C, Handled> {
        self.routes.set_rest::<T, C, H>(handler);
        self.handled()
    }

    /// What works the jobs of a kind, whose payloads are JSON of a type of their own.
    ///
    /// ```no_run
    /// # use emq_core::{EnqueueOptions, Error, Job, Queue, Worker};
    /// # async fn example(queue: Queue) -> Result<(), Error> {
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Email { to: String }
    /// let worker = Worker::builder(&queue)
    ///     .route("email", |job: Job<Email>| async move {
    ///         println!("to {}", job.payload.to);
    ///         Ok(())
    ///     })
    ///     .route("sms", |job: Job<(u64, String)>| async move {
    ///         println!("to {}: {}", job.payload.0, job.payload.1);
    ///         Ok(())
    ///     })
    ///     .start()?;
    /// let email = queue.typed();
    /// let options = EnqueueOptions::new().kind("email");
    /// let _ = email.enqueue_with(&Email { to: "a@b.c".to_owned() }, &options).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// A job without a kind, or of a kind without a route, goes to [`WorkerBuilder::handler`].
    /// Where there is none, this worker doesn't know the job, though a newer one may. It warns,
    /// holds the job aside for a while ([`WorkerBuilder::hold_aside`]) under its lease, and then
    /// hands it back, so that it neither counts as a failure nor ends in the morgue. Jobs held
    /// aside take no handler's slot, but never more than twice the concurrency are held in all:
    /// a worker that gets little but unknown kinds slows down.
    pub fn route<A, H>(self, kind: impl Into<String>, handler: H) -> WorkerBuilder<T, C, Handled>
    where
        A: Send + 'static,
        Json: Codec<A>,
        H: Handler<A>,
    {
        self.route_with::<A, Json, H>(kind, handler)
    }

    /// What works the jobs of a kind, whose payloads are in a codec of their own; see
    /// [`WorkerBuilder::route`].
    pub fn route_with<A, D, H>(
        mut self,
        kind: impl Into<String>,
        handler: H,
    ) -> WorkerBuilder<T, C, Handled>
    where
        A: Send + 'static,
        D: Codec<A>,
        H: Handler<A>,
    {
        self.routes.add::<A, D, H>(kind.into(), handler);
        self.handled()
    }

    fn handled(self) -> WorkerBuilder<T, C, Handled> {
        let Self { queue, settings, routes, .. } = self;
        WorkerBuilder { queue, settings, routes, state: PhantomData }
    }
}

impl<T: Send + 'static, C: Codec<T>> WorkerBuilder<T, C, Handled> {
    /// Starts the worker in the background. The server need not be in reach. Must be called
    /// inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Setting`] for a setting out of range.
    pub fn start(self) -> Result<Worker, Error> {
        let Self { queue, mut settings, routes, .. } = self;
        settings.check()?;
        settings.beat = settings.beat.min(settings.lease / 2).max(Duration::from_millis(1));
        Ok(inside::start(queue.queue().clone(), settings, routes))
    }
}

impl<T, C, S> fmt::Debug for WorkerBuilder<T, C, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("queue", &self.queue)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
