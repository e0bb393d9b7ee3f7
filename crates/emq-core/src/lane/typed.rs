//! A lane whose payloads have a type.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use super::Lane;
use crate::error::Error;
use crate::outcome::Enqueued;
use crate::payload::{Codec, Json};
use crate::queue::{EnqueueOptions, NewJob};

/// A [`Lane`] whose payloads are values of `T` in the codec `C`; what doesn't look at payloads is
/// the lane's own: [`TypedLane::lane`]. [`TypedQueue::lane`](crate::TypedQueue::lane) gives one.
pub struct TypedLane<T, C = Json> {
    lane: Lane,
    payload: PhantomData<fn(T) -> (T, C)>,
}

impl<T, C> TypedLane<T, C> {
    pub(crate) fn new(lane: Lane) -> Self {
        Self { lane, payload: PhantomData }
    }

    /// The lane underneath, with all its other verbs.
    #[must_use]
    pub fn lane(&self) -> &Lane {
        &self.lane
    }
}

impl<T, C: Codec<T>> TypedLane<T, C> {
    /// Enqueues a value in the lane under a fresh id.
    ///
    /// # Errors
    /// [`Error::Codec`] when it doesn't encode; else as [`Lane::enqueue`].
    pub async fn enqueue(&self, value: &T) -> Result<Enqueued, Error> {
        self.lane.enqueue(C::encode(value)?).await
    }

    /// Enqueues a value with options.
    ///
    /// # Errors
    /// [`Error::Codec`] when it doesn't encode; else as [`Lane::enqueue_with`].
    pub async fn enqueue_with(
        &self,
        value: &T,
        options: &EnqueueOptions,
    ) -> Result<Enqueued, Error> {
        self.lane.enqueue_with(C::encode(value)?, options).await
    }

    /// Enqueues a value that enters the lane at a time, by the server's clock.
    ///
    /// # Errors
    /// [`Error::Codec`] when it doesn't encode; else as [`Lane::enqueue`].
    pub async fn enqueue_at(&self, value: &T, time: SystemTime) -> Result<Enqueued, Error> {
        self.lane.enqueue_at(C::encode(value)?, time).await
    }

    /// Enqueues a value that enters the lane after a delay, on the server's clock.
    ///
    /// # Errors
    /// [`Error::Codec`] when it doesn't encode; else as [`Lane::enqueue`].
    pub async fn enqueue_in(&self, value: &T, delay: Duration) -> Result<Enqueued, Error> {
        self.lane.enqueue_in(C::encode(value)?, delay).await
    }

    /// A job of this lane for [`Queue::enqueue_many`](crate::Queue::enqueue_many), under a fresh
    /// id.
    ///
    /// # Errors
    /// [`Error::Codec`] when the value doesn't encode, [`Error::Minting`] without an id.
    pub async fn job(&self, value: &T) -> Result<NewJob, Error> {
        let payload = C::encode(value)?;
        let id = self.lane.queue().bus().mint_job().await?;
        Ok(NewJob::new(id, payload).lane(self.lane.id()))
    }
}

impl<T, C> Clone for TypedLane<T, C> {
    fn clone(&self) -> Self {
        Self::new(self.lane.clone())
    }
}

impl<T, C> fmt::Debug for TypedLane<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedLane").field(self.lane.queue().name()).field(&self.lane.id()).finish()
    }
}
