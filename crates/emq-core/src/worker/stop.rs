//! Stopping: a drain with a deadline.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::inside::Inside;
use super::status::{Phase, Totals};

/// The least time that a stop takes when handlers have to hand their jobs back.
const LEAST: Duration = Duration::from_millis(250);
/// The most time at the end of the grace that is kept for handing back; at most half of it is.
const HAND_BACK_MAX: Duration = Duration::from_secs(1);
/// No grace is longer than this.
const GRACE_MAX: Duration = Duration::from_secs(86_400 * 365);
/// How long the loop may take to end once everything was given up.
const LAST_STEP: Duration = Duration::from_millis(50);

/// The loop's task. It is ended with this value, and its handlers with it.
pub(super) struct Running(JoinHandle<()>);

impl Running {
    pub(super) fn new(rounds: JoinHandle<()>) -> Running {
        Running(rounds)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How a stop went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// Jobs that were settled by their handler's outcome after the stop began.
    pub finished: u64,
    /// Jobs that were handed back, and may be claimed at once.
    pub released: u64,
    /// Jobs that are left to the end of their lease, because the server couldn't be told.
    pub abandoned: u64,
    /// How long it took.
    pub took: Duration,
    /// What the worker did in all.
    pub totals: Totals,
}

pub(super) async fn stop(inside: &Inside, mut running: Running, grace: Duration) -> StopReport {
    let begun = Instant::now();
    let before = inside.tally.read();
    inside.stopping.cancel();
    let grace = grace.min(GRACE_MAX);
    let ends_at = begun + grace.max(LEAST);
    let hand_back_at = begun + grace - (grace / 2).min(HAND_BACK_MAX);
    if timeout_at(hand_back_at, &mut running.0).await.is_err() {
        inside.handing_back.cancel();
        if timeout_at(ends_at - LAST_STEP, &mut running.0).await.is_err() {
            inside.ended.cancel();
            // What doesn't end in this last step is dropped with `running`.
            let _ = timeout_at(ends_at, &mut running.0).await;
        }
    }
    drop(running);
    if inside.failure.get().is_none() {
        inside.enter(Phase::Stopped, 0);
    }
    let totals = inside.tally.read();
    let finished = settled(&totals) - settled(&before);
    let released = totals.released - before.released;
    // Of all that was ever claimed, what was neither settled nor handed back, nor left before.
    let abandoned =
        totals.claimed.saturating_sub(settled(&totals) + totals.released + before.abandoned);
    StopReport { finished, released, abandoned, took: begun.elapsed(), totals }
}

fn settled(totals: &Totals) -> u64 {
    totals.done + totals.retried + totals.dead + totals.cancelled + totals.stale
}
