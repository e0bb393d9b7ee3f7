//! Forgetting the names of old jobs.

use emq_keys::{BrandedId, Namespace};

use super::handle::Postgres;
use super::own::OwnTransaction;
use super::store::after_all_of;
use super::tables::{FOLD, LOCK_ROW, TO_FOLD};
use super::transaction::{Param, PgTransaction, Value};
use crate::compaction::COMPACT_STEP;
use crate::effect::Compacted;
use crate::error::StoreError;

/// How many rows are looked up at once, and how many names are forgotten in one transaction, that
/// is, while a row is locked.
#[allow(clippy::cast_possible_wrap)] // Far from it.
const STEP: i64 = COMPACT_STEP as i64;

/// Forgets the names of jobs before the horizon, which has moved there already: whoever absorbs
/// into a row after its lock was ours sees the horizon too.
pub(super) async fn names_before(
    database: &Postgres,
    kind: Namespace,
    horizon: BrandedId,
) -> Result<Compacted, StoreError> {
    let end = after_all_of(kind);
    let mut after = kind.as_str().to_owned();
    let mut compacted = Compacted::default();
    loop {
        let params = [
            Param::Text(&after),
            Param::Text(&end),
            Param::Text(horizon.as_str()),
            Param::BigInt(STEP),
        ];
        let ids = database.query(TO_FOLD, &params).await?;
        let ids = ids.into_iter().flatten().map(Value::into_text);
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        for id in &ids {
            let names = fold_row(database, id, horizon).await?;
            compacted.names += names;
            compacted.rows += u64::from(names > 0);
        }
        match ids.into_iter().next_back() {
            Some(last) => after = last,
            None => return Ok(compacted),
        }
    }
}

async fn fold_row(database: &Postgres, id: &str, horizon: BrandedId) -> Result<u64, StoreError> {
    let mut folded = 0;
    loop {
        let mut tx = database.begin().await?;
        let names = match fold_some(&mut tx, id, horizon).await {
            Ok(names) => names,
            Err(error) => {
                tx.rollback().await;
                return Err(error);
            }
        };
        tx.commit().await?;
        folded += u64::try_from(names).unwrap_or(0);
        if names < STEP {
            return Ok(folded);
        }
    }
}

/// The lock is a statement before the names are: so they are seen as its last holder left them.
async fn fold_some(
    tx: &mut OwnTransaction,
    id: &str,
    horizon: BrandedId,
) -> Result<i64, StoreError> {
    let params = [Param::Text(id), Param::Text(horizon.as_str()), Param::BigInt(STEP)];
    tx.query(LOCK_ROW, &params[..1]).await?;
    let folded = tx.query(FOLD, &params).await?;
    folded.into_iter().flatten().next().map_or(Ok(0), Value::into_big_int)
}
