//! The outbox in an SQLite file.
//!
//! A write transaction can't stay open over a call to the bus: it would keep every other writer
//! out. So a relay marks the rows that it takes as its own for a while, and deletes only rows that
//! still carry its mark: one that comes late can't delete what another has taken since.

use std::time::Duration;

use rusqlite::{Connection, Row as SqlRow, params};

use super::refused::Refused;
use super::row::{Columns, Read};
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
          AND queue NOT IN (SELECT value FROM json_each(?5))
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
    left_out: &[String],
) -> Result<Vec<Read>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let held_ms = i64::try_from(held_for.as_millis()).unwrap_or(i64::MAX / 4);
    let left_out = serde_json::to_string(left_out).map_err(|e| StoreError::Encode(e.into()))?;
    db.transaction(move |tx| {
        let now_ms: i64 =
            tx.query_row("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)", (), |row| {
                row.get(0)
            })?;
        let mut statement = tx.prepare_cached(TAKE)?;
        let taken = statement.query_map(params![mark, now_ms, held_ms, limit, left_out], read)?;
        Ok(taken.collect::<Result<Vec<Read>, _>>()?)
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

/// How many rows wait, how many are refused, and how long the first has waited, in milliseconds.
pub(super) async fn depth(db: &Sqlite) -> Result<(i64, i64, Option<i64>), StoreError> {
    db.with(|connection| {
        let count = "SELECT count(*) FILTER (WHERE refused IS NULL),
                            count(*) FILTER (WHERE refused IS NOT NULL),
                            CAST(unixepoch('subsec') * 1000 AS INTEGER)
                                - min(created_ms) FILTER (WHERE refused IS NULL)
                     FROM emq_outbox";
        let row =
            connection.query_row(count, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(row)
    })
    .await
}

/// Refused rows behind this queue and id, in the order of both.
pub(super) async fn refused(
    db: &Sqlite,
    limit: usize,
    (queue, id): (String, String),
) -> Result<Vec<Refused>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    db.with(move |connection| {
        let mut select = connection.prepare_cached(
            "SELECT queue, id, refused, payload, lane, kind, created_ms FROM emq_outbox
             WHERE refused IS NOT NULL AND (queue, id) > (?1, ?2) ORDER BY queue, id LIMIT ?3",
        )?;
        let rows = select.query_map(params![queue, id, limit], |row| {
            Ok(Refused {
                queue: row.get(0)?,
                id: row.get(1)?,
                reason: row.get(2)?,
                payload: row.get::<_, Vec<u8>>(3)?.into(),
                lane: row.get(4)?,
                kind: row.get(5)?,
                written_at: super::refused::moment(row.get(6)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    })
    .await
}

/// Whether a refused row was there, which waits again now.
pub(super) async fn readmit(db: &Sqlite, queue: &str, id: &str) -> Result<bool, StoreError> {
    let readmit = "UPDATE emq_outbox SET refused = NULL, claim = NULL, claimed_till = 0
                   WHERE queue = ?1 AND id = ?2 AND refused IS NOT NULL";
    change(db, readmit, queue, id).await
}

/// Whether a refused row was there, which is gone now.
pub(super) async fn discard(db: &Sqlite, queue: &str, id: &str) -> Result<bool, StoreError> {
    let discard = "DELETE FROM emq_outbox WHERE queue = ?1 AND id = ?2 AND refused IS NOT NULL";
    change(db, discard, queue, id).await
}

async fn change(db: &Sqlite, sql: &'static str, queue: &str, id: &str) -> Result<bool, StoreError> {
    let (queue, id) = (queue.to_owned(), id.to_owned());
    db.with(move |connection| Ok(connection.execute(sql, params![queue, id])? == 1)).await
}
