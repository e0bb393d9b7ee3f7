//! A transaction, whichever client it is of.

use crate::error::StoreError;

/// A transaction in PostgreSQL: a caller's own, of tokio-postgres, of its pool deadpool-postgres,
/// or of sqlx.
///
/// It is sealed: what is written with it stays this crate's to change. An `sqlx::PgConnection` is
/// one too; outside a transaction of its own, each statement on it commits by itself.
pub trait PgTransaction: sealed::Sealed + Send {
    /// Runs a statement, and answers how many rows it wrote. The types of the parameters are
    /// those of [`Param`]: cast them in the statement where another is meant.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the same may succeed later, [`StoreError::Database`] when
    /// not. After either the database takes no more statements in this transaction.
    fn execute<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + 'a;

    /// Runs a statement, and answers its rows.
    ///
    /// # Errors
    /// As [`PgTransaction::execute`]; and [`StoreError::Database`] for a column of a type that
    /// [`Value`] hasn't got.
    fn query<'a>(
        &'a mut self,
        sql: &'static str,
        params: &'a [Param<'a>],
    ) -> impl Future<Output = Result<Vec<Vec<Value>>, StoreError>> + Send + 'a;

    /// Runs several statements without parameters.
    ///
    /// # Errors
    /// As [`PgTransaction::execute`].
    fn batch(&mut self, sql: &'static str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A parameter of a statement. Its type is part of the statement: `$1` is of the type named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Param<'a> {
    /// `text`
    Text(&'a str),
    /// `bytea`
    Bytes(&'a [u8]),
    /// `bigint`
    BigInt(i64),
    /// `text[]`
    TextArray(&'a [&'a str]),
    /// `bytea[]`
    BytesArray(&'a [&'a [u8]]),
    /// `bigint[]`
    BigIntArray(&'a [i64]),
    /// A `text` that is null.
    NullText,
    /// A `bytea` that is null.
    NullBytes,
    /// A `bigint` that is null.
    NullBigInt,
}

impl<'a> Param<'a> {
    /// A `text`, or null.
    #[must_use]
    pub fn text(value: Option<&'a str>) -> Param<'a> {
        value.map_or(Param::NullText, Param::Text)
    }

    /// A `bytea`, or null.
    #[must_use]
    pub fn bytes(value: Option<&'a [u8]>) -> Param<'a> {
        value.map_or(Param::NullBytes, Param::Bytes)
    }

    /// A `bigint`, or null.
    #[must_use]
    pub fn big_int(value: Option<i64>) -> Param<'a> {
        value.map_or(Param::NullBigInt, Param::BigInt)
    }
}

/// A column of a row that the database answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// Null, of any type.
    Null,
    /// `text`, `varchar`, `char(n)` or `name`.
    Text(String),
    /// `bytea`
    Bytes(Vec<u8>),
    /// `smallint`, `integer` or `bigint`.
    BigInt(i64),
    /// `boolean`
    Bool(bool),
}

impl Value {
    /// The text.
    ///
    /// # Errors
    /// [`StoreError::Database`] when it is something else: the tables are not what they should be.
    pub fn into_text(self) -> Result<String, StoreError> {
        match self {
            Value::Text(text) => Ok(text),
            other => Err(other.is_not("text")),
        }
    }

    /// The bytes.
    ///
    /// # Errors
    /// As [`Value::into_text`].
    pub fn into_bytes(self) -> Result<Vec<u8>, StoreError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            other => Err(other.is_not("bytea")),
        }
    }

    /// The number.
    ///
    /// # Errors
    /// As [`Value::into_text`].
    pub fn into_big_int(self) -> Result<i64, StoreError> {
        match self {
            Value::BigInt(number) => Ok(number),
            other => Err(other.is_not("bigint")),
        }
    }

    /// The truth value.
    ///
    /// # Errors
    /// As [`Value::into_text`].
    pub fn into_bool(self) -> Result<bool, StoreError> {
        match self {
            Value::Bool(yes) => Ok(yes),
            other => Err(other.is_not("boolean")),
        }
    }

    /// `None` for null.
    #[must_use]
    pub fn non_null(self) -> Option<Value> {
        if self == Value::Null { None } else { Some(self) }
    }

    /// Says the type alone: a column may hold what should be in no log.
    fn is_not(&self, expected: &'static str) -> StoreError {
        let found = match self {
            Value::Null => "null",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytea",
            Value::BigInt(_) => "bigint",
            Value::Bool(_) => "boolean",
        };
        StoreError::Database(format!("a column is {found}, not {expected}").into())
    }
}

pub(super) mod sealed {
    /// Only this crate says what a transaction is.
    pub trait Sealed {}
}
