//! How many jobs a row has, so that it takes about as long whoever plays it.

use super::side::{Rates, Side};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// About a second a row.
    Full,
    /// A third of that.
    Quick,
}

impl Extent {
    fn seconds(self) -> f64 {
        match self {
            Extent::Full => 1.0,
            Extent::Quick => 0.3,
        }
    }

    fn of<T>(self, full: T, quick: T) -> T {
        match self {
            Extent::Full => full,
            Extent::Quick => quick,
        }
    }
}

/// The order of a side's rate in a row of rates; `None` for the other rows.
#[must_use]
pub fn known_rate(rates: &Rates, asked: &str) -> Option<u32> {
    match asked {
        "enqueue_1by1" => Some(rates.enqueue[0]),
        "enqueue_50" => Some(rates.enqueue[1]),
        "enqueue_bulk" => Some(rates.enqueue[2]),
        "process_c1" => Some(rates.process[0]),
        "process_c10" => Some(rates.process[1]),
        "process_c50" => Some(rates.process[2]),
        "process_c200" => Some(rates.process[3]),
        "process_lanes" => Some(rates.lanes),
        _ => None,
    }
}

/// The size of a row of the protocol for a side.
#[must_use]
pub fn size(side: &Side, asked: &str, extent: Extent) -> usize {
    let n = match (known_rate(&side.rates, asked), asked) {
        (Some(rate), _) => rounded(f64::from(rate) * extent.seconds()),
        (None, "idle_pickup_ms") => extent.of(500, 150),
        (None, "bytes_a_job") => extent.of(20_000, 5_000),
        (None, "fairness") => extent.of(10_000, 4_000),
        // Some hundred milliseconds of work, most of which shall lie behind the kill.
        (None, "recovery") => rounded(f64::from(side.rates.process[1]) * 0.5).clamp(400, 2_000),
        (None, _) => 100,
    };
    n.min(side.rates.backlog_at_most)
}

/// To two figures, and to whole bulk calls where there are any.
fn rounded(n: f64) -> usize {
    let step = [1_000, 100, 10].into_iter().find(|step| n >= 5.0 * f64::from(*step));
    let step = f64::from(step.unwrap_or(1));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let n = ((n / step).round() * step) as usize;
    n.max(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_follows_the_known_rate_and_the_extent() {
        let oban = Side::named("oban").unwrap();
        assert_eq!(size(oban, "process_c1", Extent::Full), 110);
        assert_eq!(size(oban, "enqueue_bulk", Extent::Full), 20_000);
        assert_eq!(size(oban, "process_c1", Extent::Quick), 33);
        assert_eq!(size(oban, "idle_pickup_ms", Extent::Quick), 150);
    }

    #[test]
    fn no_backlog_is_larger_than_a_worker_bears() {
        let apalis = Side::named("apalis-redis").unwrap();
        assert_eq!(size(apalis, "process_c50", Extent::Full), 7_000);
    }
}
