//! Where the outbox lies, and a batch taken from it.

use std::time::Duration;

use super::row::{Read, Row};
use crate::error::StoreError;
#[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
use crate::postgres::{Postgres, own::OwnTransaction};
#[cfg(feature = "sqlite")]
use crate::sqlite::Sqlite;

/// The database that an outbox lies in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Shelf {
    /// An SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(Sqlite),
    /// A PostgreSQL database.
    #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
    Postgres(Postgres),
}

#[cfg(feature = "sqlite")]
impl From<Sqlite> for Shelf {
    fn from(db: Sqlite) -> Shelf {
        Shelf::Sqlite(db)
    }
}

#[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
impl From<Postgres> for Shelf {
    fn from(db: Postgres) -> Shelf {
        Shelf::Postgres(db)
    }
}

/// Rows that one relay took, and how they are held.
pub(super) struct Batch {
    pub(super) rows: Vec<Row>,
    /// Queue, id and reason of what only a hand can have put there.
    pub(super) unreadable: Vec<(String, String, String)>,
    held: Held,
}

enum Held {
    #[cfg(feature = "sqlite")]
    Marked(Sqlite, String),
    #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
    Locked(OwnTransaction),
}

/// How a database counts what lies there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Depth {
    pub(super) waiting: u64,
    pub(super) refused: u64,
    /// How long the oldest has waited, by the database's clock.
    pub(super) oldest: Duration,
}

impl Shelf {
    /// Takes up to `limit` rows that nobody else has, oldest first, and none of the queues that are
    /// left out.
    pub(super) async fn take(
        &self,
        mark: String,
        limit: usize,
        held_for: Duration,
        left_out: &[String],
    ) -> Result<Batch, StoreError> {
        match self {
            #[cfg(feature = "sqlite")]
            Shelf::Sqlite(db) => {
                let rows = super::sqlite::take(db, mark.clone(), limit, held_for, left_out).await?;
                Ok(Batch::of(rows, Held::Marked(db.clone(), mark)))
            }
            #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
            Shelf::Postgres(db) => {
                let _ = (mark, held_for);
                let (tx, rows) = super::postgres::take(db, limit, left_out).await?;
                Ok(Batch::of(rows, Held::Locked(tx)))
            }
        }
    }

    pub(super) async fn depth(&self) -> Result<Depth, StoreError> {
        let (waiting, refused, oldest_ms) = match self {
            #[cfg(feature = "sqlite")]
            Shelf::Sqlite(db) => super::sqlite::depth(db).await?,
            #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
            Shelf::Postgres(db) => super::postgres::depth(db).await?,
        };
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        let oldest = Duration::from_millis(oldest_ms.map_or(0, count));
        Ok(Depth { waiting: count(waiting), refused: count(refused), oldest })
    }
}

impl Batch {
    fn of(read: Vec<Read>, held: Held) -> Batch {
        let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
        for read in read {
            let (queue, id) = (read.queue.clone(), read.id.clone());
            match read.into_row() {
                Ok(row) => rows.push(row),
                Err(error) => unreadable.push((queue, id, format!("no job can be read: {error}"))),
            }
        }
        // Neither database promises an order of what it answers.
        rows.sort_by_key(|row| row.job.id());
        Batch { rows, unreadable, held }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() + self.unreadable.len()
    }

    /// Deletes what is settled, keeps what was refused, and lets go of the rest.
    pub(super) async fn conclude(
        self,
        settled: Vec<(String, String)>,
        refused: Vec<(String, String, String)>,
    ) -> Result<(), StoreError> {
        match self.held {
            #[cfg(feature = "sqlite")]
            Held::Marked(db, mark) => super::sqlite::conclude(&db, mark, settled, refused).await,
            #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
            Held::Locked(tx) => super::postgres::conclude(tx, &settled, &refused).await,
        }
    }
}
