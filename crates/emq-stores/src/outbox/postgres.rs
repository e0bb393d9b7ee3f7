//! The outbox in PostgreSQL.
//!
//! A relay holds the rows that it takes under their locks until it has the bus's answer: a relay
//! that dies lets go of them at once, and others skip what is locked.

use super::refused::Refused;
use super::row::{Columns, Read};
use super::writer::Placed;
use crate::error::StoreError;
use crate::postgres::migrate::{self, Tables};
use crate::postgres::own::OwnTransaction;
use crate::postgres::{Param, PgTransaction, Postgres, Value};

/// The channel on which commits are told.
#[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
pub(super) const CHANNEL: &str = "emq_outbox";

const TABLES: Tables = Tables {
    name: "outbox",
    steps: &["
        CREATE TABLE emq_outbox (
            queue        text COLLATE \"C\" NOT NULL,
            id           text COLLATE \"C\" NOT NULL,
            payload      bytea NOT NULL,
            lane         text,
            kind         text,
            headers      text,
            max_attempts bigint,
            unique_key   text,
            due_ms       bigint,
            created_ms   bigint NOT NULL,
            refused      text,
            PRIMARY KEY (queue, id)
        );
        CREATE INDEX emq_outbox_waiting ON emq_outbox (id) WHERE refused IS NULL;
    "],
};

/// The notification is a part of the transaction, and goes out with its commit.
const INSERT: &str = "
    WITH put AS (
        INSERT INTO emq_outbox
            (queue, id, payload, lane, kind, headers, max_attempts, unique_key, due_ms, created_ms)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8,
                coalesce($9, ceil(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $10),
                floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
        ON CONFLICT DO NOTHING
        RETURNING pg_notify('emq_outbox', '') IS NOT NULL AS told
    )
    SELECT count(told) FROM put";

const TAKE: &str = "
    SELECT queue, id, payload, lane, kind, headers, max_attempts, unique_key, due_ms
    FROM emq_outbox WHERE refused IS NULL AND queue <> ALL ($2)
    ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED";

const DELETE: &str = "
    DELETE FROM emq_outbox
    USING unnest($1::text[], $2::text[]) AS settled (queue, id)
    WHERE emq_outbox.queue = settled.queue AND emq_outbox.id = settled.id";

const REFUSE: &str = "UPDATE emq_outbox SET refused = $3 WHERE queue = $1 AND id = $2";

const DEPTH: &str = "
    SELECT count(*) FILTER (WHERE refused IS NULL),
           count(*) FILTER (WHERE refused IS NOT NULL),
           floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
               - min(created_ms) FILTER (WHERE refused IS NULL)
    FROM emq_outbox";

const REFUSED: &str = "
    SELECT queue, id, refused, payload, lane, kind, created_ms
    FROM emq_outbox WHERE refused IS NOT NULL AND (queue, id) > ($1, $2)
    ORDER BY queue, id LIMIT $3";

const READMIT: &str = "
    WITH again AS (
        UPDATE emq_outbox SET refused = NULL
        WHERE queue = $1 AND id = $2 AND refused IS NOT NULL
        RETURNING pg_notify('emq_outbox', '') IS NOT NULL AS told
    )
    SELECT count(told) FROM again";

const DISCARD: &str = "DELETE FROM emq_outbox WHERE queue = $1 AND id = $2 AND refused IS NOT NULL";

pub(super) async fn insert(
    tx: &mut impl PgTransaction,
    row: &Columns<'_>,
) -> Result<Placed, StoreError> {
    let (id, lane) = (row.job.id(), row.job.group());
    let params = [
        Param::Text(row.queue),
        Param::Text(id.as_str()),
        Param::Bytes(row.job.payload()),
        Param::text(lane.as_ref().map(emq_keys::BrandedId::as_str)),
        Param::text(row.kind),
        Param::text(row.headers),
        Param::big_int(row.max_attempts),
        Param::text(row.unique),
        Param::big_int(row.due_ms),
        Param::big_int(row.delay_ms),
    ];
    let count = first(tx.query(INSERT, &params).await?)?.into_big_int()?;
    Ok(if count == 1 { Placed::Written } else { Placed::Duplicate })
}

impl Postgres {
    /// Makes the table of the outbox, or brings it up to this program's version.
    ///
    /// # Errors
    /// [`StoreError::Schema`] when the table is of a newer version; see [`StoreError`].
    pub async fn migrate_outbox(&self) -> Result<(), StoreError> {
        migrate::run(self, &TABLES).await
    }
}

pub(super) async fn take(
    db: &Postgres,
    limit: usize,
    left_out: &[String],
) -> Result<(OwnTransaction, Vec<Read>), StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let left_out: Vec<&str> = left_out.iter().map(String::as_str).collect();
    let mut tx = db.begin().await?;
    let rows = tx.query(TAKE, &[Param::BigInt(limit), Param::TextArray(&left_out)]).await?;
    let rows = rows.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok((tx, rows))
}

fn read(row: Vec<Value>) -> Result<Read, StoreError> {
    let mut columns = row.into_iter();
    let mut next = || columns.next().ok_or_else(missing);
    let text = |value: Value| value.non_null().map(Value::into_text).transpose();
    let number = |value: Value| value.non_null().map(Value::into_big_int).transpose();
    Ok(Read {
        queue: next()?.into_text()?,
        id: next()?.into_text()?,
        payload: next()?.into_bytes()?,
        lane: text(next()?)?,
        kind: text(next()?)?,
        headers: text(next()?)?,
        max_attempts: number(next()?)?,
        unique: text(next()?)?,
        due_ms: number(next()?)?,
    })
}

/// Deletes what is settled, keeps what was refused with its reason, and lets go of the rest.
pub(super) async fn conclude(
    mut tx: OwnTransaction,
    settled: &[(String, String)],
    refused: &[(String, String, String)],
) -> Result<(), StoreError> {
    for (queue, id, reason) in refused {
        let params = [Param::Text(queue), Param::Text(id), Param::Text(reason)];
        tx.execute(REFUSE, &params).await?;
    }
    let queues: Vec<&str> = settled.iter().map(|(queue, _)| queue.as_str()).collect();
    let ids: Vec<&str> = settled.iter().map(|(_, id)| id.as_str()).collect();
    tx.commit_with(DELETE, &[Param::TextArray(&queues), Param::TextArray(&ids)]).await.map(drop)
}

/// How many rows wait, how many are refused, and how long the first has waited, in milliseconds.
pub(super) async fn depth(db: &Postgres) -> Result<(i64, i64, Option<i64>), StoreError> {
    let rows = db.query(DEPTH, &[]).await?;
    let mut columns = rows.into_iter().flatten();
    let mut next = || columns.next().ok_or_else(missing);
    Ok((
        next()?.into_big_int()?,
        next()?.into_big_int()?,
        next()?.non_null().map(Value::into_big_int).transpose()?,
    ))
}

/// Refused rows behind this queue and id, in the order of both.
pub(super) async fn refused(
    db: &Postgres,
    limit: usize,
    (queue, id): (&str, &str),
) -> Result<Vec<Refused>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let params = [Param::Text(queue), Param::Text(id), Param::BigInt(limit)];
    db.query(REFUSED, &params).await?.into_iter().map(as_refused).collect()
}

fn as_refused(row: Vec<Value>) -> Result<Refused, StoreError> {
    let mut columns = row.into_iter();
    let mut next = || columns.next().ok_or_else(missing);
    let text = |value: Value| value.non_null().map(Value::into_text).transpose();
    Ok(Refused {
        queue: next()?.into_text()?,
        id: next()?.into_text()?,
        reason: next()?.into_text()?,
        payload: next()?.into_bytes()?.into(),
        lane: text(next()?)?,
        kind: text(next()?)?,
        written_at: super::refused::moment(next()?.into_big_int()?),
    })
}

/// Whether a refused row was there, which waits again now.
pub(super) async fn readmit(db: &Postgres, queue: &str, id: &str) -> Result<bool, StoreError> {
    let rows = db.query(READMIT, &[Param::Text(queue), Param::Text(id)]).await?;
    Ok(first(rows)?.into_big_int()? == 1)
}

/// Whether a refused row was there, which is gone now.
pub(super) async fn discard(db: &Postgres, queue: &str, id: &str) -> Result<bool, StoreError> {
    Ok(db.execute(DISCARD, &[Param::Text(queue), Param::Text(id)]).await? == 1)
}

fn first(rows: Vec<Vec<Value>>) -> Result<Value, StoreError> {
    rows.into_iter().flatten().next().ok_or_else(missing)
}

fn missing() -> StoreError {
    StoreError::Database("a column is missing".into())
}
