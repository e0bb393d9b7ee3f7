//! The rows of one kind in a database.

use bytes::Bytes;
use emq_keys::{BrandedId, Namespace};
use rusqlite::{Connection, Transaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::database::Sqlite;
use super::table::Table;
use super::thread::execute;
use crate::compaction::Progress;
use crate::effect::{Absorbed, Compacted, Contribution, Effect, JobName, Written};
use crate::error::StoreError;
use crate::ingress::{self, IntoId, IntoJob, job, of_kind};
use crate::property::{Answer, PropertyStore};
use crate::store::{defaulted, effect};

/// The rows of one kind in a database file: what [`Store`](crate::Store) stands on, and the way to
/// absorb a name in a transaction of one's own.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    db: Sqlite,
    kind: Namespace,
}

impl SqliteStore {
    /// The rows of a kind. All stores of a kind on one file are one store.
    #[must_use]
    pub fn new(db: &Sqlite, kind: Namespace) -> SqliteStore {
        SqliteStore { db: db.clone(), kind }
    }

    /// As [`Store::absorb`](crate::Store::absorb), in the caller's own transaction: the row, the
    /// job's name and the caller's tables change in one commit, or none of them does. An error
    /// leaves the transaction as it was before this call.
    ///
    /// The transaction is one of [`Sqlite::transaction`], or of any connection to the same file on
    /// which [`prepare`](super::prepare) was called.
    ///
    /// ```
    /// use emq_keys::namespace;
    /// use emq_stores::{Absorbed, StoreError, sqlite::{Sqlite, SqliteStore}};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Sqlite::open(directory.path().join("desk.db")).await?;
    /// # db.transaction(|tx| Ok::<_, StoreError>(tx.execute_batch("CREATE TABLE fills (n)")?)).await?;
    /// let totals = SqliteStore::new(&db, namespace!("TOT"));
    /// for expected in [Absorbed::Applied, Absorbed::Declined] {
    ///     let totals = totals.clone();
    ///     let absorbed = db
    ///         .transaction(move |tx| {
    ///             let (total, job) = ("TOT0NgWEfAEJfs", "JOB0NgWEfAEJfs");
    ///             let absorbed = totals.absorb_in(tx, total, job, |sum: &mut u64| *sum += 12)?;
    ///             if absorbed == Absorbed::Applied {
    ///                 tx.execute("INSERT INTO fills VALUES (12)", ())?;
    ///             }
    ///             Ok::<_, StoreError>(absorbed)
    ///         })
    ///         .await?;
    ///     assert_eq!(absorbed, expected);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Store::absorb`](crate::Store::absorb).
    pub fn absorb_in<R: Serialize + DeserializeOwned + Default, C: Serialize>(
        &self,
        tx: &Transaction<'_>,
        id: impl IntoId,
        by: impl IntoJob,
        f: impl FnOnce(&mut R) -> C,
    ) -> Result<Absorbed, StoreError> {
        self.absorb_named_in(tx, id, &JobName::new(job(by)?), defaulted(f))
    }

    /// As [`SqliteStore::absorb_in`], for a job that changes one row more than once on purpose.
    ///
    /// # Errors
    /// As [`Store::absorb`](crate::Store::absorb).
    pub fn absorb_step_in<R: Serialize + DeserializeOwned + Default, C: Serialize>(
        &self,
        tx: &Transaction<'_>,
        id: impl IntoId,
        by: impl IntoJob,
        step: &str,
        f: impl FnOnce(&mut R) -> C,
    ) -> Result<Absorbed, StoreError> {
        self.absorb_named_in(tx, id, &JobName::step(job(by)?, step), defaulted(f))
    }

    /// As [`Store::try_absorb`](crate::Store::try_absorb), in the caller's own transaction.
    ///
    /// # Errors
    /// As [`Store::try_absorb`](crate::Store::try_absorb).
    pub fn try_absorb_in<R, C, E>(
        &self,
        tx: &Transaction<'_>,
        id: impl IntoId,
        name: &JobName,
        f: impl FnOnce(Option<R>) -> Result<(R, C), E>,
    ) -> Result<Absorbed, StoreError>
    where
        R: Serialize + DeserializeOwned,
        C: Serialize,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let refusing = |row| f(row).map_err(|error| StoreError::Refused(error.into()));
        self.absorb_named_in(tx, id, name, refusing)
    }

    fn absorb_named_in<R: Serialize + DeserializeOwned, C: Serialize>(
        &self,
        tx: &Transaction<'_>,
        id: impl IntoId,
        name: &JobName,
        f: impl FnOnce(Option<R>) -> Result<(R, C), StoreError>,
    ) -> Result<Absorbed, StoreError> {
        let id = of_kind(id, self.kind)?;
        ingress::name(name)?;
        self.absorb_bytes_in(tx, id, name, effect(id, f))
    }

    /// As [`SqliteStore::absorb_in`], over bytes. The row's kind and the job's name are not gated.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn absorb_bytes_in(
        &self,
        tx: &Transaction<'_>,
        id: BrandedId,
        name: &JobName,
        effect: impl FnOnce(Option<Bytes>) -> Result<Written, StoreError>,
    ) -> Result<Absorbed, StoreError> {
        execute(tx, "SAVEPOINT emq_absorb")?;
        let absorbed = self.table(tx).absorb(id, name, effect);
        if absorbed.is_err() && !tx.is_autocommit() {
            execute(tx, "ROLLBACK TO emq_absorb")?;
        }
        if !tx.is_autocommit() {
            execute(tx, "RELEASE emq_absorb")?;
        }
        absorbed
    }

    fn table<'c>(&self, connection: &'c Connection) -> Table<'c> {
        Table { connection, kind: self.kind }
    }

    /// Reads, of what is committed.
    async fn read<T: Send + 'static>(
        &self,
        f: impl FnOnce(Table<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let kind = self.kind;
        self.db.with(move |connection| f(Table { connection, kind })).await
    }

    /// Writes, perhaps in a commit with others.
    async fn write<T: Send + 'static>(
        &self,
        f: impl FnOnce(Table<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let kind = self.kind;
        self.db.write(move |tx| f(Table { connection: tx, kind })).await
    }
}

impl PropertyStore for SqliteStore {
    fn kind(&self) -> Namespace {
        self.kind
    }

    fn get(&self, id: BrandedId) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.read(move |table| table.row(id)))
    }

    fn put(&self, id: BrandedId, row: Bytes) -> Answer<'_, ()> {
        Box::pin(self.write(move |table| table.put(id, &row)))
    }

    fn page_desc(
        &self,
        limit: usize,
        before: Option<BrandedId>,
    ) -> Answer<'_, Vec<(BrandedId, Bytes)>> {
        Box::pin(self.read(move |table| table.page_desc(limit, before)))
    }

    fn window(
        &self,
        lo: BrandedId,
        hi: BrandedId,
        limit: usize,
    ) -> Answer<'_, Vec<(BrandedId, Bytes)>> {
        Box::pin(self.read(move |table| table.window(lo, hi, limit)))
    }

    fn absorb(&self, id: BrandedId, name: JobName, effect: Effect) -> Answer<'_, Absorbed> {
        Box::pin(self.write(move |table| table.absorb(id, &name, effect)))
    }

    fn absorbed(
        &self,
        id: BrandedId,
        limit: usize,
        after: Option<JobName>,
    ) -> Answer<'_, Vec<Contribution>> {
        Box::pin(self.read(move |table| table.absorbed(id, limit, after.as_ref())))
    }

    fn folded(&self, id: BrandedId) -> Answer<'_, u64> {
        Box::pin(self.read(move |table| table.folded(id)))
    }

    /// The horizon is committed before the first name is forgotten; then each step is committed by
    /// itself. One that is broken off has moved the horizon at most, and the next goes on.
    fn compact(&self, horizon: BrandedId) -> Answer<'_, Compacted> {
        Box::pin(async move {
            let horizon = self.write(move |table| table.move_horizon(horizon)).await?;
            let mut progress = Progress::default();
            loop {
                let step = self.write(move |table| table.forget(horizon, progress));
                let (so_far, is_more) = step.await?;
                if !is_more {
                    return Ok(so_far.done);
                }
                progress = so_far;
            }
        })
    }

    fn horizon(&self) -> Answer<'_, Option<BrandedId>> {
        Box::pin(self.read(|table| table.horizon()))
    }
}
