//! What the handlers have done: positions, and the names of the jobs they absorbed.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use emq_keys::BrandedId;
use hdrhistogram::Histogram;

use super::input::Fill;

/// Positions by portfolio, kept exactly once per job: a name seen before is declined.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Books>);

#[derive(Default)]
struct Books {
    positions: HashMap<BrandedId, i64>,
    absorbed: HashSet<BrandedId>,
    declined: usize,
    seen: HashMap<BrandedId, u64>,
    /// Jobs whose handler was dropped with its worker and that have not come back.
    orphans: HashSet<BrandedId>,
    recovered: usize,
    waits: Option<Histogram<u64>>,
    runs: Option<Histogram<u64>>,
}

/// What a repeated delivery comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absorbed {
    Applied,
    Declined,
}

impl Ledger {
    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a delivery; answers how many there were of this job before.
    pub(super) fn deliver(&self, job: BrandedId) -> u64 {
        let mut books = self.books();
        if books.orphans.remove(&job) {
            books.recovered += 1;
        }
        let count = books.seen.entry(job).or_default();
        *count += 1;
        *count - 1
    }

    /// Notes that a job's handler was dropped before it ended.
    pub(super) fn orphan(&self, job: BrandedId) {
        self.books().orphans.insert(job);
    }

    /// Orphans that were delivered again.
    pub(super) fn recovered(&self) -> usize {
        self.books().recovered
    }

    /// Applies a fill once per job's name.
    pub(super) fn absorb(&self, job: BrandedId, fill: &Fill) -> Absorbed {
        let mut books = self.books();
        if !books.absorbed.insert(job) {
            books.declined += 1;
            return Absorbed::Declined;
        }
        *books.positions.entry(fill.portfolio).or_default() += fill.qty;
        Absorbed::Applied
    }

    pub(super) fn record(&self, wait_us: u64, run_us: u64) {
        let mut books = self.books();
        for (histogram, value) in [(0, wait_us), (1, run_us)] {
            let slot = if histogram == 0 { &mut books.waits } else { &mut books.runs };
            let fresh = || Histogram::new_with_bounds(1, 3_600_000_000, 3).ok();
            if slot.is_none() {
                *slot = fresh();
            }
            if let Some(histogram) = slot {
                histogram.saturating_record(value.max(1));
            }
        }
    }

    /// Jobs whose effect is in the books.
    pub(super) fn effects(&self) -> usize {
        self.books().absorbed.len()
    }

    pub(super) fn has(&self, job: &BrandedId) -> bool {
        self.books().absorbed.contains(job)
    }

    /// Repeated deliveries whose effect was there already.
    pub(super) fn declined(&self) -> usize {
        self.books().declined
    }

    /// Positions equal the sum of the fills that were absorbed.
    pub(super) fn balances(&self, jobs: &HashMap<BrandedId, Fill>) -> bool {
        let books = self.books();
        let mut sums: HashMap<BrandedId, i64> = HashMap::new();
        for job in &books.absorbed {
            match jobs.get(job) {
                Some(fill) => *sums.entry(fill.portfolio).or_default() += fill.qty,
                None => return false,
            }
        }
        sums == books.positions
    }

    /// p50, p90, p99 and the largest, of waits and of runs, in microseconds.
    pub(super) fn percentiles(&self) -> [Option<[u64; 4]>; 2] {
        let books = self.books();
        let read = |h: &Histogram<u64>| {
            [h.value_at_quantile(0.5), h.value_at_quantile(0.9), h.value_at_quantile(0.99), h.max()]
        };
        [books.waits.as_ref().map(read), books.runs.as_ref().map(read)]
    }
}
