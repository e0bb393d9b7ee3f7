//! The suite on the SQLite backend.
#![cfg(feature = "sqlite")]

mod suite;

use std::sync::Arc;

use emq_keys::Namespace;
use emq_stores::PropertyStore;
use emq_stores::sqlite::{Sqlite, SqliteStore};
use suite::{Ground, suite};
use tempfile::TempDir;

/// A file of its own, which is opened again.
struct InFile {
    directory: TempDir,
    store: Arc<SqliteStore>,
}

impl InFile {
    async fn at(directory: TempDir, kind: Namespace) -> InFile {
        let db = Sqlite::open(directory.path().join("rows.db")).await.unwrap();
        InFile { directory, store: Arc::new(SqliteStore::new(&db, kind)) }
    }
}

impl Ground for InFile {
    async fn open(kind: Namespace) -> InFile {
        InFile::at(TempDir::new().unwrap(), kind).await
    }

    fn backend(&self) -> Arc<dyn PropertyStore> {
        Arc::clone(&self.store) as Arc<dyn PropertyStore>
    }

    async fn reopen(self) -> InFile {
        let kind = self.store.kind();
        drop(self.store);
        InFile::at(self.directory, kind).await
    }
}

suite!(InFile);
