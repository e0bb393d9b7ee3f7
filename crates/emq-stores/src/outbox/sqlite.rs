//! The outbox in an SQLite file.
//!
//! A write transaction can't stay open over a call to the bus: it would keep every other writer
//! out. So a relay marks the rows that it takes as its own for a while, and deletes only rows that
//! still carry its mark: one that comes late can't delete what another has taken since.

use std::time::Duration;

use rusqlite::{Connection, Row as SqlRow, params};

use super::row::{Columns, Read, Row};
use super::writer::Placed;
use crate::error::StoreError;
use crate::sqlite::{Sqlite, schema};

/// What the versions of the table added. A step that was released is never changed.
const STEPS: &[&str] = &["
    CREATE TABLE emq_outbox (
        queue        TEXT NOT NULL,
        id           TEXT NOT NULL,
        payload      BLOB NOT NULL,
        lane         TEXT,
        kind         TEXT,
        headers      TEXT,
        max_attempts INTEGER,
        unique_key   TEXT,
        due_ms       INTEGER,
        created_ms   INTEGER NOT NULL,
        refused      TEXT,
        claim        TEXT,
        claimed_till INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (queue, id)
    ) STRICT;
    CREATE INDEX emq_outbox_waiting ON emq_outbox (id) WHERE refused IS NULL;
"];

const INSERT: &str = "
    INSERT INTO emq_outbox
        (queue, id, payload, lane, kind, headers, max_attempts, unique_key, due_ms, created_ms)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,
            coalesce(?9, CAST(unixepoch('subsec') * 1000 AS INTEGER) + 1 + ?10),
            CAST(unixepoch('subsec') * 1000 AS INTEGER))
    ON CONFLICT DO NOTHING";

/// A mark that reaches further than one taking does was made under a clock that has stepped back.
const TAKE: &str = "
    UPDATE emq_outbox SET claim = ?1, claimed_till = ?2 + ?3
    WHERE rowid IN (
        SELECT rowid FROM emq_outbox
        WHERE refused IS NULL AND (claimed_till <= ?2 OR claimed_till > ?2 + ?3)
        ORDER BY id LIMIT ?4
    )
    RETURNING queue, id, payload, lane, kind, headers, max_attempts, unique_key, due_ms";

pub(super) fn insert(connection: &Connection, row: &Columns<'_>) -> Result<Placed, StoreError> {
    let lane = row.job.group();
    let written = connection.prepare_cached(INSERT)?.execute(params![
        row.queue,
        row.job.id().as_str(),
        row.job.payload().as_ref(),
        lane.as_ref().map(emq_keys::BrandedId::as_str),
        row.kind,
        row.headers,
        row.max_attempts,
        row.unique,
        row.due_ms,
        row.delay_ms,
    ])?;
    Ok(if written == 1 { Placed::Written } else { Placed::Duplicate })
}

impl Sqlite {
    /// Makes the table of the outbox, or brings it up to this program's version.
    ///
    /// # Errors
    /// [`StoreError::Schema`] when the table is of a newer version; see [`StoreError`].
    pub async fn migrate_outbox(&self) -> Result<(), StoreError> {
        self.with(|connection| schema::migrate(connection, "outbox", STEPS)).await
    }
}

pub(super) async fn take(
    db: &Sqlite,
    mark: String,
    limit: usize,
    held_for: Duration,
) -> Result<Vec<Row>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let held_ms = i64::try_from(held_for.as_millis()).unwrap_or(i64::MAX / 4);
    db.transaction(move |tx| {
        let now_ms: i64 =
            tx.query_row("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)", (), |row| {
                row.get(0)
            })?;
        let mut statement = tx.prepare_cached(TAKE)?;
        let taken = statement.query_map(params![mark, now_ms, held_ms, limit], read)?;
        let rows: Result<Vec<Read>, _> = taken.collect();
        let rows: Result<Vec<Row>, _> = rows?.into_iter().map(Read::into_row).collect();
        let mut rows = rows?;
        // RETURNING promises no order.
        rows.sort_by_key(|row| row.job.id());
        Ok(rows)
    })
    .await
}

fn read(row: &SqlRow<'_>) -> rusqlite::Result<Read> {
    Ok(Read {
        queue: row.get(0)?,
        id: row.get(1)?,
        payload: row.get(2)?,
        lane: row.get(3)?,
        kind: row.get(4)?,
        headers: row.get(5)?,
        max_attempts: row.get(6)?,
        unique: row.get(7)?,
        due_ms: row.get(8)?,
    })
}

/// Deletes what is settled, keeps what was refused with its reason, and lets go of the rest.
pub(super) async fn conclude(
    db: &Sqlite,
    mark: String,
    settled: Vec<(String, String)>,
    refused: Vec<(String, String, String)>,
) -> Result<(), StoreError> {
    db.transaction(move |tx| {
        let mine = "queue = ?1 AND id = ?2 AND claim = ?3";
        let mut delete = tx.prepare_cached(&format!("DELETE FROM emq_outbox WHERE {mine}"))?;
        for (queue, id) in &settled {
            delete.execute(params![queue, id, mark])?;
        }
        let keep = format!("UPDATE emq_outbox SET refused = ?4 WHERE {mine}");
        let mut keep = tx.prepare_cached(&keep)?;
        for (queue, id, reason) in &refused {
            keep.execute(params![queue, id, mark, reason])?;
        }
        let release = "UPDATE emq_outbox SET claim = NULL, claimed_till = 0 WHERE claim = ?1";
        tx.prepare_cached(release)?.execute(params![mark])?;
        Ok(())
    })
    .await
}

/// How many rows wait, how many are refused, and when the first that waits was put there.
pub(super) async fn depth(db: &Sqlite) -> Result<(i64, i64, Option<i64>), StoreError> {
    db.with(|connection| {
        let count = "SELECT count(*) FILTER (WHERE refused IS NULL),
                            count(*) FILTER (WHERE refused IS NOT NULL),
                            min(created_ms) FILTER (WHERE refused IS NULL) FROM emq_outbox";
        let row =
            connection.query_row(count, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(row)
    })
    .await
}
