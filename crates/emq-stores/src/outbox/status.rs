//! What a relay tells of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use emq_core::NotDurable;

/// What a relay has done so far, and what waits. What waits is counted at each sweep, and about
/// once a second while rounds follow each other or fail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayStatus {
    /// Rows that wait.
    pub depth: u64,
    /// How long the oldest of them has waited.
    pub lag: Duration,
    /// Rows that the bus refused for good, and that wait for a human.
    pub refused: u64,
    /// Jobs that the bus admitted.
    pub admitted: u64,
    /// Jobs that the bus had already, such as those of a relay that died before its delete.
    pub duplicates: u64,
    /// Jobs that are settled because another holds their unique key.
    pub held: u64,
    /// Rounds that failed, wholly or for a queue.
    pub failures: u64,
    /// Why the last round failed as a whole; `None` after one that didn't.
    pub last_error: Option<String>,
    /// Why the server can't promise that an admitted job survives its crash: the rows are held
    /// until it can. `None` unless that is what the last round failed of.
    pub not_durable: Option<NotDurable>,
    /// Queues that refuse all of their jobs, such as those whose keys on the server are damaged,
    /// and why. Their rows wait; each queue is tried again after growing pauses.
    pub stuck: BTreeMap<String, String>,
}

/// What one round has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) admitted: u64,
    pub(super) duplicates: u64,
    pub(super) held: u64,
    pub(super) failures: u64,
}

impl RelayStatus {
    /// Adds it to the totals, here and in the metrics.
    pub(super) fn add(&mut self, done: Done) {
        self.admitted += done.admitted;
        self.duplicates += done.duplicates;
        self.held += done.held;
        self.failures += done.failures;
        count(done);
    }
}

#[cfg(feature = "metrics")]
fn count(done: Done) {
    metrics::counter!("emq_outbox_admitted_total").increment(done.admitted);
    metrics::counter!("emq_outbox_duplicates_total").increment(done.duplicates);
    metrics::counter!("emq_outbox_held_total").increment(done.held);
    metrics::counter!("emq_outbox_failures_total").increment(done.failures);
}

#[cfg(not(feature = "metrics"))]
fn count(_done: Done) {}

/// Tells the metrics what waits.
#[cfg(feature = "metrics")]
pub(super) fn tell(status: &RelayStatus) {
    metrics::gauge!("emq_outbox_depth").set(as_f64(status.depth));
    metrics::gauge!("emq_outbox_lag_seconds").set(status.lag.as_secs_f64());
    metrics::gauge!("emq_outbox_refused").set(as_f64(status.refused));
    metrics::gauge!("emq_outbox_stuck_queues").set(as_f64(status.stuck.len() as u64));
}

#[cfg(feature = "metrics")]
#[allow(clippy::cast_precision_loss)]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(not(feature = "metrics"))]
pub(super) fn tell(_status: &RelayStatus) {}
