//! Transactions of sqlx.

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Column, PgConnection, Row, TypeInfo};

use super::failure::of_sqlx;
use super::transaction::sealed::Sealed;
use super::transaction::{Param, PgTransaction, Value};
use crate::error::StoreError;

impl Sealed for PgConnection {}
impl Sealed for sqlx::Transaction<'_, sqlx::Postgres> {}

/// Prepared once a connection, by the connection's own cache.
impl PgTransaction for PgConnection {
    async fn execute<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<u64, StoreError> {
        let done = bound(sql, params).execute(self).await.map_err(of_sqlx)?;
        Ok(done.rows_affected())
    }

    async fn query<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        values(&bound(sql, params).fetch_all(self).await.map_err(of_sqlx)?)
    }

    async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        sqlx::raw_sql(sql).execute(self).await.map_err(of_sqlx)?;
        Ok(())
    }
}

impl PgTransaction for sqlx::Transaction<'_, sqlx::Postgres> {
    async fn execute<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<u64, StoreError> {
        PgTransaction::execute(&mut **self, sql, params).await
    }

    async fn query<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        PgTransaction::query(&mut **self, sql, params).await
    }

    async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        PgTransaction::batch(&mut **self, sql).await
    }
}

fn bound<'a>(sql: &'static str, params: &'a [Param<'a>]) -> Query<'a, sqlx::Postgres, PgArguments> {
    let mut query = sqlx::query(sql);
    for param in params {
        query = match *param {
            Param::Text(value) => query.bind(value),
            Param::Bytes(value) => query.bind(value),
            Param::BigInt(value) => query.bind(value),
            Param::TextArray(value) => query.bind(value),
            Param::BytesArray(value) => query.bind(value),
            Param::BigIntArray(value) => query.bind(value),
            Param::NullText => query.bind(None::<&str>),
            Param::NullBytes => query.bind(None::<&[u8]>),
            Param::NullBigInt => query.bind(None::<i64>),
        };
    }
    query
}

pub(super) fn values(rows: &[PgRow]) -> Result<Vec<Vec<Value>>, StoreError> {
    rows.iter().map(|row| (0..row.len()).map(|at| value(row, at)).collect()).collect()
}

fn value(row: &PgRow, at: usize) -> Result<Value, StoreError> {
    let found = match row.column(at).type_info().name() {
        "TEXT" | "VARCHAR" | "CHAR" | "NAME" => {
            row.try_get::<Option<String>, _>(at).map(|found| found.map(Value::Text))
        }
        "BYTEA" => row.try_get::<Option<Vec<u8>>, _>(at).map(|found| found.map(Value::Bytes)),
        "INT8" => row.try_get::<Option<i64>, _>(at).map(|found| found.map(Value::BigInt)),
        "INT4" => row
            .try_get::<Option<i32>, _>(at)
            .map(|found| found.map(|number| Value::BigInt(number.into()))),
        "INT2" => row
            .try_get::<Option<i16>, _>(at)
            .map(|found| found.map(|number| Value::BigInt(number.into()))),
        "BOOL" => row.try_get::<Option<bool>, _>(at).map(|found| found.map(Value::Bool)),
        other => return Err(StoreError::Database(format!("a column is of type {other}").into())),
    };
    found.map(|found| found.unwrap_or(Value::Null)).map_err(of_sqlx)
}
