//! A queue whose payloads have a type.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use emq_keys::BrandedId;

use super::{EnqueueOptions, NewJob, Queue};
use crate::error::Error;
use crate::lane::TypedLane;
use crate::outcome::Enqueued;
use crate::payload::{Codec, Json};

/// A [`Queue`] whose payloads are values of `T` in the codec `C`. The verbs that don't look at
/// payloads are the queue's own: [`TypedQueue::queue`].
pub struct TypedQueue<T, C = Json> {
    queue: Queue,
    payload: PhantomData<fn(T) -> (T, C)>,
}

impl<T, C> TypedQueue<T, C> {
    pub(crate) fn new(queue: Queue) -> Self {
        Self { queue, payload: PhantomData }
    }

    /// The queue underneath, with all its other verbs.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The lane of an identity, with payloads of the same type.
    #[must_use]
    pub fn lane(&self, id: BrandedId) -> TypedLane<T, C> {
        self.queue.lane(id).typed_with()
    }
}

impl<T, C: Codec<T>> TypedQueue<T, C> {
    /// Enqueues a value under a fresh id.
    ///
    /// # Errors
    /// [`Error::Codec`] when it doesn't encode; else as [`Queue::enqueue`].
    pub async fn enqueue(&self, value: &T) -> Result<Enqueued, Error> {
        self.queue.enqueue(C::encode(value)?).await
    }

    /// Enqueues a value with options.
    ///
    /// # Errors
    /// [`Error::Codec`] when it doesn't encode; else as [`Queue::enqueue_with`].
    pub async fn enqueue_with(
        &self,
        value: &T,
        options: &EnqueueOptions,
    ) -> Result<Enqueued, Error> {
        self.queue.enqueue_with(C::encode(value)?, options).await
    }

    /// Enqueues a value that runs at a time, by the server's clock.
    ///
    /// # Errors
    /// [`Error::Codec`] when it doesn't encode; else as [`Queue::enqueue`].
    pub async fn enqueue_at(&self, value: &T, time: SystemTime) -> Result<Enqueued, Error> {
        self.queue.enqueue_at(C::encode(value)?, time).await
    }

    /// Enqueues a value that runs after a delay, on the server's clock.
    ///
    /// # Errors
    /// [`Error::Codec`] when it doesn't encode; else as [`Queue::enqueue`].
    pub async fn enqueue_in(&self, value: &T, delay: Duration) -> Result<Enqueued, Error> {
        self.queue.enqueue_in(C::encode(value)?, delay).await
    }

    /// A job for [`Queue::enqueue_many`], under a fresh id.
    ///
    /// # Errors
    /// [`Error::Codec`] when the value doesn't encode, [`Error::Minting`] without an id.
    pub async fn job(&self, value: &T) -> Result<NewJob, Error> {
        Ok(NewJob::new(self.queue.bus().mint_job().await?, C::encode(value)?))
    }

    /// The value that was enqueued under an id.
    ///
    /// # Errors
    /// [`Error::Gone`] when there is no such job (any more), [`Error::Codec`] when its payload
    /// doesn't decode.
    pub async fn payload(&self, id: BrandedId) -> Result<T, Error> {
        self.decode(&self.queue.payload(id).await?)
    }

    /// The value of a payload.
    ///
    /// # Errors
    /// [`Error::Codec`] when it doesn't decode.
    pub fn decode(&self, payload: &Bytes) -> Result<T, Error> {
        Ok(C::decode(payload)?)
    }
}

impl<T, C> Clone for TypedQueue<T, C> {
    fn clone(&self) -> Self {
        Self::new(self.queue.clone())
    }
}

impl<T, C> fmt::Debug for TypedQueue<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedQueue").field(self.queue.name()).finish()
    }
}
