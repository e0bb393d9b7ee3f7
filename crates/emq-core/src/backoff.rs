//! How long a failed job waits for its next attempt.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest delay that the scripts take, with room to spare: about 34 years.
pub(crate) const DELAY_MAX: Duration = Duration::from_millis(1 << 40);
const CAP_DEFAULT: Duration = Duration::from_secs(3_600);

/// How long a failed job waits for its next attempt.
///
/// The attempt is the number of the one that just failed, from 1: the job's token.
///
/// ```
/// use std::time::Duration;
/// use emq_core::Backoff;
///
/// let seconds = Duration::from_secs;
/// let backoff = Backoff::exponential(seconds(1)).cap(seconds(60));
/// assert_eq!(backoff.delay(1), seconds(1));
/// assert_eq!(backoff.delay(4), seconds(8));
/// assert_eq!(backoff.delay(400), seconds(60));
/// assert!(backoff.full_jitter().delay(4) <= seconds(8));
/// ```
#[derive(Clone)]
#[must_use]
pub struct Backoff {
    shape: Shape,
    jitter: Jitter,
    cap: Duration,
}

#[derive(Clone)]
enum Shape {
    Fixed(Duration),
    Linear(Duration),
    Exponential(Duration),
    Custom(Arc<dyn Fn(u64) -> Duration + Send + Sync>),
}

#[derive(Clone, Copy, Debug)]
enum Jitter {
    None,
    Full,
    Equal,
}

impl Default for Backoff {
    /// From a second on, doubling up to an hour, with equal jitter.
    fn default() -> Self {
        Backoff::exponential(Duration::from_secs(1)).equal_jitter()
    }
}

impl Backoff {
    /// The same delay each time.
    pub fn fixed(delay: Duration) -> Backoff {
        Backoff::new(Shape::Fixed(delay))
    }

    /// `step`, 2 `step`, 3 `step`, ...
    pub fn linear(step: Duration) -> Backoff {
        Backoff::new(Shape::Linear(step))
    }

    /// `base`, 2 `base`, 4 `base`, ...
    pub fn exponential(base: Duration) -> Backoff {
        Backoff::new(Shape::Exponential(base))
    }

    /// What a function says of the attempt that failed.
    pub fn custom(delay: impl Fn(u64) -> Duration + Send + Sync + 'static) -> Backoff {
        Backoff { cap: DELAY_MAX, ..Backoff::new(Shape::Custom(Arc::new(delay))) }
    }

    fn new(shape: Shape) -> Backoff {
        Backoff { shape, jitter: Jitter::None, cap: CAP_DEFAULT }
    }

    /// The longest delay, an hour unless said.
    pub fn cap(mut self, cap: Duration) -> Self {
        self.cap = cap.min(DELAY_MAX);
        self
    }

    /// Anything between nothing and the delay: spreads a crowd the most.
    pub fn full_jitter(mut self) -> Self {
        self.jitter = Jitter::Full;
        self
    }

    /// Half of the delay, and anything up to the other half.
    pub fn equal_jitter(mut self) -> Self {
        self.jitter = Jitter::Equal;
        self
    }

    /// The delay after the given attempt failed.
    #[must_use]
    pub fn delay(&self, attempt: u64) -> Duration {
        let attempt = attempt.max(1);
        let times = |delay: Duration, factor: u64| {
            delay.saturating_mul(u32::try_from(factor).unwrap_or(u32::MAX))
        };
        let delay = match &self.shape {
            Shape::Fixed(delay) => *delay,
            Shape::Linear(step) => times(*step, attempt),
            Shape::Exponential(base) => times(*base, 1 << (attempt - 1).min(31)),
            Shape::Custom(delay) => delay(attempt),
        };
        let delay = delay.min(self.cap);
        match self.jitter {
            Jitter::None => delay,
            Jitter::Full => delay.mul_f64(fastrand::f64()),
            Jitter::Equal => delay / 2 + (delay / 2).mul_f64(fastrand::f64()),
        }
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, of) = match &self.shape {
            Shape::Fixed(delay) => ("fixed", Some(delay)),
            Shape::Linear(step) => ("linear", Some(step)),
            Shape::Exponential(base) => ("exponential", Some(base)),
            Shape::Custom(_) => ("custom", None),
        };
        f.debug_struct("Backoff")
            .field("shape", &shape)
            .field("of", &of)
            .field("jitter", &self.jitter)
            .field("cap", &self.cap)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn each_shape_grows_as_it_says_and_stops_at_its_cap() {
        let three = |backoff: &Backoff| [1, 2, 3].map(|attempt| backoff.delay(attempt));
        assert_eq!(three(&Backoff::fixed(S)), [S, S, S]);
        assert_eq!(three(&Backoff::linear(S)), [S, 2 * S, 3 * S]);
        assert_eq!(three(&Backoff::exponential(S)), [S, 2 * S, 4 * S]);
        assert_eq!(three(&Backoff::custom(|n| S * (10 - n as u32))), [9 * S, 8 * S, 7 * S]);
        for backoff in [Backoff::linear(S), Backoff::exponential(S)] {
            assert_eq!(backoff.delay(u64::MAX), CAP_DEFAULT);
            assert_eq!(backoff.cap(5 * S).delay(1_000), 5 * S);
        }
        assert_eq!(Backoff::custom(|_| Duration::MAX).delay(1), DELAY_MAX);
        assert_eq!(Backoff::fixed(Duration::MAX).cap(Duration::MAX).delay(0), DELAY_MAX);
    }

    #[test]
    fn jitter_stays_within_its_bounds() {
        for attempt in 1..200 {
            let full = Backoff::fixed(S).full_jitter().delay(attempt);
            assert!(full <= S, "{full:?}");
            let equal = Backoff::fixed(S).equal_jitter().delay(attempt);
            assert!(equal >= S / 2 && equal <= S, "{equal:?}");
        }
    }
}
