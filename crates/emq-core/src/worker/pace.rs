//! How fast a worker is, over the last seconds.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::status::Totals;

/// How far back a rate looks.
const WINDOW: Duration = Duration::from_secs(5);
/// How often the totals are kept.
const EVERY: Duration = Duration::from_millis(250);

/// How much a worker does, in jobs per second over the last five seconds or so.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Rates {
    /// Jobs claimed.
    pub claimed: f64,
    /// Jobs completed.
    pub done: f64,
    /// Jobs that failed: to run again, or dead.
    pub failed: f64,
}

/// The totals of the last seconds, a few a second while the worker works.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<VecDeque<(Instant, Totals)>>);

impl Pace {
    /// Keeps the totals of now, unless that was done a moment ago.
    pub(super) fn keep(&self, now: Instant, totals: impl FnOnce() -> Totals) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.back().is_some_and(|(at, _)| now.saturating_duration_since(*at) < EVERY) {
            return;
        }
        // One that is older than the window stays, to count from.
        while kept.get(1).is_some_and(|(at, _)| now.saturating_duration_since(*at) >= WINDOW) {
            kept.pop_front();
        }
        kept.push_back((now, totals()));
    }

    /// The rates up to now.
    pub(super) fn read(&self, now: Instant, totals: &Totals) -> Rates {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let within = |at: &Instant| now.saturating_duration_since(*at) <= WINDOW;
        let first = kept.iter().position(|(at, _)| within(at)).unwrap_or(kept.len());
        let Some((at, base)) = kept.get(first.saturating_sub(1)) else { return Rates::default() };
        // What the last one before the window didn't see may have been done within it.
        let seconds = now.saturating_duration_since(*at).max(EVERY).as_secs_f64();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        Rates {
            claimed: rate(totals.claimed, base.claimed),
            done: rate(totals.done, base.done),
            failed: rate(totals.retried + totals.dead, base.retried + base.dead),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let pace = Pace::default();
        let begun = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(pace.read(begun, &Totals::default()), Rates::default());
        let at = |n: u32| Totals { claimed: 100 * u64::from(n), ..Totals::default() };
        for n in 0..=20 {
            pace.keep(begun + n * second, || at(n));
            // A second look within a moment keeps nothing.
            pace.keep(begun + n * second, || unreachable!());
        }
        assert!(pace.0.lock().unwrap().len() <= 7);
        let rates = pace.read(begun + 20 * second, &at(20));
        assert!((rates.claimed - 100.0).abs() < 1.0, "{rates:?}");
        // Then nothing happens, and nobody keeps anything.
        let rates = pace.read(begun + 40 * second, &at(20));
        assert_eq!(rates, Rates::default());
    }
}
