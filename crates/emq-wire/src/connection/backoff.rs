//! How long to wait before the next attempt to connect.

use std::time::Duration;

use crate::config::Reconnect;

/// A random part ("full jitter") of a bound that doubles with each attempt up to the cap.
/// Attempts count from 1.
pub(crate) fn pause(reconnect: &Reconnect, attempt: u32) -> Duration {
    let ceiling = ceiling(reconnect, attempt);
    // In nanoseconds of 64 bits: five centuries are enough, and nothing overflows.
    let nanos = u64::try_from(ceiling.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(fastrand::u64(0..=nanos))
}

fn ceiling(reconnect: &Reconnect, attempt: u32) -> Duration {
    let factor = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
    reconnect.base.saturating_mul(factor).min(reconnect.cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_doubles_up_to_the_cap_and_never_overflows() {
        let millis = Duration::from_millis;
        let reconnect = Reconnect { base: millis(10), cap: millis(50), ..Reconnect::default() };
        let bounds: Vec<_> = (1..6).map(|attempt| ceiling(&reconnect, attempt)).collect();
        assert_eq!(bounds, [10, 20, 40, 50, 50].map(millis));
        for attempt in [0, 1, 31, 32, 33, u32::MAX] {
            assert!(pause(&reconnect, attempt) <= millis(50));
            let endless = Reconnect { cap: Duration::MAX, base: Duration::MAX, ..reconnect };
            let _ = pause(&endless, attempt);
        }
    }

    #[test]
    fn the_jitter_is_full() {
        let second = Duration::from_secs(1);
        let reconnect = Reconnect { base: second, cap: second, ..Reconnect::default() };
        let pauses: Vec<_> = (0..1000).map(|_| pause(&reconnect, 1)).collect();
        assert!(pauses.iter().any(|pause| *pause < second / 10));
        assert!(pauses.iter().any(|pause| *pause > second * 9 / 10));
    }
}
