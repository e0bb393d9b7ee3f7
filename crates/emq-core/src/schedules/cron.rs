//! Cron expressions in a time zone.
//!
//! The zone's rules are those that were built in, so that two machines with different system
//! tables agree; the search is croner's, over the calendar of jiff.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use croner::{CivilDate, CivilDateTime, CivilTime, CronDateTime, Resolution, Weekday};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ZonedDateTime};

use super::timing::TimingError;

/// The most bytes of an expression; one that names each value of each field has fewer.
const EXPRESSION_MAX: usize = 800;

/// An expression and its zone.
#[derive(Clone)]
pub(super) struct CronTiming {
    cron: croner::Cron,
    zone: TimeZone,
    /// As they were given, but for spaces.
    expression: String,
    zone_name: String,
}

impl CronTiming {
    pub(super) fn new(expression: &str, zone_name: &str) -> Result<CronTiming, TimingError> {
        static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
        let zone = ZONES.get(zone_name);
        let zone = zone.map_err(|_| TimingError::Zone { zone: zone_name.to_owned() })?;
        let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
        let wrong = |reason| TimingError::Cron { expression: expression.clone(), reason };
        if expression.len() > EXPRESSION_MAX {
            return Err(wrong(format!("it is longer than {EXPRESSION_MAX} bytes")));
        }
        let parser =
            CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(&expression).map_err(|error| wrong(error.to_string()))?;
        Ok(CronTiming { cron, zone, expression, zone_name: zone_name.to_owned() })
    }

    /// The first tick after a moment, both in unix milliseconds.
    pub(super) fn after(&self, unix_ms: u64) -> Option<u64> {
        // A tick is at a whole second, so the fraction of one makes no difference.
        let second = i64::try_from(unix_ms / 1_000).ok()?;
        let from = Timestamp::from_second(second).ok()?.to_zoned_datetime(self.zone.clone());
        let next = self.cron.find_next_occurrence(&Moment(from), false).ok()?;
        let next_ms = u64::try_from(next.0.timestamp().as_millisecond()).ok()?;
        (next_ms > unix_ms).then_some(next_ms)
    }

    pub(super) fn expression(&self) -> &str {
        &self.expression
    }

    pub(super) fn zone_name(&self) -> &str {
        &self.zone_name
    }
}

impl PartialEq for CronTiming {
    fn eq(&self, other: &CronTiming) -> bool {
        (&self.expression, &self.zone_name) == (&other.expression, &other.zone_name)
    }
}

impl fmt::Debug for CronTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cron").field(&self.expression).field(&self.zone_name).finish()
    }
}

/// jiff's moments, as croner walks over them.
#[derive(Clone)]
struct Moment(ZonedDateTime);

impl CronDateTime for Moment {
    fn to_civil(&self) -> CivilDateTime {
        let time = self.0.datetime();
        let unsigned = |part: i8| u32::from(part.unsigned_abs());
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(
                i32::from(time.year()),
                unsigned(time.month()),
                unsigned(time.day()),
            ),
            CivilTime::from_parts_unchecked(
                unsigned(time.hour()),
                unsigned(time.minute()),
                unsigned(time.second()),
            ),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        let days = self.0.weekday().to_sunday_zero_offset();
        Weekday::from_days_from_sunday(u32::from(days.unsigned_abs()))
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Moment>, CronError> {
        let time = datetime(civil).ok_or(CronError::InvalidDate)?;
        let found = self.0.time_zone().to_ambiguous_zoned_datetime(time);
        let resolution = match found.offset() {
            AmbiguousOffset::Unambiguous { .. } => {
                found.unambiguous().map(|at| Resolution::Single(Moment(at)))
            }
            AmbiguousOffset::Fold { .. } => found.clone().earlier().and_then(|earlier| {
                Ok(Resolution::Ambiguous(Moment(earlier), Moment(found.later()?)))
            }),
            AmbiguousOffset::Gap { .. } => Ok(Resolution::Gap),
        };
        resolution.map_err(|_| CronError::InvalidTime)
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Moment> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Moment)
    }

    fn cmp_instant(&self, other: &Moment) -> Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}

fn datetime(civil: CivilDateTime) -> Option<DateTime> {
    let part = |part: u32| i8::try_from(part).ok();
    DateTime::new(
        i16::try_from(civil.year()).ok()?,
        part(civil.month())?,
        part(civil.day())?,
        part(civil.hour())?,
        part(civil.minute())?,
        part(civil.second())?,
        0,
    )
    .ok()
}
