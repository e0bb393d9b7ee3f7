//! A transaction of our own, on a connection of the pool.
//!
//! It is not the client's transaction type, for two reasons. `BEGIN` travels with the first
//! statement and `COMMIT` with the last where the client can send ahead (tokio-postgres; sqlx
//! can't). And a future that is dropped anywhere, also while `BEGIN` is on its way, closes the
//! connection: one within a transaction never returns to the pool, where the next caller's single
//! statement would become a part of it. A dropped future is rare, a new connection is cheap.
//!
//! The isolation is said, since the guard needs no more than READ COMMITTED and a database may
//! have another default.

use super::handle::Postgres;
#[cfg(feature = "sqlx")]
use super::own_sqlx::SqlxOwn;
#[cfg(feature = "tokio-postgres")]
use super::own_tokio::TokioOwn;
use super::transaction::sealed::Sealed;
use super::transaction::{Param, PgTransaction, Value};
use crate::error::StoreError;

pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// A transaction on a pooled connection. It begins with its first statement. Dropped without
/// [`OwnTransaction::commit`] it is rolled back, at the price of the connection.
pub(crate) enum OwnTransaction {
    #[cfg(feature = "tokio-postgres")]
    Tokio(TokioOwn),
    #[cfg(feature = "sqlx")]
    Sqlx(SqlxOwn),
}

impl Postgres {
    /// Takes a connection for a transaction.
    pub(crate) async fn begin(&self) -> Result<OwnTransaction, StoreError> {
        match self {
            #[cfg(feature = "tokio-postgres")]
            Postgres::Tokio(pool) => Ok(OwnTransaction::Tokio(TokioOwn::take(pool).await?)),
            #[cfg(feature = "sqlx")]
            Postgres::Sqlx(pool) => Ok(OwnTransaction::Sqlx(SqlxOwn::take(pool).await?)),
        }
    }
}

impl OwnTransaction {
    /// Runs one last statement and commits. An error of the statement undoes everything.
    pub(crate) async fn commit_with(
        self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<u64, StoreError> {
        match self {
            #[cfg(feature = "tokio-postgres")]
            OwnTransaction::Tokio(own) => own.commit_with(sql, params).await,
            #[cfg(feature = "sqlx")]
            OwnTransaction::Sqlx(own) => own.commit_with(sql, params).await,
        }
    }

    /// Commits.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        self.end(COMMIT).await
    }

    /// Gives up, and returns the connection to the pool. A failure is nobody's concern: then the
    /// connection is closed, and the server gives up by itself.
    pub(crate) async fn rollback(self) {
        let _ = self.end(ROLLBACK).await;
    }

    async fn end(self, how: &'static str) -> Result<(), StoreError> {
        match self {
            #[cfg(feature = "tokio-postgres")]
            OwnTransaction::Tokio(own) => own.end(how).await,
            #[cfg(feature = "sqlx")]
            OwnTransaction::Sqlx(own) => own.end(how).await,
        }
    }
}

impl Sealed for OwnTransaction {}

impl PgTransaction for OwnTransaction {
    async fn execute<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<u64, StoreError> {
        match self {
            #[cfg(feature = "tokio-postgres")]
            OwnTransaction::Tokio(own) => own.execute(sql, params).await,
            #[cfg(feature = "sqlx")]
            OwnTransaction::Sqlx(own) => own.execute(sql, params).await,
        }
    }

    async fn query<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        match self {
            #[cfg(feature = "tokio-postgres")]
            OwnTransaction::Tokio(own) => own.query(sql, params).await,
            #[cfg(feature = "sqlx")]
            OwnTransaction::Sqlx(own) => own.query(sql, params).await,
        }
    }

    async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        match self {
            #[cfg(feature = "tokio-postgres")]
            OwnTransaction::Tokio(own) => own.batch(sql).await,
            #[cfg(feature = "sqlx")]
            OwnTransaction::Sqlx(own) => own.batch(sql).await,
        }
    }
}
