//! What is said about a schedule.

use std::time::Duration;

use bytes::Bytes;
use emq_keys::{BrandedId, EPOCH_MS, Namespace, QueueName};
use emq_scripts::{AdmitOptions, TimetablePut};
use serde::{Deserialize, Serialize};

use super::error::ScheduleError;
use super::timing::Timing;
use crate::error::Error;
use crate::payload::CodecError;
use crate::queue::EnqueueOptions;

/// The longest name, in bytes.
const NAME_MAX: usize = 128;
/// How late a tick may be and still be on time, unless said.
const TOLERANCE_DEFAULT: Duration = Duration::from_secs(30);
/// The longest tolerance.
const TOLERANCE_MAX: Duration = Duration::from_secs(366 * 86_400);

/// What becomes of ticks that no scheduler was there to admit.
///
/// A tick is missed when the next one is due as well; the last one that is due is missed when it is
/// later than the schedule's tolerance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    /// They are passed over.
    None,
    /// The last one has a job, however late; those before it are passed over.
    #[default]
    Last,
    /// Each has a job, the oldest first.
    All,
}

/// What recurs: a name, when it ticks, and what job each tick admits.
///
/// ```
/// use emq_core::{Missed, Schedule, Timing};
///
/// let report = Schedule::new("nightly", Timing::cron("30 2 * * *", "Europe/Berlin")?)?
///     .json(&("sales", 7))?
///     .kind("report")
///     .missed(Missed::Last);
/// assert_eq!(report.name(), "nightly");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Schedule {
    name: String,
    timing: Timing,
    said: Told,
    payload: Bytes,
}

/// What the timetable keeps as a JSON object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Told {
    missed: Missed,
    tolerance_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<BrandedId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<String>,
}

impl Schedule {
    /// A schedule whose jobs have an empty payload and nothing said about them. The name is 1 to 128
    /// bytes of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`.
    ///
    /// # Errors
    /// [`ScheduleError::Name`] when no schedule can be called so.
    pub fn new(name: impl Into<String>, timing: Timing) -> Result<Schedule, ScheduleError> {
        let name = name.into();
        check_name(&name)?;
        let tolerance_ms = Some(ms(TOLERANCE_DEFAULT));
        let said = Told { tolerance_ms, ..Told::default() };
        Ok(Schedule { name, timing, said, payload: Bytes::new() })
    }

    /// The payload of its jobs.
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }

    /// A value as the payload of its jobs, in JSON, as a [`TypedQueue`](crate::TypedQueue) reads it.
    ///
    /// # Errors
    /// [`Error::Codec`] when the value has no form in JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, Error> {
        Ok(self.payload(serde_json::to_vec(value).map_err(CodecError::encode)?))
    }

    /// What becomes of missed ticks; unless said, the last one has a job.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.said.missed = missed;
        self
    }

    /// How late a tick may be and still be on time, for [`Missed::None`]: 30 s unless said, at most
    /// 366 days.
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.said.tolerance_ms = Some(ms(tolerance.min(TOLERANCE_MAX)));
        self
    }

    /// The lane of its jobs; the flat set unless said.
    pub fn lane(mut self, lane: BrandedId) -> Self {
        self.said.lane = Some(lane);
        self
    }

    /// The name of the handler of its jobs.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.said.kind = Some(kind.into());
        self
    }

    /// Trace context and the like of its jobs, a JSON object.
    pub fn headers(mut self, headers: impl Into<String>) -> Self {
        self.said.headers = Some(headers.into());
        self
    }

    /// Its jobs' cap of attempts, 1 to 2^31.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.said.max_attempts = Some(attempts);
        self
    }

    /// A key that at most one job of the queue holds: while a job of it is there, ticks have no job.
    /// So runs of a schedule don't overlap or pile up.
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.said.unique = Some(key.into());
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it ticks.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// What becomes of missed ticks.
    #[must_use]
    pub fn missed_ticks(&self) -> Missed {
        self.said.missed
    }

    /// The payload of its jobs.
    #[must_use]
    pub fn job_payload(&self) -> &Bytes {
        &self.payload
    }

    /// The lane of its jobs; `None` for the flat set.
    #[must_use]
    pub fn job_lane(&self) -> Option<BrandedId> {
        self.said.lane
    }

    /// The name of the handler of its jobs.
    #[must_use]
    pub fn job_kind(&self) -> Option<&str> {
        self.said.kind.as_deref()
    }

    pub(super) fn tolerance_ms(&self) -> u64 {
        self.said.tolerance_ms.unwrap_or(ms(TOLERANCE_DEFAULT))
    }

    pub(super) fn admit(&self) -> AdmitOptions<'_> {
        AdmitOptions {
            kind: self.said.kind.as_deref(),
            headers: self.said.headers.as_deref(),
            max_attempts: self.said.max_attempts,
            unique: self.said.unique.as_deref(),
        }
    }

    /// What a job of it is enqueued with, outside of its ticks.
    pub(super) fn enqueue_options(&self) -> EnqueueOptions {
        let mut options = EnqueueOptions::new();
        if let Some(kind) = &self.said.kind {
            options = options.kind(kind);
        }
        if let Some(headers) = &self.said.headers {
            options = options.headers(headers);
        }
        if let Some(attempts) = self.said.max_attempts {
            options = options.max_attempts(attempts);
        }
        if let Some(key) = &self.said.unique {
            options = options.unique(key);
        }
        options
    }

    /// What the timetable keeps beside timing and payload.
    pub(super) fn options(&self) -> String {
        serde_json::to_string(&self.said).expect("texts and numbers have a form in JSON")
    }

    /// A schedule as the timetable has it.
    pub(super) fn read(
        name: &str,
        timing: &str,
        options: &[u8],
        payload: Bytes,
    ) -> Result<Schedule, ScheduleError> {
        let unreadable = |reason: String| {
            let name = name.to_owned();
            ScheduleError::Unreadable { name, reason }
        };
        let timing = timing.parse().map_err(|error| unreadable(format!("{error}")))?;
        let said =
            serde_json::from_slice(options).map_err(|error| unreadable(error.to_string()))?;
        Ok(Schedule { name: name.to_owned(), timing, said, payload })
    }

    /// Refuses what the scripts would refuse at each tick.
    pub(super) fn check(&self) -> Result<(), Error> {
        let texts = [("kind", &self.said.kind), ("headers", &self.said.headers)];
        let texts = texts.into_iter().chain([("unique", &self.said.unique)]);
        for (what, text) in texts {
            if text.as_ref().is_some_and(String::is_empty) {
                return Err(Error::Setting { what, range: "not empty" });
            }
        }
        if self.said.max_attempts.is_some_and(|cap| cap == 0 || cap > 1 << 31) {
            return Err(Error::Setting { what: "max_attempts", range: "1 to 2^31" });
        }
        if self.options().len() > TimetablePut::MAX_OPTIONS_BYTES {
            return Err(Error::Setting { what: "headers", range: "less than 64 KiB" });
        }
        Ok(())
    }
}

/// What the ids of a schedule's jobs are derived from.
#[derive(Clone, Debug)]
pub(super) struct Ids(String);

impl Ids {
    /// Queue and schedule together: a store that absorbs the jobs of two queues must not take one
    /// for the other. Neither of the two can hold a slash.
    pub(super) fn new(queue: &QueueName, name: &str) -> Ids {
        Ids(format!("{queue}/{name}"))
    }

    /// The job of a tick; `None` for a time that no id can carry.
    pub(super) fn of_tick(&self, tick_ms: u64) -> Option<BrandedId> {
        BrandedId::derive_at(Namespace::JOB, tick_ms, self.0.as_bytes()).ok()
    }

    /// The low 22 bits of all its ids.
    pub(super) fn mark(&self) -> u32 {
        let id = self.of_tick(EPOCH_MS).expect("the epoch has ids");
        u32::try_from(id.snowflake() & ((1 << 22) - 1)).expect("22 bits")
    }
}

pub(super) fn check_name(name: &str) -> Result<(), ScheduleError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(fits) {
        Ok(())
    } else {
        Err(ScheduleError::Name { name: name.to_owned() })
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
