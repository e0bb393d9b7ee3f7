//! A transaction of our own through deadpool-postgres: two round trips for two statements.
//!
//! tokio-postgres writes a request when its future is first polled, so two futures that are polled
//! in order are two requests in order on the wire, without a reply between them.

use deadpool_postgres::{Object, Pool};
use tokio_postgres::Statement;

use super::failure::{of_deadpool, of_tokio};
use super::own::{BEGIN, COMMIT};
use super::tokio_client::{by_reference, types, values};
use super::transaction::{Param, Value};
use crate::error::StoreError;

pub(crate) struct TokioOwn {
    /// `None` once it was given back.
    connection: Option<Object>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was sent.
    Fresh,
    /// `BEGIN` was sent.
    Begun,
}

impl TokioOwn {
    pub(super) async fn take(pool: &Pool) -> Result<TokioOwn, StoreError> {
        let connection = Some(pool.get().await.map_err(of_deadpool)?);
        Ok(TokioOwn { connection, stage: Stage::Fresh })
    }

    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<u64, StoreError> {
        let statement = self.statement(sql, params).await?;
        let params = by_reference(params);
        let fresh = self.enter();
        let connection = self.connection()?;
        if fresh {
            let (begun, done) = tokio::join!(
                biased;
                connection.batch_execute(BEGIN),
                connection.execute(&statement, &params),
            );
            begun.map_err(of_tokio)?;
            return done.map_err(of_tokio);
        }
        connection.execute(&statement, &params).await.map_err(of_tokio)
    }

    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        let statement = self.statement(sql, params).await?;
        let params = by_reference(params);
        let fresh = self.enter();
        let connection = self.connection()?;
        if fresh {
            let (begun, rows) = tokio::join!(
                biased;
                connection.batch_execute(BEGIN),
                connection.query(&statement, &params),
            );
            begun.map_err(of_tokio)?;
            return values(&rows.map_err(of_tokio)?);
        }
        values(&connection.query(&statement, &params).await.map_err(of_tokio)?)
    }

    pub(super) async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        let fresh = self.enter();
        let connection = self.connection()?;
        if fresh {
            connection.batch_execute(BEGIN).await.map_err(of_tokio)?;
        }
        connection.batch_execute(sql).await.map_err(of_tokio)
    }

    /// Behind a statement that failed, the server takes `COMMIT` for `ROLLBACK`: nothing is
    /// committed that the statement was to be a part of.
    pub(super) async fn commit_with(
        mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<u64, StoreError> {
        if self.stage == Stage::Fresh {
            let done = self.execute(sql, params).await?;
            return self.end(COMMIT).await.map(|()| done);
        }
        let statement = self.statement(sql, params).await?;
        let params = by_reference(params);
        let connection = self.connection()?;
        let (done, committed) = tokio::join!(
            biased;
            connection.execute(&statement, &params),
            connection.batch_execute(COMMIT),
        );
        if committed.is_ok() {
            self.give_back();
        }
        let done = done.map_err(of_tokio)?;
        committed.map_err(of_tokio)?;
        Ok(done)
    }

    pub(super) async fn end(mut self, how: &'static str) -> Result<(), StoreError> {
        if self.stage == Stage::Begun {
            self.connection()?.batch_execute(how).await.map_err(of_tokio)?;
        }
        self.give_back();
        Ok(())
    }

    async fn statement(&self, sql: &str, params: &[Param<'_>]) -> Result<Statement, StoreError> {
        let types = types(params);
        self.connection()?.prepare_typed_cached(sql, &types).await.map_err(of_tokio)
    }

    /// Whether this was the moment to begin.
    fn enter(&mut self) -> bool {
        std::mem::replace(&mut self.stage, Stage::Begun) == Stage::Fresh
    }

    fn connection(&self) -> Result<&Object, StoreError> {
        self.connection.as_ref().ok_or(StoreError::Closed)
    }

    fn give_back(&mut self) {
        self.stage = Stage::Fresh;
        self.connection = None;
    }
}

impl Drop for TokioOwn {
    fn drop(&mut self) {
        if self.stage == Stage::Begun
            && let Some(connection) = self.connection.take()
        {
            // Out of the pool, and closed.
            drop(Object::take(connection));
        }
    }
}
