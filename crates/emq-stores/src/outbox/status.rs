//! What a relay tells of itself.

use std::time::Duration;

/// What a relay has done so far, and what waits. The depth and the lag are those of its last sweep.
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
    /// Rounds that failed.
    pub failures: u64,
    /// Why the last round failed; `None` after one that didn't.
    pub last_error: Option<String>,
}

#[cfg(feature = "metrics")]
pub(super) fn tell(status: &RelayStatus) {
    metrics::gauge!("emq_outbox_depth").set(as_f64(status.depth));
    metrics::gauge!("emq_outbox_refused").set(as_f64(status.refused));
    metrics::gauge!("emq_outbox_lag_seconds").set(status.lag.as_secs_f64());
    metrics::counter!("emq_outbox_admitted_total").absolute(status.admitted);
    metrics::counter!("emq_outbox_duplicates_total").absolute(status.duplicates);
    metrics::counter!("emq_outbox_held_total").absolute(status.held);
    metrics::counter!("emq_outbox_failures_total").absolute(status.failures);
}

#[cfg(feature = "metrics")]
#[allow(clippy::cast_precision_loss)]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(not(feature = "metrics"))]
pub(super) fn tell(_status: &RelayStatus) {}
