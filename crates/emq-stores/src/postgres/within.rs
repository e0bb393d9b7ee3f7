//! Rows within a transaction of the caller's own.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use emq_keys::{BrandedId, Namespace};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::guard;
use super::tables::{GET, PUT, WRITE};
use super::transaction::{Param, PgTransaction, Value};
use crate::effect::{Absorbed, JobName};
use crate::error::StoreError;
use crate::ingress::{self, IntoId, IntoJob, job, of_kind};
use crate::store::{decode, defaulted, effect, encode};

/// The rows of one kind, as values of `R`, within transactions of the caller's own: what a job
/// changes here and what it changes in the caller's tables are committed together, or not at all.
/// They are the rows of [`Postgres::store`](super::Postgres::store).
///
/// ```no_run
/// # use emq_stores::postgres::PgStore;
/// # use emq_stores::{Absorbed, StoreError};
/// # use emq_keys::{BrandedId, Namespace};
/// #[derive(Default, serde::Serialize, serde::Deserialize)]
/// struct Position {
///     quantity: i64,
/// }
///
/// # #[cfg(feature = "sqlx")]
/// # async fn fill(pool: sqlx::PgPool, id: BrandedId, job: BrandedId)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let positions = PgStore::<Position>::new(Namespace::new("POS")?);
/// let mut tx = pool.begin().await?;
/// let done = positions.absorb_in(&mut tx, id, job, |position| position.quantity += 5).await?;
/// if done == Absorbed::Applied {
///     sqlx::query("UPDATE ledger SET quantity = quantity + 5").execute(&mut *tx).await?;
/// }
/// tx.commit().await?;
/// # Ok(()) }
/// ```
///
/// The row is locked until the transaction ends. Transactions that absorb into several rows should
/// do so in the order of their ids: else two of them may wait for each other, and the database ends
/// one ([`StoreError::Unavailable`]). Any isolation level will do; above READ COMMITTED a race for
/// a row ends the later one in the same way.
pub struct PgStore<R> {
    kind: Namespace,
    row: PhantomData<fn() -> R>,
}

impl<R> Clone for PgStore<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for PgStore<R> {}

impl<R> fmt::Debug for PgStore<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgStore").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<R> PgStore<R> {
    /// The rows of a kind.
    #[must_use]
    pub fn new(kind: Namespace) -> PgStore<R> {
        PgStore { kind, row: PhantomData }
    }

    /// The kind of its rows.
    #[must_use]
    pub fn kind(&self) -> Namespace {
        self.kind
    }
}

impl<R: Serialize + DeserializeOwned + Send> PgStore<R> {
    /// One row; `None` when there is none.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn get_in(
        &self,
        tx: &mut impl PgTransaction,
        id: impl IntoId,
    ) -> Result<Option<R>, StoreError> {
        let id = of_kind(id, self.kind)?;
        let rows = tx.query(GET, &[Param::Text(id.as_str())]).await?;
        let body = rows.into_iter().flatten().next().map(Value::into_bytes).transpose()?;
        body.map(|body| decode(id, &Bytes::from(body))).transpose()
    }

    /// Writes a row, whatever was there. It is not guarded against a second delivery.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn put_in(
        &self,
        tx: &mut impl PgTransaction,
        id: impl IntoId,
        row: &R,
    ) -> Result<(), StoreError> {
        let (id, row) = (of_kind(id, self.kind)?, encode(row)?);
        tx.execute(PUT, &[Param::Text(id.as_str()), Param::Bytes(&row)]).await.map(drop)
    }

    /// Lets a job change a row, once, as [`Store::absorb`](crate::Store::absorb) does. It takes
    /// effect when the caller commits.
    ///
    /// # Errors
    /// As [`PgStore::try_absorb_in`].
    pub async fn absorb_in<C: Serialize>(
        &self,
        tx: &mut impl PgTransaction,
        id: impl IntoId,
        by: impl IntoJob,
        f: impl FnOnce(&mut R) -> C + Send,
    ) -> Result<Absorbed, StoreError>
    where
        R: Default,
    {
        self.absorb_named(tx, of_kind(id, self.kind)?, JobName::new(job(by)?), defaulted(f)).await
    }

    /// As [`PgStore::absorb_in`], for a job that changes one row more than once on purpose.
    ///
    /// # Errors
    /// As [`PgStore::try_absorb_in`].
    pub async fn absorb_step_in<C: Serialize>(
        &self,
        tx: &mut impl PgTransaction,
        id: impl IntoId,
        by: impl IntoJob,
        step: &str,
        f: impl FnOnce(&mut R) -> C + Send,
    ) -> Result<Absorbed, StoreError>
    where
        R: Default,
    {
        let name = JobName::step(job(by)?, step);
        self.absorb_named(tx, of_kind(id, self.kind)?, name, defaulted(f)).await
    }

    /// As [`PgStore::absorb_in`], for an effect that sees whether there is a row, and may refuse.
    ///
    /// # Errors
    /// [`StoreError::Refused`], [`StoreError::BeyondHorizon`], and an id or a row that is none:
    /// nothing was written, and the transaction can go on. [`StoreError::Unavailable`] and
    /// [`StoreError::Database`]: the transaction is over, roll it back.
    pub async fn try_absorb_in<C, E>(
        &self,
        tx: &mut impl PgTransaction,
        id: impl IntoId,
        name: JobName,
        f: impl FnOnce(Option<R>) -> Result<(R, C), E> + Send,
    ) -> Result<Absorbed, StoreError>
    where
        C: Serialize,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.absorb_named(tx, of_kind(id, self.kind)?, name, move |row| {
            f(row).map_err(|error| StoreError::Refused(error.into()))
        })
        .await
    }

    async fn absorb_named<C: Serialize>(
        &self,
        tx: &mut impl PgTransaction,
        id: BrandedId,
        name: JobName,
        f: impl FnOnce(Option<R>) -> Result<(R, C), StoreError> + Send,
    ) -> Result<Absorbed, StoreError> {
        ingress::name(&name)?;
        let written = guard::decide(tx, id, &name, effect(id, f)).await?;
        let Some(written) = written else { return Ok(Absorbed::Declined) };
        let job = name.job();
        match tx.execute(WRITE, &guard::write_params(&id, &job, &name, &written)).await? {
            0 => Ok(Absorbed::Declined),
            _ => Ok(Absorbed::Applied),
        }
    }
}
