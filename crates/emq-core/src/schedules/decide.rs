//! What becomes of a schedule's ticks when one of them is due.

use super::definition::Missed;
use super::timing::Timing;

/// How many ticks of a cron expression one look walks over, at most.
const WALK_MAX: usize = 1_000;

/// What a call of the script `tick` is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// The tick that stands next.
    pub(super) next_ms: u64,
    /// Not before this moment; the tick itself, when its job is admitted.
    pub(super) from_ms: u64,
    /// Not from this moment on: then it is to be decided anew.
    pub(super) until_ms: Option<u64>,
    /// What stands next afterwards.
    pub(super) following_ms: Option<u64>,
    /// Whether the job of the tick at `from_ms` is admitted, or all up to there are passed over.
    pub(super) admits: bool,
}

/// Decides what to do about a tick that is due, by what is known of the server's clock. The script
/// holds the decision against the clock itself: it is void outside of its two bounds.
pub(super) fn decide(
    timing: &Timing,
    missed: Missed,
    tolerance_ms: u64,
    next_ms: u64,
    now_ms: u64,
) -> Decision {
    if missed == Missed::All {
        let following_ms = timing.after(next_ms);
        return Decision { next_ms, from_ms: next_ms, until_ms: None, following_ms, admits: true };
    }
    let (last_ms, following_ms) = timing.last_until(next_ms, now_ms, WALK_MAX);
    if let Some(overtaking) = following_ms.filter(|following| *following <= now_ms) {
        // There are more than one look can see: up to here they were all overtaken.
        let from_ms = overtaking;
        return Decision { next_ms, from_ms, until_ms: None, following_ms, admits: false };
    }
    let expires_ms = last_ms.saturating_add(tolerance_ms).saturating_add(1);
    let bound = match missed {
        Missed::None => Some(following_ms.map_or(expires_ms, |next| next.min(expires_ms))),
        _ => following_ms,
    };
    match bound {
        Some(bound) if bound <= now_ms => {
            let from_ms = bound.max(next_ms);
            Decision { next_ms, from_ms, until_ms: None, following_ms, admits: false }
        }
        until_ms => Decision { next_ms, from_ms: last_ms, until_ms, following_ms, admits: true },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Ticks at each full second from 1,800,000,000 s.
    const T: u64 = 1_800_000_000_000;

    fn at(missed: Missed, now_ms: u64) -> Decision {
        let timing = Timing::every(Duration::from_secs(1)).unwrap();
        decide(&timing, missed, 300, T, now_ms)
    }

    fn admits(from_ms: u64, until_ms: Option<u64>, following_ms: u64) -> Decision {
        let following_ms = Some(following_ms);
        Decision { next_ms: T, from_ms, until_ms, following_ms, admits: true }
    }

    #[test]
    fn a_tick_on_time_is_admitted_whatever_becomes_of_missed_ones() {
        assert_eq!(at(Missed::None, T), admits(T, Some(T + 301), T + 1_000));
        assert_eq!(at(Missed::None, T + 300), admits(T, Some(T + 301), T + 1_000));
        assert_eq!(at(Missed::Last, T), admits(T, Some(T + 1_000), T + 1_000));
        assert_eq!(at(Missed::All, T), admits(T, None, T + 1_000));
    }

    #[test]
    fn of_overtaken_ticks_none_the_last_or_each_is_admitted() {
        let now = T + 10_500;
        let none = at(Missed::None, now);
        let following_ms = Some(T + 11_000);
        let passes = Decision { next_ms: T, from_ms: T + 10_301, until_ms: None, ..none };
        assert_eq!(none, Decision { admits: false, following_ms, ..passes });
        assert_eq!(at(Missed::Last, now), admits(T + 10_000, Some(T + 11_000), T + 11_000));
        assert_eq!(at(Missed::All, now), admits(T, None, T + 1_000));
        // Within the tolerance the last one is on time, and those before it are not.
        let on_time = admits(T + 10_000, Some(T + 10_301), T + 11_000);
        assert_eq!(at(Missed::None, T + 10_200), on_time);
    }

    #[test]
    fn many_ticks_are_walked_in_bounded_steps_and_none_is_lost_on_the_way() {
        let timing = Timing::cron("* * * * * *", "UTC").unwrap();
        let now = T + 2_500_500;
        let mut next_ms = T;
        let mut steps = 0;
        let last = loop {
            let decision = decide(&timing, Missed::Last, 300, next_ms, now);
            assert_eq!(decision.next_ms, next_ms);
            if decision.admits {
                break decision;
            }
            // Only what was overtaken by a later tick is passed over.
            assert!(decision.following_ms.is_some_and(|following| following <= now));
            assert_eq!(Some(decision.from_ms), decision.following_ms);
            next_ms = decision.following_ms.unwrap();
            steps += 1;
        };
        assert_eq!((last.from_ms, last.following_ms), (T + 2_500_000, Some(T + 2_501_000)));
        assert_eq!(steps, 2);
    }

    #[test]
    fn a_tick_off_the_grid_is_admitted_as_it_stands() {
        // Another version, or another timing, may have set it.
        let timing = Timing::every(Duration::from_secs(1)).unwrap();
        let decision = decide(&timing, Missed::Last, 300, T + 250, T + 600);
        assert_eq!((decision.from_ms, decision.following_ms), (T + 250, Some(T + 1_000)));
        assert!(decision.admits);
    }

    #[test]
    fn the_last_tick_of_all_has_no_follower() {
        let timing = Timing::every(Duration::from_secs(86_400)).unwrap();
        let last = timing.last_until(T, emq_keys::MAX_UNIX_MS, 0).0;
        for missed in [Missed::None, Missed::Last, Missed::All] {
            let decision = decide(&timing, missed, 300, last, last);
            assert_eq!((decision.from_ms, decision.admits), (last, true), "{missed:?}");
            assert_eq!(decision.following_ms, None);
        }
    }
}
