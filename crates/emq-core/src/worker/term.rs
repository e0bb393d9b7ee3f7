//! The times of one attempt.

use std::time::Duration;

use tokio::time::Instant;

use super::builder::Settings;
use super::job::CancelReason;

/// The grace of a handler that was told before that the worker stops.
const STOPPING_GRACE: Duration = Duration::from_millis(25);
/// The longest grace of a handler whose job somebody else may be working.
const STALE_GRACE: Duration = Duration::from_millis(100);
/// The longest pause before a failed extension is tried again.
const EXTEND_AGAIN_MAX: Duration = Duration::from_millis(250);

/// The times that matter to one attempt, on the monotonic clock.
#[derive(Debug)]
pub(super) struct Term {
    /// The moment before the claim, or the last acknowledged extension, was sent.
    from: Instant,
    lease: Duration,
    /// How long before the lease's end the handler is cancelled.
    margin: Duration,
    extend_at: Instant,
    timeout_at: Option<Instant>,
    begun: Instant,
    /// When a cancelled handler is dropped.
    drop_at: Option<Instant>,
}

impl Term {
    pub(super) fn new(settings: &Settings, sent: Instant, now: Instant) -> Term {
        let lease = settings.lease;
        Term {
            from: sent,
            lease,
            margin: (lease / 8).clamp(Duration::from_millis(2), Duration::from_secs(2)),
            extend_at: sent + lease / 3,
            timeout_at: settings.timeout.and_then(|timeout| now.checked_add(timeout)),
            begun: now,
            drop_at: None,
        }
    }

    /// The same for a job without a handler, which has no timeout.
    pub(super) fn of_idle(settings: &Settings, sent: Instant, now: Instant) -> Term {
        Term { timeout_at: None, ..Term::new(settings, sent, now) }
    }

    /// The moment at which the handler was started.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// The local deadline: from here on another worker may soon have the job.
    pub(super) fn deadline(&self) -> Instant {
        self.from + self.lease - self.margin
    }

    /// Whether the handler is to be dropped.
    pub(super) fn drops(&self, now: Instant) -> bool {
        self.drop_at.is_some_and(|at| at <= now)
    }

    /// Why the handler is to be cancelled by now.
    pub(super) fn over(&self, now: Instant) -> Option<CancelReason> {
        if self.deadline() <= now {
            Some(CancelReason::Deadline)
        } else if self.timeout_at.is_some_and(|at| at <= now) {
            Some(CancelReason::Timeout)
        } else {
            None
        }
    }

    /// Whether the lease is to be extended by then.
    pub(super) fn extends(&self, by: Instant, cancelled: Option<CancelReason>) -> bool {
        keeps(cancelled) && self.extend_at <= by
    }

    /// How much sooner a lease is extended when others are: so that they travel together.
    pub(super) fn slack(lease: Duration) -> Duration {
        lease / 24
    }

    /// The next moment at which something is to be done.
    pub(super) fn next(&self, cancelled: Option<CancelReason>, extending: bool) -> Option<Instant> {
        let extend_at = (keeps(cancelled) && !extending).then_some(self.extend_at);
        let uncancelled = |at: Option<Instant>| at.filter(|_| cancelled.is_none());
        [extend_at, self.drop_at, uncancelled(self.timeout_at), uncancelled(Some(self.deadline()))]
            .into_iter()
            .flatten()
            .min()
    }

    /// The lease counts from the moment that its extension was sent.
    pub(super) fn extended(&mut self, sent: Instant) {
        self.from = sent;
        self.extend_at = sent + self.lease / 3;
    }

    /// An extension had no answer.
    pub(super) fn again(&mut self, now: Instant) {
        self.extend_at = now + (self.lease / 12).min(EXTEND_AGAIN_MAX);
    }

    /// A handler that was cancelled is dropped after a grace, and within its lease.
    pub(super) fn cancelled(&mut self, reason: CancelReason, grace: Duration, now: Instant) {
        if self.drop_at.is_some() {
            return;
        }
        let grace = match reason {
            CancelReason::Stopping => grace.min(STOPPING_GRACE),
            CancelReason::Stale => grace.min(STALE_GRACE),
            _ => grace,
        };
        let lease_ends = self.from + self.lease - self.margin / 2;
        self.drop_at = Some(now.checked_add(grace).map_or(lease_ends, |at| at.min(lease_ends)));
    }
}

/// Whether the lease of a handler that was cancelled so is still kept.
fn keeps(cancelled: Option<CancelReason>) -> bool {
    !matches!(cancelled, Some(CancelReason::Stale | CancelReason::Deadline))
}
