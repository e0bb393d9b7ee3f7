//! Transactions of tokio-postgres, and of deadpool-postgres, its pool.

use std::error::Error;

use tokio_postgres::Row;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::failure::of_tokio;
use super::transaction::sealed::Sealed;
use super::transaction::{Param, PgTransaction, Value};
use crate::error::StoreError;

impl Sealed for tokio_postgres::Transaction<'_> {}
impl Sealed for deadpool_postgres::Transaction<'_> {}

/// It has no cache of statements, so each is sent whole, with its parameters: one round trip.
impl PgTransaction for tokio_postgres::Transaction<'_> {
    async fn execute<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<u64, StoreError> {
        self.execute_typed(sql, &typed(params)).await.map_err(of_tokio)
    }

    async fn query<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        values(&self.query_typed(sql, &typed(params)).await.map_err(of_tokio)?)
    }

    async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.batch_execute(sql).await.map_err(of_tokio)
    }
}

/// Prepared once a connection, by the pool's cache.
impl PgTransaction for deadpool_postgres::Transaction<'_> {
    async fn execute<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<u64, StoreError> {
        let statement = self.prepare_typed_cached(sql, &types(params)).await.map_err(of_tokio)?;
        tokio_postgres::Transaction::execute(self, &statement, &by_reference(params))
            .await
            .map_err(of_tokio)
    }

    async fn query<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        let statement = self.prepare_typed_cached(sql, &types(params)).await.map_err(of_tokio)?;
        let params = by_reference(params);
        let rows = tokio_postgres::Transaction::query(self, &statement, &params).await;
        values(&rows.map_err(of_tokio)?)
    }

    async fn batch(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.batch_execute(sql).await.map_err(of_tokio)
    }
}

type Typed<'a> = (&'a (dyn ToSql + Sync), Type);

fn typed<'a>(params: &'a [Param<'a>]) -> Vec<Typed<'a>> {
    params.iter().map(|param| (param as &(dyn ToSql + Sync), type_of(param))).collect()
}

pub(super) fn types(params: &[Param<'_>]) -> Vec<Type> {
    params.iter().map(type_of).collect()
}

pub(super) fn by_reference<'a>(params: &'a [Param<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    params.iter().map(|param| param as &(dyn ToSql + Sync)).collect()
}

fn type_of(param: &Param<'_>) -> Type {
    match param {
        Param::Text(_) | Param::NullText => Type::TEXT,
        Param::Bytes(_) | Param::NullBytes => Type::BYTEA,
        Param::BigInt(_) | Param::NullBigInt => Type::INT8,
        Param::TextArray(_) => Type::TEXT_ARRAY,
        Param::BytesArray(_) => Type::BYTEA_ARRAY,
        Param::BigIntArray(_) => Type::INT8_ARRAY,
    }
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Param::Text(value) => value.to_sql(ty, out),
            Param::Bytes(value) => value.to_sql(ty, out),
            Param::BigInt(value) => value.to_sql(ty, out),
            Param::TextArray(value) => value.to_sql(ty, out),
            Param::BytesArray(value) => value.to_sql(ty, out),
            Param::BigIntArray(value) => value.to_sql(ty, out),
            Param::NullText | Param::NullBytes | Param::NullBigInt => Ok(IsNull::Yes),
        }
    }

    /// What is sent has the type that the parameter itself named.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

pub(super) fn values(rows: &[Row]) -> Result<Vec<Vec<Value>>, StoreError> {
    rows.iter().map(|row| (0..row.len()).map(|at| value(row, at)).collect()).collect()
}

fn value(row: &Row, at: usize) -> Result<Value, StoreError> {
    let found = match *row.columns()[at].type_() {
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => {
            row.try_get::<_, Option<String>>(at).map(|found| found.map(Value::Text))
        }
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at).map(|found| found.map(Value::Bytes)),
        Type::INT8 => row.try_get::<_, Option<i64>>(at).map(|found| found.map(Value::BigInt)),
        Type::INT4 => row
            .try_get::<_, Option<i32>>(at)
            .map(|found| found.map(|number| Value::BigInt(number.into()))),
        Type::INT2 => row
            .try_get::<_, Option<i16>>(at)
            .map(|found| found.map(|number| Value::BigInt(number.into()))),
        Type::BOOL => row.try_get::<_, Option<bool>>(at).map(|found| found.map(Value::Bool)),
        ref other => {
            return Err(StoreError::Database(format!("a column is of type {other}").into()));
        }
    };
    found.map(|found| found.unwrap_or(Value::Null)).map_err(of_tokio)
}
