//! When a schedule ticks.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use emq_keys::{EPOCH_MS, MAX_UNIX_MS};

use super::cron::CronTiming;

/// The shortest and the longest interval.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_secs(366 * 86_400);

/// When a schedule ticks: at fixed intervals, or by a cron expression in a time zone.
///
/// It answers the same on every machine: a tick follows from the timing and the moment alone.
///
/// # Changes of the clock
/// A cron expression speaks of local time, and local time has gaps and repeats.
///
/// * An expression with one fixed second, minute and hour ticks **once a day that it names**: where
///   its local time is skipped, at the first moment after the gap; where it is repeated, at the
///   first of the two.
/// * Any other expression, one with `*`, a range, a list or a step in them, follows local time as it
///   comes: nothing in the gap, and in a repeated hour all of it twice.
///
/// ```
/// use std::time::Duration;
/// use emq_core::Timing;
///
/// let nightly = Timing::cron("30 2 * * *", "Europe/Berlin")?;
/// let often = Timing::every(Duration::from_secs(90))?;
/// assert_eq!(often.after(1_800_000_000_000), Some(1_800_000_090_000));
/// assert_eq!(nightly.to_string(), "cron Europe/Berlin 30 2 * * *");
/// assert_eq!(nightly.to_string().parse::<Timing>()?, nightly);
/// # Ok::<(), emq_core::TimingError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Timing(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Every { interval_ms: u64, offset_ms: u64 },
    Cron(Arc<CronTiming>),
}

/// Why something is no [`Timing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimingError {
    /// The interval is out of range, or no whole number of milliseconds.
    #[error("an interval is 10 ms to 366 days, in whole milliseconds")]
    Interval,
    /// The offset isn't below the interval, or no whole number of milliseconds.
    #[error("an offset is shorter than the interval, in whole milliseconds")]
    Offset,
    /// No cron expression.
    #[error("`{expression}` is no cron expression: {reason}")]
    Cron {
        /// What was given.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No such time zone.
    #[error("there is no time zone `{zone}`; the name is one of IANA's, such as Europe/Berlin")]
    Zone {
        /// What was given.
        zone: String,
    },
    /// It ticks never.
    #[error("`{timing}` never ticks")]
    Never {
        /// What was given.
        timing: String,
    },
    /// Not the text of a timing that this version knows.
    #[error(
        "`{text}` is no timing that this version knows: `every <ms> <ms>` or `cron <zone> ...`"
    )]
    Text {
        /// What was given.
        text: String,
    },
}

impl Timing {
    /// Ticks at fixed intervals of 10 ms to 366 days: at each moment whose unix time is a multiple of
    /// the interval, so every scheduler finds the same ones, and an hour's interval ticks on the
    /// hour of UTC.
    ///
    /// # Errors
    /// [`TimingError::Interval`] for one out of range or with a part of a millisecond.
    pub fn every(interval: Duration) -> Result<Timing, TimingError> {
        let range = INTERVAL_MIN..=INTERVAL_MAX;
        let interval_ms = whole_ms(interval).filter(|_| range.contains(&interval));
        let interval_ms = interval_ms.ok_or(TimingError::Interval)?;
        Ok(Timing(Kind::Every { interval_ms, offset_ms: 0 }))
    }

    /// Ticks by so much later than the multiples of the interval. Of use to spread schedules of the
    /// same interval. A cron timing is left as it is.
    ///
    /// # Errors
    /// [`TimingError::Offset`] for one that isn't below the interval or has a part of a millisecond.
    pub fn offset(self, offset: Duration) -> Result<Timing, TimingError> {
        let Kind::Every { interval_ms, .. } = self.0 else { return Ok(self) };
        let offset_ms = whole_ms(offset).filter(|offset| *offset < interval_ms);
        let offset_ms = offset_ms.ok_or(TimingError::Offset)?;
        Ok(Timing(Kind::Every { interval_ms, offset_ms }))
    }

    /// Ticks where a cron expression holds in a time zone of IANA's, such as `Europe/Berlin` or
    /// `UTC`. The expression has five fields (minute, hour, day of the month, month, day of the
    /// week), or six that begin with seconds, or is one of `@hourly`, `@daily`, `@weekly`,
    /// `@monthly` and `@yearly`.
    ///
    /// # Errors
    /// [`TimingError::Cron`] and [`TimingError::Zone`] say what isn't understood;
    /// [`TimingError::Never`] is one that no day fulfils, such as a 30th of February.
    pub fn cron(expression: &str, zone: &str) -> Result<Timing, TimingError> {
        let timing = Timing(Kind::Cron(Arc::new(CronTiming::new(expression, zone)?)));
        match timing.after(EPOCH_MS) {
            Some(_) => Ok(timing),
            None => Err(TimingError::Never { timing: timing.to_string() }),
        }
    }

    /// The first tick after a moment, both in unix milliseconds; `None` when there is none that a
    /// job's id can carry (from 2024 to 2093).
    #[must_use]
    pub fn after(&self, unix_ms: u64) -> Option<u64> {
        let unix_ms = unix_ms.max(EPOCH_MS - 1);
        let next_ms = match &self.0 {
            Kind::Every { interval_ms, offset_ms } => {
                let whole = unix_ms.saturating_sub(*offset_ms) / interval_ms;
                (whole + 1).checked_mul(*interval_ms)?.checked_add(*offset_ms)?
            }
            Kind::Cron(cron) => cron.after(unix_ms)?,
        };
        (next_ms <= MAX_UNIX_MS).then_some(next_ms)
    }

    /// The last tick up to a moment, and the one that follows it, from a tick that is not later than
    /// the moment. Intervals are counted; of others at most `steps` are walked, so it may be an
    /// earlier one.
    pub(super) fn last_until(&self, tick: u64, unix_ms: u64, steps: usize) -> (u64, Option<u64>) {
        if let Kind::Every { interval_ms, offset_ms } = &self.0 {
            // `tick` may stem from another version, so this counts on the grid.
            let whole = unix_ms.saturating_sub(*offset_ms) / interval_ms;
            return ((whole * interval_ms + offset_ms).max(tick), self.after(unix_ms));
        }
        let mut last = tick;
        for _ in 0..steps {
            match self.after(last) {
                Some(next) if next <= unix_ms => last = next,
                next => return (last, next),
            }
        }
        (last, self.after(last))
    }
}

/// The form in which the timetable keeps it.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Every { interval_ms, offset_ms } => write!(f, "every {interval_ms} {offset_ms}"),
            Kind::Cron(cron) => write!(f, "cron {} {}", cron.zone_name(), cron.expression()),
        }
    }
}

impl FromStr for Timing {
    type Err = TimingError;

    fn from_str(text: &str) -> Result<Timing, TimingError> {
        let unknown = || TimingError::Text { text: text.to_owned() };
        let (kind, rest) = text.split_once(' ').ok_or_else(unknown)?;
        let (first, rest) = rest.split_once(' ').ok_or_else(unknown)?;
        match kind {
            "every" => {
                let ms = |digits: &str| digits.parse().map(Duration::from_millis);
                let (interval, offset) = (ms(first), ms(rest));
                let (Ok(interval), Ok(offset)) = (interval, offset) else { return Err(unknown()) };
                Timing::every(interval)?.offset(offset)
            }
            "cron" => Timing::cron(rest, first),
            _ => Err(unknown()),
        }
    }
}

fn whole_ms(time: Duration) -> Option<u64> {
    let whole = time.subsec_nanos().is_multiple_of(1_000_000);
    u64::try_from(time.as_millis()).ok().filter(|_| whole)
}

#[cfg(test)]
mod tests;
