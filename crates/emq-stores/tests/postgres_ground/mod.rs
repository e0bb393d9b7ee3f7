//! PostgreSQL for the stores' tests: one server a test binary, a database for each test.
#![allow(dead_code, unused_macros, unused_imports)] // Each test binary uses a part of it.

pub(crate) mod proxy;

use emq_stores::postgres::Postgres;
use emq_testkit::{Database, Postgres as Server};

/// How many connections a test's pool may have. Some tests' servers are shared by many pools.
pub(crate) const CONNECTIONS: u8 = 8;

/// A client of PostgreSQL under test.
pub(crate) trait Client: Send + Sync + 'static {
    /// A pool for a database, with at most so many connections.
    fn pool(url: &str, connections: u8) -> Postgres;
}

/// tokio-postgres.
#[cfg(feature = "tokio-postgres")]
pub(crate) struct Tokio;

#[cfg(feature = "tokio-postgres")]
impl Client for Tokio {
    fn pool(url: &str, connections: u8) -> Postgres {
        Postgres::tokio(url, connections.into()).unwrap()
    }
}

/// sqlx.
#[cfg(feature = "sqlx")]
pub(crate) struct Sqlx;

#[cfg(feature = "sqlx")]
impl Client for Sqlx {
    fn pool(url: &str, connections: u8) -> Postgres {
        Postgres::sqlx(url, connections.into()).unwrap()
    }
}

/// A database of the process's server, with the stores' tables.
pub(crate) async fn migrated<C: Client>() -> (Database, Postgres) {
    let database = new_database();
    let pool = C::pool(&database.url(), CONNECTIONS);
    pool.migrate().await.unwrap();
    (database, pool)
}

/// A database of the process's server, empty.
pub(crate) fn new_database() -> Database {
    Server::of_this_process().database().unwrap()
}

/// Runs tests that are generic over the client with each of them.
macro_rules! for_each_client {
    ($($test:ident),* $(,)?) => {
        #[cfg(feature = "tokio-postgres")]
        mod through_tokio_postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test::<crate::postgres_ground::Tokio>().await;
                }
            )*
        }
        #[cfg(feature = "sqlx")]
        mod through_sqlx {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test::<crate::postgres_ground::Sqlx>().await;
                }
            )*
        }
    };
}
pub(crate) use for_each_client;
