//! A transaction of our own through sqlx: one round trip for each statement, `BEGIN` and `COMMIT`.

use sqlx::PgPool;
use sqlx::pool::PoolConnection;

use super::failure::of_sqlx;
use super::own::{BEGIN, COMMIT, ROLLBACK};
use super::transaction::{Param, PgTransaction, Value};
use crate::error::StoreError;

pub(crate) struct SqlxOwn {
    connection: PoolConnection<sqlx::Postgres>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was sent, or all is over.
    Clean,
    /// `BEGIN` was sent.
    Begun,
}

impl SqlxOwn {
    pub(super) async fn take(pool: &PgPool) -> Result<SqlxOwn, StoreError> {
        Ok(SqlxOwn { connection: pool.acquire().await.map_err(of_sqlx)?, stage: Stage::Clean })
    }

    pub(super) async fn execute(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<u64, StoreError> {
        self.enter().await?;
        PgTransaction::execute(&mut *self.connection, sql, params).await
    }

    pub(super) async fn query(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        self.enter().await?;
        PgTransaction::query(&mut *self.connection, sql, params).await
    }

    pub(super) async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.enter().await?;
        PgTransaction::batch(&mut *self.connection, sql).await
    }

    pub(super) async fn commit_with(
        mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<u64, StoreError> {
        match self.execute(sql, params).await {
            Ok(done) => self.end(COMMIT).await.map(|()| done),
            Err(error) => {
                let _ = self.end(ROLLBACK).await;
                Err(error)
            }
        }
    }

    pub(super) async fn end(mut self, how: &'static str) -> Result<(), StoreError> {
        if self.stage == Stage::Begun {
            PgTransaction::batch(&mut *self.connection, how).await?;
        }
        self.stage = Stage::Clean;
        Ok(())
    }

    async fn enter(&mut self) -> Result<(), StoreError> {
        if self.stage == Stage::Clean {
            self.stage = Stage::Begun;
            PgTransaction::batch(&mut *self.connection, BEGIN).await?;
        }
        Ok(())
    }
}

impl Drop for SqlxOwn {
    fn drop(&mut self) {
        if self.stage == Stage::Begun {
            self.connection.close_on_drop();
        }
    }
}
