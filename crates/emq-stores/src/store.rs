//! The typed handle that handlers use.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use emq_keys::{BrandedId, Namespace};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::effect::{Absorbed, Compacted, Contribution, JobName, Written};
use crate::error::StoreError;
use crate::ingress::{self, IntoId, IntoJob, job, of_kind};
use crate::property::PropertyStore;

/// The rows of one kind, as values of `R`. Cheap to clone; its clones are one store.
///
/// Rows are kept as JSON. Every id passes the gates before the backend is touched.
pub struct Store<R> {
    backend: Arc<dyn PropertyStore>,
    row: PhantomData<fn() -> R>,
}

impl<R> Clone for Store<R> {
    fn clone(&self) -> Self {
        Store { backend: Arc::clone(&self.backend), row: PhantomData }
    }
}

impl<R> fmt::Debug for Store<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

impl<R> Store<R> {
    /// A store over a backend.
    pub fn new(backend: impl PropertyStore) -> Store<R> {
        Store::shared(Arc::new(backend))
    }

    /// A store over a backend that others use too.
    pub fn shared(backend: Arc<dyn PropertyStore>) -> Store<R> {
        Store { backend, row: PhantomData }
    }

    /// The kind of its rows.
    #[must_use]
    pub fn kind(&self) -> Namespace {
        self.backend.kind()
    }
}

impl<R: Serialize + DeserializeOwned + Send + 'static> Store<R> {
    /// One row; `None` when there is none.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn get(&self, id: impl IntoId) -> Result<Option<R>, StoreError> {
        let id = of_kind(id, self.kind())?;
        self.backend.get(id).await?.map(|row| decode(id, &row)).transpose()
    }

    /// Writes a row, whatever was there. It is not guarded against a second delivery: see
    /// [`Store::absorb`].
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn put(&self, id: impl IntoId, row: &R) -> Result<(), StoreError> {
        let id = of_kind(id, self.kind())?;
        self.backend.put(id, encode(row)?).await
    }

    /// The newest rows first, by their names alone: at most `limit`, those before `before`.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn page_desc(
        &self,
        limit: usize,
        before: Option<BrandedId>,
    ) -> Result<Vec<(BrandedId, R)>, StoreError> {
        let before = before.map(|id| of_kind(id, self.kind())).transpose()?;
        decode_all(self.backend.page_desc(limit, before).await?)
    }

    /// The rows of `[lo, hi)`, ascending: at most `limit`. The bounds are ids, and are gated too.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn window(
        &self,
        lo: impl IntoId,
        hi: impl IntoId,
        limit: usize,
    ) -> Result<Vec<(BrandedId, R)>, StoreError> {
        let (lo, hi) = (of_kind(lo, self.kind())?, of_kind(hi, self.kind())?);
        decode_all(self.backend.window(lo, hi, limit).await?)
    }

    /// Lets a job change a row, once: if the row remembers the job it is [`Absorbed::Declined`],
    /// else what `f` made of it is written together with the job's name. A row that isn't there
    /// starts as the default. What `f` answers is kept as the job's contribution.
    ///
    /// # Errors
    /// [`StoreError::BeyondHorizon`] when nobody can know whether the job was absorbed; see
    /// [`StoreError`].
    pub async fn absorb<C: Serialize + 'static>(
        &self,
        id: impl IntoId,
        by: impl IntoJob,
        f: impl FnOnce(&mut R) -> C + Send + 'static,
    ) -> Result<Absorbed, StoreError>
    where
        R: Default,
    {
        self.absorb_named(id, JobName::new(job(by)?), defaulted(f)).await
    }

    /// As [`Store::absorb`], for a job that changes one row more than once on purpose: each step
    /// has a name, and happens once.
    ///
    /// # Errors
    /// As [`Store::absorb`].
    pub async fn absorb_step<C: Serialize + 'static>(
        &self,
        id: impl IntoId,
        by: impl IntoJob,
        step: &str,
        f: impl FnOnce(&mut R) -> C + Send + 'static,
    ) -> Result<Absorbed, StoreError>
    where
        R: Default,
    {
        self.absorb_named(id, JobName::step(job(by)?, step), defaulted(f)).await
    }

    /// As [`Store::absorb`], for an effect that sees whether there is a row, and that may refuse:
    /// then nothing is written, and the name is not remembered. It answers the row and the
    /// contribution.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with the effect's own error; as [`Store::absorb`].
    pub async fn try_absorb<
        C: Serialize + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    >(
        &self,
        id: impl IntoId,
        name: JobName,
        f: impl FnOnce(Option<R>) -> Result<(R, C), E> + Send + 'static,
    ) -> Result<Absorbed, StoreError> {
        self.absorb_named(id, name, move |row| {
            f(row).map_err(|error| StoreError::Refused(error.into()))
        })
        .await
    }

    async fn absorb_named<C: Serialize + 'static>(
        &self,
        id: impl IntoId,
        name: JobName,
        f: impl FnOnce(Option<R>) -> Result<(R, C), StoreError> + Send + 'static,
    ) -> Result<Absorbed, StoreError> {
        let id = of_kind(id, self.kind())?;
        ingress::name(&name)?;
        self.backend.absorb(id, name, Box::new(effect(id, f))).await
    }

    /// The names that a row remembers, ascending, with what they contributed: at most `limit`,
    /// those after `after`.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn absorbed(
        &self,
        id: impl IntoId,
        limit: usize,
        after: Option<JobName>,
    ) -> Result<Vec<Contribution>, StoreError> {
        let id = of_kind(id, self.kind())?;
        self.backend.absorbed(id, limit, after).await
    }

    /// How many names of a row were folded into its baseline.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn folded(&self, id: impl IntoId) -> Result<u64, StoreError> {
        let id = of_kind(id, self.kind())?;
        self.backend.folded(id).await
    }

    /// Forgets the names of jobs that are older than the horizon, an id of kind `JOB`, and counts
    /// them into their rows' baselines. From then on a job that is older and not remembered is
    /// refused, by every row of the kind, also by one that isn't there yet.
    ///
    /// The horizon must be older than any job that can still arrive: the longest delay, backlog,
    /// retries, time in the morgue and lag of a producer's clock, added up. A job whose id was
    /// [derived](BrandedId::derive_at) from an event is as old as the event. See the README.
    ///
    /// The horizon is moved first; the names go in bounded steps, and other calls get in between. A
    /// compaction that is broken off is taken up by the next one.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn compact(&self, horizon: impl IntoJob) -> Result<Compacted, StoreError> {
        self.backend.compact(job(horizon)?).await
    }

    /// The horizon; `None` as long as nothing was compacted.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn horizon(&self) -> Result<Option<BrandedId>, StoreError> {
        self.backend.horizon().await
    }
}

/// An effect on bytes from one on rows.
pub(crate) fn effect<R: Serialize + DeserializeOwned, C: Serialize>(
    id: BrandedId,
    f: impl FnOnce(Option<R>) -> Result<(R, C), StoreError>,
) -> impl FnOnce(Option<Bytes>) -> Result<Written, StoreError> {
    move |row| {
        let row = row.map(|row| decode(id, &row)).transpose()?;
        let (row, contribution) = f(row)?;
        Ok(Written { row: encode(&row)?, contribution: encode(&contribution)? })
    }
}

/// An effect that starts from the default where there is no row.
pub(crate) fn defaulted<R: Default, C>(
    f: impl FnOnce(&mut R) -> C,
) -> impl FnOnce(Option<R>) -> Result<(R, C), StoreError> {
    move |row| {
        let mut row = row.unwrap_or_default();
        let contribution = f(&mut row);
        Ok((row, contribution))
    }
}

pub(crate) fn encode(value: &impl Serialize) -> Result<Bytes, StoreError> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| StoreError::Encode(error.into()))
}

pub(crate) fn decode<R: DeserializeOwned>(id: BrandedId, row: &Bytes) -> Result<R, StoreError> {
    serde_json::from_slice(row).map_err(|error| StoreError::Decode { id, source: error.into() })
}

fn decode_all<R: DeserializeOwned>(
    rows: Vec<(BrandedId, Bytes)>,
) -> Result<Vec<(BrandedId, R)>, StoreError> {
    rows.into_iter().map(|(id, row)| decode(id, &row).map(|row| (id, row))).collect()
}
