//! Rows in PostgreSQL.

mod failure;
#[cfg(feature = "sqlx")]
mod sqlx_client;
#[cfg(feature = "tokio-postgres")]
mod tokio_client;
mod transaction;

pub use self::transaction::{Param, PgTransaction, Value};
