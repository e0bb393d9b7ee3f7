//! The fills of a drill, and where its kills fall: all of it from the seed.

use std::collections::HashMap;

use emq_core::{NewJob, Queue, Verdict};
use emq_keys::{BrandedId, EPOCH_MS, Namespace};
use fastrand::Rng;

use crate::Failure;
use crate::books::{Fill, ORDER, PORTFOLIO};

const PORTFOLIOS: usize = 8;
/// Fills for each order, on average.
const FILLS_PER_ORDER: usize = 4;
/// The time of the first fill's name, in milliseconds of the ids' epoch.
const FIRST_MS: u64 = 1_000_000;
/// The part of the feed over which kills fall; the rest is for their jobs to come back.
const KILLED_OVER: f64 = 0.9;

/// Fills by the names of their jobs.
pub(super) fn fills(rng: &mut Rng, count: usize) -> Result<HashMap<BrandedId, Fill>, Failure> {
    let mut fills = HashMap::new();
    let orders = (count / FILLS_PER_ORDER).max(1);
    for n in 0..count {
        let at_ms = EPOCH_MS + FIRST_MS + n as u64;
        let order = BrandedId::derive(ORDER, format!("order {}", rng.usize(..orders)).as_bytes())?;
        let portfolio = format!("portfolio {}", rng.usize(..PORTFOLIOS));
        let portfolio = BrandedId::derive(PORTFOLIO, portfolio.as_bytes())?;
        let fill = Fill { order, portfolio, qty: rng.i64(-500..=500), price: rng.i64(1..=99_999) };
        let job = BrandedId::derive_at(Namespace::JOB, at_ms, &n.to_be_bytes())?;
        fills.insert(job, fill);
    }
    Ok(fills)
}

/// Admits them, each portfolio's in its lane. Every answer means that they are on the disk: the
/// server syncs each write before it answers.
pub(super) async fn admit(queue: &Queue, fills: &HashMap<BrandedId, Fill>) -> Result<(), Failure> {
    let mut jobs = Vec::with_capacity(fills.len());
    for (id, fill) in fills {
        jobs.push(NewJob::new(*id, serde_json::to_vec(fill)?).lane(fill.portfolio));
    }
    for verdict in queue.enqueue_many(&jobs).await? {
        if !matches!(verdict, Verdict::Admitted(_)) {
            return Err(format!("{verdict:?}").into());
        }
    }
    Ok(())
}

/// After how many finished jobs each kill comes: spread over the feed, at random within its share.
pub(super) fn points(rng: &mut Rng, kills: usize, fills: usize) -> Vec<usize> {
    let share = fills as f64 * KILLED_OVER / kills.max(1) as f64;
    (0..kills).map(|n| ((n as f64 + rng.f64()) * share) as usize).collect()
}
