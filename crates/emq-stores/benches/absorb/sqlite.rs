//! The SQLite backend beside a connection of its own to the same file, with the same settings.

use emq_keys::BrandedId;
use emq_stores::Store;
use emq_stores::sqlite::rusqlite::Connection;
use emq_stores::sqlite::{Sqlite, Synchronous};
use tempfile::TempDir;

use super::{KIND, Position, Rival};

/// `FULL`: whether a commit waits for the disk.
pub(super) struct InFile<const FULL: bool> {
    store: Store<Position>,
    bare: Connection,
    _directory: TempDir,
}

impl<const FULL: bool> Rival for InFile<FULL> {
    const NAME: &'static str =
        if FULL { "SQLite, synchronous=FULL" } else { "SQLite, synchronous=NORMAL" };

    async fn open() -> Self {
        let directory = TempDir::new_in(
            std::env::var_os("EMQ_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into),
        )
        .expect("a directory");
        let path = directory.path().join("rows.db");
        let synchronous = if FULL { Synchronous::Full } else { Synchronous::Normal };
        let db = Sqlite::builder(&path).synchronous(synchronous).open().await.expect("a database");
        let bare = Connection::open(&path).expect("a connection");
        let word = if FULL { "FULL" } else { "NORMAL" };
        bare.execute_batch(&format!(
            "PRAGMA synchronous = {word};
             CREATE TABLE bare (kind TEXT, id TEXT, body BLOB, PRIMARY KEY (kind, id)) STRICT;"
        ))
        .expect("a table");
        InFile { store: db.store(KIND), bare, _directory: directory }
    }

    fn store(&self) -> Store<Position> {
        self.store.clone()
    }

    async fn insert(&mut self, id: BrandedId, row: &[u8]) {
        let insert = "INSERT INTO bare (kind, id, body) VALUES (?1, ?2, ?3)";
        let mut insert = self.bare.prepare_cached(insert).expect("a statement");
        insert.execute((KIND.as_str(), id.as_str(), row)).expect("a row");
    }
}
