//! Tables, by version.

use super::handle::Postgres;
use super::own::OwnTransaction;
use super::transaction::{Param, PgTransaction};
use crate::error::StoreError;

/// A set of tables that grow together.
pub(crate) struct Tables {
    /// Their name in `emq_schema`.
    pub(crate) name: &'static str,
    /// What leads from each version to the next; the first makes them. One that was released is
    /// never changed.
    pub(crate) steps: &'static [&'static str],
}

/// Held while versions are looked at and raised: programs that start at once take turns.
const LOCK: i64 = i64::from_be_bytes(*b"emq_sche");

const VERSIONS_EXIST: &str = "SELECT to_regclass('emq_schema') IS NOT NULL";
const CREATE_VERSIONS: &str =
    "CREATE TABLE emq_schema (name text COLLATE \"C\" PRIMARY KEY, version bigint NOT NULL)";
const VERSION: &str = "SELECT version FROM emq_schema WHERE name = $1";
const RAISE: &str = "INSERT INTO emq_schema (name, version) VALUES ($1, $2) \
                     ON CONFLICT (name) DO UPDATE SET version = excluded.version";

/// Brings the tables up to the last step.
pub(crate) async fn run(database: &Postgres, tables: &Tables) -> Result<(), StoreError> {
    let mut tx = database.begin().await?;
    match raise(&mut tx, tables).await {
        Ok(()) => tx.commit().await,
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

/// Each statement of a READ COMMITTED transaction sees what was committed before it, so those
/// behind the lock see what its last holder did.
async fn raise(tx: &mut OwnTransaction, tables: &Tables) -> Result<(), StoreError> {
    tx.execute("SELECT pg_advisory_xact_lock($1)", &[Param::BigInt(LOCK)]).await?;
    // Asked first, since CREATE TABLE IF NOT EXISTS needs the right to create also where it exists.
    let exist = tx.query(VERSIONS_EXIST, &[]).await?;
    if !exist.into_iter().flatten().next().map_or(Ok(false), super::Value::into_bool)? {
        tx.batch(CREATE_VERSIONS).await?;
    }
    let name = Param::Text(tables.name);
    let found = tx.query(VERSION, &[name]).await?;
    let found = found.into_iter().flatten().next().map_or(Ok(0), super::Value::into_big_int)?;
    let known = i64::try_from(tables.steps.len()).unwrap_or(i64::MAX);
    let done = usize::try_from(found).ok().filter(|_| found <= known);
    let Some(done) = done else { return Err(StoreError::Schema { found, known }) };
    for step in &tables.steps[done..] {
        tx.batch(step).await?;
    }
    if found < known {
        tx.execute(RAISE, &[name, Param::BigInt(known)]).await?;
    }
    Ok(())
}
