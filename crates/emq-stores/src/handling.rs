//! A handler that writes through stores.

use std::error::Error as StdError;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use emq_core::{Handler, Job, JobError};
use emq_keys::BrandedId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::effect::{Absorbed, JobName};
use crate::error::StoreError;
use crate::ingress::IntoId;
use crate::store::Store;

/// A job in the hands of a handler that writes through stores: all that [`Job`] has, the stores,
/// and absorbing under the job's own name.
///
/// What it writes carries the job's name and nothing else's: a second delivery of the job is
/// declined by each row that the first one reached. See [`with_stores`].
pub struct Cx<T, S> {
    job: Job<T>,
    stores: Arc<S>,
}

impl<T, S> Cx<T, S> {
    /// The stores.
    #[must_use]
    pub fn stores(&self) -> &S {
        &self.stores
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job<T> {
        &self.job
    }

    /// As [`Store::absorb`], by this job.
    ///
    /// # Errors
    /// As [`Store::absorb`].
    pub async fn absorb<R, C>(
        &self,
        store: &Store<R>,
        id: impl IntoId,
        f: impl FnOnce(&mut R) -> C + Send + 'static,
    ) -> Result<Absorbed, StoreError>
    where
        R: Serialize + DeserializeOwned + Default + Send + 'static,
        C: Serialize + 'static,
    {
        store.absorb(id, self.job.id(), f).await
    }

    /// As [`Store::absorb_step`], by this job.
    ///
    /// # Errors
    /// As [`Store::absorb`].
    pub async fn absorb_step<R, C>(
        &self,
        store: &Store<R>,
        id: impl IntoId,
        step: &str,
        f: impl FnOnce(&mut R) -> C + Send + 'static,
    ) -> Result<Absorbed, StoreError>
    where
        R: Serialize + DeserializeOwned + Default + Send + 'static,
        C: Serialize + 'static,
    {
        store.absorb_step(id, self.job.id(), step, f).await
    }

    /// As [`Store::try_absorb`], by this job.
    ///
    /// # Errors
    /// As [`Store::try_absorb`].
    pub async fn try_absorb<R, C, E>(
        &self,
        store: &Store<R>,
        id: impl IntoId,
        f: impl FnOnce(Option<R>) -> Result<(R, C), E> + Send + 'static,
    ) -> Result<Absorbed, StoreError>
    where
        R: Serialize + DeserializeOwned + Send + 'static,
        C: Serialize + 'static,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
    {
        store.try_absorb(id, self.name(), f).await
    }

    /// The name that a row remembers when it absorbs this job, for a transaction of one's own.
    #[must_use]
    pub fn name(&self) -> JobName {
        JobName::new(self.job.id())
    }
}

impl<T, S> Deref for Cx<T, S> {
    type Target = Job<T>;

    fn deref(&self) -> &Job<T> {
        &self.job
    }
}

impl<T, S> fmt::Debug for Cx<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("job", &self.job).finish_non_exhaustive()
    }
}

/// A handler that has stores. They are given once, and shared by all its jobs.
///
/// An error that comes from [`StoreError::BeyondHorizon`], at whatever depth, is the job's end: it
/// goes to the morgue with its reason, as no attempt can find out whether it was absorbed. All
/// other errors are retried as the worker's backoff says, refusals of effects among them; a handler
/// that knows better answers [`JobError::dead`].
///
/// ```no_run
/// use emq_core::{Queue, Worker};
/// use emq_keys::BrandedId;
/// use emq_stores::{Cx, Store, with_stores};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Fill {
///     order: BrandedId,
///     portfolio: BrandedId,
///     quantity: i64,
/// }
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Position {
///     quantity: i64,
/// }
///
/// struct Desk {
///     positions: Store<Position>,
///     filled: Store<i64>,
/// }
///
/// # fn example(queue: &Queue, desk: Desk) -> Result<(), emq_core::Error> {
/// let fills = queue.typed::<Fill>();
/// let worker = Worker::builder(&fills)
///     .handler(with_stores(desk, |cx: Cx<Fill, Desk>| async move {
///         let &Fill { order, portfolio, quantity } = &cx.payload;
///         let desk = cx.stores();
///         let _ = cx.absorb(&desk.positions, portfolio, move |p| p.quantity += quantity).await?;
///         // A crash here costs nothing: the next attempt is declined above, and goes on here.
///         let _ = cx.absorb(&desk.filled, order, move |filled| *filled += quantity).await?;
///         Ok(())
///     }))
///     .start()?;
/// # Ok(()) }
/// ```
pub fn with_stores<T, S, F, Fut>(stores: impl Into<Arc<S>>, f: F) -> WithStores<T, S, F>
where
    T: Send + 'static,
    S: Send + Sync + 'static,
    F: Fn(Cx<T, S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), JobError>> + Send,
{
    WithStores { stores: stores.into(), f, payload: PhantomData }
}

/// A handler that has stores: see [`with_stores`].
pub struct WithStores<T, S, F> {
    stores: Arc<S>,
    f: F,
    payload: PhantomData<fn(T)>,
}

impl<T, S, F, Fut> Handler<T> for WithStores<T, S, F>
where
    T: Send + 'static,
    S: Send + Sync + 'static,
    F: Fn(Cx<T, S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), JobError>> + Send,
{
    async fn run(&self, job: Job<T>) -> Result<(), JobError> {
        let id = job.id();
        let cx = Cx { job, stores: Arc::clone(&self.stores) };
        (self.f)(cx).await.map_err(|error| match is_beyond(&error, id) {
            true => error.into_dead(),
            false => error,
        })
    }
}

impl<T, S, F> fmt::Debug for WithStores<T, S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithStores").finish_non_exhaustive()
    }
}

/// Whether an error comes from a job that is older than what its row remembers: by its type, or by
/// its words where a wrapper hides the type (`#[error(transparent)]`, a string).
fn is_beyond(error: &JobError, job: BrandedId) -> bool {
    let words = format!("{job} is older than the horizon");
    let mut next: Option<&(dyn StdError + 'static)> = Some(error.cause());
    while let Some(error) = next {
        if let Some(StoreError::BeyondHorizon { .. }) = error.downcast_ref() {
            return true;
        }
        if error.to_string().contains(&words) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the fill can't be booked")]
    struct Booking(#[source] StoreError);

    #[derive(Debug, thiserror::Error)]
    #[error(transparent)]
    struct Hidden(StoreError);

    const JOB: &str = "JOB0NgWEfAEJfs";

    fn beyond() -> StoreError {
        let horizon = "JOB0NgWEfAEJft".parse().unwrap();
        StoreError::BeyondHorizon { job: JOB.parse().unwrap(), horizon }
    }

    #[track_caller]
    fn finds(error: impl Into<JobError>) -> bool {
        is_beyond(&error.into(), JOB.parse().unwrap())
    }

    #[test]
    fn a_forgotten_job_is_found_at_any_depth() {
        assert!(finds(beyond()));
        assert!(finds(Booking(beyond())));
        let refused = StoreError::Refused(Booking(beyond()).into());
        assert!(finds(Booking(refused)));
        assert!(finds(Hidden(beyond())));
        assert!(finds(JobError::new(format!("no luck: {}", beyond()))));
    }

    #[test]
    fn another_failure_is_none() {
        assert!(!finds(Booking(StoreError::Closed)));
        assert!(!finds(JobError::new("JOB0NgWEfAEJfs is late")));
        assert!(!finds(JobError::release()));
    }
}
