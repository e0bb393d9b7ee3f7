//! A schedule as the timetable has it.

use emq_wire::{Cmd, Reply};

use super::definition::Schedule;
use super::error::ScheduleError;

/// The fields of a schedule that are read together, at one instant.
const FIELDS: [&str; 7] = ["rev", "next", "last", "paused", "timing", "options", "payload"];

/// A schedule as it stood in the timetable at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScheduleRecord {
    /// Its name.
    pub name: String,
    /// Its definition; an error when this version doesn't understand it.
    pub schedule: Result<Schedule, ScheduleError>,
    /// When it ticks, in the timetable's words.
    pub timing: String,
    /// The revision of its definition. It rises with each change.
    pub revision: u64,
    /// Its next tick, in unix milliseconds of the server's clock; `None` when there is none to come.
    pub next_ms: Option<u64>,
    /// Its last tick that had a job, in unix milliseconds.
    pub last_ms: Option<u64>,
    /// Whether it is paused.
    pub paused: bool,
}

/// Reads one schedule of a timetable.
pub(super) fn read_cmd(timetable: &str, name: &str) -> Cmd {
    let cmd = Cmd::new("HMGET").arg(timetable);
    FIELDS.iter().fold(cmd, |cmd, field| cmd.arg(format!("{name}:{field}")))
}

impl ScheduleRecord {
    /// What a [`read_cmd`] was answered; `None` when there is no such schedule.
    pub(super) fn read(name: &str, reply: &Reply) -> Option<ScheduleRecord> {
        let [rev, next, last, paused, timing, options, payload] = reply.as_array()? else {
            return None;
        };
        let text = |reply: &Reply| {
            let bytes = reply.as_bytes()?;
            std::str::from_utf8(bytes).ok().map(str::to_owned)
        };
        let number = |reply: &Reply| text(reply)?.parse::<u64>().ok();
        let revision = number(rev)?;
        let timing = text(timing).unwrap_or_default();
        let options = options.as_bytes().cloned().unwrap_or_default();
        let payload = payload.as_bytes().cloned().unwrap_or_default();
        Some(ScheduleRecord {
            name: name.to_owned(),
            schedule: Schedule::read(name, &timing, &options, payload),
            timing,
            revision,
            next_ms: number(next).filter(|ms| *ms > 0),
            last_ms: number(last).filter(|ms| *ms > 0),
            paused: text(paused).is_none_or(|paused| paused != "0"),
        })
    }
}
