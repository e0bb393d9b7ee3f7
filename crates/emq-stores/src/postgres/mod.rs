//! Rows in PostgreSQL.

mod compact;
mod failure;
mod guard;
mod handle;
pub(crate) mod migrate;
pub(crate) mod own;
#[cfg(feature = "sqlx")]
mod own_sqlx;
#[cfg(feature = "tokio-postgres")]
mod own_tokio;
#[cfg(feature = "sqlx")]
mod sqlx_client;
mod store;
mod tables;
#[cfg(feature = "tokio-postgres")]
mod tokio_client;
mod transaction;
mod within;

use emq_keys::BrandedId;

pub use self::handle::Postgres;
pub use self::store::PostgresStore;
pub use self::transaction::{Param, PgTransaction, Value};
pub use self::within::PgStore;
use crate::error::StoreError;

/// The next column of a row.
fn next(columns: &mut impl Iterator<Item = Value>) -> Result<Value, StoreError> {
    columns.next().ok_or_else(|| StoreError::Database("a column is missing".into()))
}

/// An id from a column. Only a hand could have put something else there.
fn id_from(value: Value) -> Result<BrandedId, StoreError> {
    let text = value.into_text()?;
    BrandedId::parse(text.as_bytes()).map_err(|error| StoreError::Database(error.into()))
}
