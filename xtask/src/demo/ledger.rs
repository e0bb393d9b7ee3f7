//! What the handlers did, as they saw it: deliveries, faults and times. What landed is in the books.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use emq_keys::BrandedId;
use emq_stores::Absorbed;
use hdrhistogram::Histogram;

/// Notes of all handlers.
#[derive(Default)]
pub(super) struct Ledger(Mutex<Notes>);

#[derive(Default)]
struct Notes {
    done: HashSet<BrandedId>,
    declined: usize,
    failed: u64,
    panicked: u64,
    seen: HashMap<BrandedId, u64>,
    /// How many jobs each worker has in hand.
    in_hand: HashMap<usize, usize>,
    /// Jobs whose handler was dropped with its worker and that have not come back.
    orphans: HashSet<BrandedId>,
    recovered: usize,
    waits: Option<Histogram<u64>>,
    runs: Option<Histogram<u64>>,
}

impl Ledger {
    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a delivery; answers how many there were of this job before.
    pub(super) fn deliver(&self, job: BrandedId) -> u64 {
        let mut notes = self.notes();
        if notes.orphans.remove(&job) {
            notes.recovered += 1;
        }
        let count = notes.seen.entry(job).or_default();
        *count += 1;
        *count - 1
    }

    /// A worker takes a job in hand.
    pub(super) fn take(&self, job: BrandedId, worker: usize) -> InHand<'_> {
        *self.notes().in_hand.entry(worker).or_default() += 1;
        InHand { ledger: self, job, worker, is_down: false }
    }

    /// How many jobs a worker has in hand.
    pub(super) fn in_hand(&self, worker: usize) -> usize {
        self.notes().in_hand.get(&worker).copied().unwrap_or_default()
    }

    /// How many handlers run now.
    pub(super) fn in_flight(&self) -> usize {
        self.notes().in_hand.values().sum()
    }

    /// Orphans that were delivered again.
    pub(super) fn recovered(&self) -> usize {
        self.notes().recovered
    }

    /// An attempt failed.
    pub(super) fn fail(&self) {
        self.notes().failed += 1;
    }

    /// Attempts that failed, and those of them that panicked.
    pub(super) fn failures(&self) -> (u64, u64) {
        let notes = self.notes();
        (notes.failed, notes.panicked)
    }

    /// A fill is in the books.
    pub(super) fn book(&self, job: BrandedId, absorbed: Absorbed) {
        let mut notes = self.notes();
        notes.done.insert(job);
        notes.declined += usize::from(absorbed == Absorbed::Declined);
    }

    pub(super) fn record(&self, wait_us: u64, run_us: u64) {
        let mut notes = self.notes();
        for (histogram, value) in [(0, wait_us), (1, run_us)] {
            let slot = if histogram == 0 { &mut notes.waits } else { &mut notes.runs };
            let fresh = || Histogram::new_with_bounds(1, 3_600_000_000, 3).ok();
            if slot.is_none() {
                *slot = fresh();
            }
            if let Some(histogram) = slot {
                histogram.saturating_record(value.max(1));
            }
        }
    }

    /// Jobs whose handler saw them land.
    pub(super) fn done(&self) -> usize {
        self.notes().done.len()
    }

    /// Repeated deliveries whose effect was there already.
    pub(super) fn declined(&self) -> usize {
        self.notes().declined
    }

    /// p50, p90, p99 and the largest, of waits and of runs, in microseconds.
    pub(super) fn percentiles(&self) -> [Option<[u64; 4]>; 2] {
        let notes = self.notes();
        let read = |h: &Histogram<u64>| {
            [h.value_at_quantile(0.5), h.value_at_quantile(0.9), h.value_at_quantile(0.99), h.max()]
        };
        [notes.waits.as_ref().map(read), notes.runs.as_ref().map(read)]
    }
}

/// A job in a handler's hand. Dropped with the handler, it is an orphan; by a panic, a failure.
pub(super) struct InHand<'a> {
    ledger: &'a Ledger,
    job: BrandedId,
    worker: usize,
    is_down: bool,
}

impl InHand<'_> {
    pub(super) fn put_down(mut self) {
        self.is_down = true;
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        let mut notes = self.ledger.notes();
        if let Some(count) = notes.in_hand.get_mut(&self.worker) {
            *count -= 1;
        }
        if std::thread::panicking() {
            notes.failed += 1;
            notes.panicked += 1;
        } else if !self.is_down {
            notes.orphans.insert(self.job);
        }
    }
}
