//! PostgreSQL, through both clients, on one server.

use emq_keys::BrandedId;
use emq_stores::Store;
use emq_stores::postgres::Postgres;
use emq_testkit::{Database, Postgres as Server};

use crate::{KIND, Position, Rival};

/// As many as a service would have; the 64 callers share them.
const CONNECTIONS: u8 = 16;
const CREATE: &str = "CREATE TABLE bare (id text COLLATE \"C\" PRIMARY KEY, body bytea NOT NULL)";
const INSERT: &str = "INSERT INTO bare (id, body) VALUES ($1, $2)";

fn database() -> Database {
    let database = Server::of_this_process().database().expect("a database");
    database.sql(CREATE).expect("a table");
    database
}

/// Through tokio-postgres and its pool.
#[cfg(feature = "tokio-postgres")]
pub(crate) struct Tokio {
    pool: Postgres,
    bare: tokio_postgres::Client,
    insert: tokio_postgres::Statement,
    _database: Database,
}

#[cfg(feature = "tokio-postgres")]
impl Rival for Tokio {
    const NAME: &'static str = "PostgreSQL, tokio-postgres";

    async fn open() -> Tokio {
        let database = database();
        let pool = Postgres::tokio(&database.url(), CONNECTIONS.into()).expect("a pool");
        pool.migrate().await.expect("tables");
        let connected = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await;
        let (bare, connection) = connected.expect("a connection");
        tokio::spawn(connection);
        let insert = bare.prepare(INSERT).await.expect("a statement");
        Tokio { pool, bare, insert, _database: database }
    }

    fn store(&self) -> Store<Position> {
        Store::new(self.pool.store(KIND))
    }

    async fn insert(&mut self, id: BrandedId, row: &[u8]) {
        self.bare.execute(&self.insert, &[&id.as_str(), &row]).await.expect("a row");
    }
}

/// Through sqlx. Its pool asks a connection whether it lives before each use, as it does by
/// default.
#[cfg(feature = "sqlx")]
pub(crate) struct Sqlx {
    pool: Postgres,
    bare: sqlx::PgConnection,
    _database: Database,
}

#[cfg(feature = "sqlx")]
impl Rival for Sqlx {
    const NAME: &'static str = "PostgreSQL, sqlx";

    async fn open() -> Sqlx {
        use sqlx::Connection;

        let database = database();
        let pool = Postgres::sqlx(&database.url(), CONNECTIONS.into()).expect("a pool");
        pool.migrate().await.expect("tables");
        let bare = sqlx::PgConnection::connect(&database.url()).await.expect("a connection");
        Sqlx { pool, bare, _database: database }
    }

    fn store(&self) -> Store<Position> {
        Store::new(self.pool.store(KIND))
    }

    async fn insert(&mut self, id: BrandedId, row: &[u8]) {
        let insert = sqlx::query(INSERT).bind(id.as_str()).bind(row);
        insert.execute(&mut self.bare).await.expect("a row");
    }
}
