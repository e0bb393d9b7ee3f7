//! The guard: whether a row takes an effect, decided under the row's lock.
//!
//! One statement ([`LOOK`](super::tables::LOOK)) locks the row and answers the row, whether it
//! remembers the name, and the horizon. It may have waited for the lock, and then its parts are of
//! different times: the row is as its last writer left it, the name and the horizon are as they
//! were when the statement began. So it also answers the row's revision twice, once of the row
//! that was locked and once as of the beginning. Every transaction that changes a row, or the names
//! that it remembers, raises the revision under this same lock. Hence:
//!
//! * **The two are equal**: nobody changed the row or its names between the beginning and the
//!   lock, and nobody can until we end. What was answered holds until our commit. The horizon may
//!   have moved meanwhile; but it moves before any name is forgotten, and forgetting one raises
//!   the revision. So a name that wasn't remembered wasn't forgotten either: with the older
//!   horizon, too, it is known that the job was never absorbed.
//! * **They differ**: we look again, which can't wait any more, since we hold the lock.
//!
//! Two callers with one name therefore come one after the other, and the second sees the first's
//! name: `Declined`, without its effect being run. Should a hand have written a name past the
//! lock, the primary key of `emq_names` declines it at the write.
//!
//! A row that isn't there can't be locked: an empty one is inserted first, which makes a second
//! inserter wait on the primary key. It never outlives a refusal.
//!
//! The caller's own transaction may be REPEATABLE READ or SERIALIZABLE. There all statements see
//! the database as of the first. A row that was changed since then can't be locked or inserted
//! (SQLSTATE 40001, which is [`StoreError::Unavailable`]: the caller begins anew), and a row that
//! wasn't has the names it had. So nothing is applied twice there either.

use bytes::Bytes;
use emq_keys::BrandedId;

use super::tables::{LOOK, RESERVE, UNRESERVE};
use super::transaction::{Param, PgTransaction, Value};
use super::{id_from, next};
use crate::effect::{JobName, Written};
use crate::error::StoreError;

/// How often a row is looked at. Two are enough for a row that stays; one that others insert and
/// take back again and again could go on.
const LOOKS: usize = 8;

/// Whether the row takes the name, and then what is to be written with
/// [`WRITE`](super::tables::WRITE); `None` when it remembers it. The row is locked until the
/// transaction ends. On an error that isn't the database's, the transaction is as it was before.
pub(super) async fn decide(
    tx: &mut impl PgTransaction,
    id: BrandedId,
    name: &JobName,
    effect: impl FnOnce(Option<Bytes>) -> Result<Written, StoreError>,
) -> Result<Option<Written>, StoreError> {
    let (seen, reserved) = lock(tx, id, name).await?;
    let verdict = seen.verdict(name, effect);
    if reserved && !matches!(verdict, Ok(Some(_))) {
        tx.execute(UNRESERVE, &[Param::Text(id.as_str())]).await?;
    }
    verdict
}

/// The parameters of [`WRITE`](super::tables::WRITE).
pub(super) fn write_params<'a>(
    id: &'a BrandedId,
    job: &'a BrandedId,
    name: &'a JobName,
    written: &'a Written,
) -> [Param<'a>; 5] {
    [
        Param::Text(id.as_str()),
        Param::Text(job.as_str()),
        Param::Bytes(name.step_name().as_bytes()),
        Param::Bytes(&written.contribution),
        Param::Bytes(&written.row),
    ]
}

/// What is known of a row that is locked.
struct Seen {
    body: Option<Bytes>,
    remembered: bool,
    horizon: Option<BrandedId>,
}

impl Seen {
    fn verdict(
        self,
        name: &JobName,
        effect: impl FnOnce(Option<Bytes>) -> Result<Written, StoreError>,
    ) -> Result<Option<Written>, StoreError> {
        if self.remembered {
            return Ok(None);
        }
        let job = name.job();
        if let Some(horizon) = self.horizon.filter(|horizon| job < *horizon) {
            return Err(StoreError::BeyondHorizon { job, horizon });
        }
        effect(self.body).map(Some)
    }
}

/// Locks the row, and answers whether we had to put one there for that.
async fn lock(
    tx: &mut impl PgTransaction,
    id: BrandedId,
    name: &JobName,
) -> Result<(Seen, bool), StoreError> {
    let (job, kind) = (name.job(), id.namespace());
    let params = [
        Param::Text(id.as_str()),
        Param::Text(job.as_str()),
        Param::Bytes(name.step_name().as_bytes()),
        Param::Text(kind.as_str()),
    ];
    let mut reserved = false;
    for _ in 0..LOOKS {
        let Some(row) = tx.query(LOOK, &params).await?.pop() else {
            reserved |= tx.execute(RESERVE, &params[..1]).await? == 1;
            continue;
        };
        let mut row = row.into_iter();
        let body = next(&mut row)?.non_null().map(Value::into_bytes).transpose()?;
        let (locked, seen) = (next(&mut row)?, next(&mut row)?);
        if locked != seen {
            continue;
        }
        let remembered = next(&mut row)?.into_bool()?;
        let horizon = next(&mut row)?.non_null().map(id_from).transpose()?;
        return Ok((Seen { body: body.map(Bytes::from), remembered, horizon }, reserved));
    }
    Err(StoreError::Unavailable(format!("{id} was put and taken back {LOOKS} times").into()))
}
