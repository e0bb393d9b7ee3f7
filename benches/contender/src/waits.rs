//! Latencies of one row.

use std::time::Duration;

/// How long each job waited, in the order of enqueueing.
#[derive(Debug, Default)]
pub struct Waits(Vec<Duration>);

impl Waits {
    /// Adds the next job's wait.
    pub fn add(&mut self, wait: Duration) {
        self.0.push(wait);
    }

    /// Throws away the first fifth, which warms up, and answers the p50 and p99 of the rest in
    /// milliseconds; `None` when nothing is left.
    #[must_use]
    pub fn p50_p99_ms(mut self) -> Option<(f64, f64)> {
        self.0.drain(..self.0.len() / 5);
        self.0.sort_unstable();
        let last = self.0.len().checked_sub(1)?;
        let at = |percent: usize| self.0[last * percent / 100].as_secs_f64() * 1e3;
        Some((at(50), at(99)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fifth_is_thrown_away() {
        let mut waits = Waits::default();
        for ms in (0..25).map(|_| 900).chain(1..=100) {
            waits.add(Duration::from_millis(ms));
        }
        assert_eq!(waits.p50_p99_ms(), Some((50.0, 99.0)));
        assert_eq!(Waits::default().p50_p99_ms(), None);
    }
}
