//! The suite on PostgreSQL through sqlx.
#![cfg(feature = "sqlx")]

mod postgres_ground;
mod suite;

use std::sync::Arc;

use emq_keys::Namespace;
use emq_stores::PropertyStore;
use emq_stores::postgres::PostgresStore;
use emq_testkit::Database;
use postgres_ground::{CONNECTIONS, Client, Sqlx, migrated};
use suite::{Ground, suite};

/// A database of its own, which a new pool opens again.
struct InDatabase {
    store: Arc<PostgresStore>,
    database: Database,
}

impl Ground for InDatabase {
    async fn open(kind: Namespace) -> InDatabase {
        let (database, pool) = migrated::<Sqlx>().await;
        InDatabase { store: Arc::new(pool.store(kind)), database }
    }

    fn backend(&self) -> Arc<dyn PropertyStore> {
        Arc::clone(&self.store) as Arc<dyn PropertyStore>
    }

    async fn reopen(self) -> InDatabase {
        let kind = self.store.kind();
        let pool = Sqlx::pool(&self.database.url(), CONNECTIONS);
        InDatabase { store: Arc::new(pool.store(kind)), database: self.database }
    }
}

suite!(InDatabase);
