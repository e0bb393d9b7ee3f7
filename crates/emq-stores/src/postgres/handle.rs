//! A database, through the pool of either client.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "tokio-postgres")]
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use emq_keys::Namespace;

#[cfg(feature = "tokio-postgres")]
use super::failure::{of_deadpool, of_tokio};
use super::store::PostgresStore;
#[cfg(feature = "tokio-postgres")]
use super::tokio_client::{by_reference, types, values};
#[cfg(feature = "sqlx")]
use super::transaction::PgTransaction;
use super::transaction::{Param, Value};
use super::{migrate, tables};
use crate::error::StoreError;

/// How long a call waits for a connection of a pool that was made here.
const CONNECTED_WITHIN: Duration = Duration::from_secs(30);

/// A PostgreSQL database that keeps rows, through a pool of the program's own. Cheap to clone.
///
/// The tables are named without a schema: they are made and found by the connections'
/// `search_path`.
#[derive(Clone)]
#[non_exhaustive]
pub enum Postgres {
    /// tokio-postgres, through deadpool-postgres.
    #[cfg(feature = "tokio-postgres")]
    Tokio(Pool),
    /// sqlx.
    #[cfg(feature = "sqlx")]
    Sqlx(sqlx::PgPool),
}

impl Postgres {
    /// A pool of at most `size` connections of tokio-postgres, without TLS. Nothing is connected
    /// yet, and a call waits for a connection for 30 seconds at most. For TLS, and for anything else, make the pool yourself: [`Postgres::from`] takes it.
    ///
    /// # Errors
    /// [`StoreError::Database`] for what is no `postgres://` URL.
    #[cfg(feature = "tokio-postgres")]
    pub fn tokio(url: &str, size: usize) -> Result<Postgres, StoreError> {
        let config: tokio_postgres::Config = url.parse().map_err(of_tokio)?;
        let manage = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config, tokio_postgres::NoTls, manage);
        let pool = Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECTED_WITHIN))
            .create_timeout(Some(CONNECTED_WITHIN))
            .build();
        pool.map(Postgres::Tokio).map_err(|error| StoreError::Database(error.into()))
    }

    /// A pool of at most `size` connections of sqlx, without TLS unless the program enables it in
    /// sqlx. Nothing is connected yet, and a call waits for a connection for 30 seconds at most.
    ///
    /// # Errors
    /// [`StoreError::Database`] for what is no `postgres://` URL.
    #[cfg(feature = "sqlx")]
    pub fn sqlx(url: &str, size: u32) -> Result<Postgres, StoreError> {
        let options = sqlx::postgres::PgPoolOptions::new().max_connections(size);
        options
            .acquire_timeout(CONNECTED_WITHIN)
            .connect_lazy(url)
            .map(Postgres::Sqlx)
            .map_err(super::failure::of_sqlx)
    }

    /// Makes the tables of the stores, or brings them up to this program's version. Programs that
    /// start at once do it one after the other. When they are up to date nothing is written, and
    /// no right to create tables is needed.
    ///
    /// # Errors
    /// [`StoreError::Schema`] when the tables are of a newer version than this program knows.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        migrate::run(self, &tables::STORES).await
    }

    /// The store of one kind. Wrap it into a [`Store`](crate::Store) for typed rows.
    #[must_use]
    pub fn store(&self, kind: Namespace) -> PostgresStore {
        PostgresStore::new(self.clone(), kind)
    }

    /// One statement that is a transaction by itself.
    pub(crate) async fn execute(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<u64, StoreError> {
        match self {
            #[cfg(feature = "tokio-postgres")]
            Postgres::Tokio(pool) => {
                let connection = pool.get().await.map_err(of_deadpool)?;
                let statement = connection.prepare_typed_cached(sql, &types(params)).await;
                let (statement, params) = (statement.map_err(of_tokio)?, by_reference(params));
                connection.execute(&statement, &params).await.map_err(of_tokio)
            }
            #[cfg(feature = "sqlx")]
            Postgres::Sqlx(pool) => {
                let mut connection = pool.acquire().await.map_err(super::failure::of_sqlx)?;
                PgTransaction::execute(&mut *connection, sql, params).await
            }
        }
    }

    /// As [`Postgres::execute`], for its rows.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Vec<Value>>, StoreError> {
        match self {
            #[cfg(feature = "tokio-postgres")]
            Postgres::Tokio(pool) => {
                let connection = pool.get().await.map_err(of_deadpool)?;
                let statement = connection.prepare_typed_cached(sql, &types(params)).await;
                let (statement, params) = (statement.map_err(of_tokio)?, by_reference(params));
                values(&connection.query(&statement, &params).await.map_err(of_tokio)?)
            }
            #[cfg(feature = "sqlx")]
            Postgres::Sqlx(pool) => {
                let mut connection = pool.acquire().await.map_err(super::failure::of_sqlx)?;
                PgTransaction::query(&mut *connection, sql, params).await
            }
        }
    }
}

#[cfg(feature = "tokio-postgres")]
impl From<Pool> for Postgres {
    fn from(pool: Pool) -> Postgres {
        Postgres::Tokio(pool)
    }
}

#[cfg(feature = "sqlx")]
impl From<sqlx::PgPool> for Postgres {
    fn from(pool: sqlx::PgPool) -> Postgres {
        Postgres::Sqlx(pool)
    }
}

/// Says no URL: it may carry a password.
impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            #[cfg(feature = "tokio-postgres")]
            Postgres::Tokio(_) => "Postgres::Tokio",
            #[cfg(feature = "sqlx")]
            Postgres::Sqlx(_) => "Postgres::Sqlx",
        })
    }
}
