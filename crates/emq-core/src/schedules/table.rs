//! The schedules of one queue: what an operator does with them.

use emq_scripts::{
    CallError, RefusalClass, Removed, Switched, TimetablePause, TimetablePaused, TimetablePut,
    TimetableRemove, TimetableWritten,
};
use emq_wire::{Cmd, Reply};

use super::clock::ServerClock;
use super::definition::{Ids, Schedule, check_name};
use super::error::ScheduleError;
use super::record::{ScheduleRecord, read_cmd};
use crate::error::Error;
use crate::outcome::Enqueued;
use crate::queue::{Queue, misread};

/// How often a change is tried whose first tick has passed when it arrives, or that others overtake.
const TRIES: u32 = 8;
/// How many schedules are read with one command each in one submission.
const PAGE: usize = 100;

/// The schedules of one queue: [`Schedules::queue`](super::Schedules::queue).
#[derive(Clone, Debug)]
pub struct QueueSchedules {
    queue: Queue,
}

/// What putting a schedule came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is new.
    Added,
    /// Its definition is another one now. A new timing starts at its first tick from now; otherwise
    /// the next tick stays.
    Changed,
    /// It was so already; nothing was written.
    Same,
}

impl QueueSchedules {
    pub(super) fn new(queue: Queue) -> QueueSchedules {
        QueueSchedules { queue }
    }

    /// The queue that its jobs go to.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Puts a schedule: a new one, or another definition for one of this name. Putting what is there
    /// changes nothing, so a program can put all its schedules whenever it starts. One that is
    /// paused stays so.
    ///
    /// # Errors
    /// [`ScheduleError::Clash`], [`ScheduleError::Full`] and [`ScheduleError::Over`] in
    /// [`Error::Schedule`]; [`Error::PayloadTooLarge`] and [`Error::Setting`] before anything is
    /// sent; see [`Error`].
    pub async fn put(&self, schedule: &Schedule) -> Result<Put, Error> {
        schedule.check()?;
        self.queue.bus().check_payload(schedule.job_payload().len())?;
        let name = schedule.name();
        let (timing, options) = (schedule.timing().to_string(), schedule.options());
        let mark = Ids::new(self.queue.name(), name).mark();
        let mut after_ms = self.clock().await?.now_ms();
        for tries in 0..TRIES {
            // A short interval may tick while this is on its way.
            let lead_ms = (1 << tries) - 1;
            let next_ms = schedule.timing().after(after_ms + lead_ms);
            let next_ms = next_ms.ok_or_else(|| ScheduleError::Over { name: name.to_owned() })?;
            let (timing, options) = (timing.as_str(), options.as_str());
            let payload = schedule.job_payload();
            let call = TimetablePut { name, mark, timing, options, payload, next_ms };
            let set = self.queue.call(&call).await.map_err(|error| refused_put(name, error))?;
            match set.verdict {
                TimetableWritten::New => return Ok(Put::Added),
                TimetableWritten::Changed => return Ok(Put::Changed),
                TimetableWritten::Same => return Ok(Put::Same),
                TimetableWritten::Past => after_ms = set.after_ms,
            }
        }
        Err(ScheduleError::Contended { name: name.to_owned() }.into())
    }

    /// A schedule; `None` when there is none of this name.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get(&self, name: &str) -> Result<Option<ScheduleRecord>, Error> {
        check_name(name)?;
        let reply = self.queue.read(read_cmd(self.queue.keys().timetable(), name)).await?;
        match &reply {
            Reply::Array(_) => Ok(ScheduleRecord::read(name, &reply)),
            other => Err(misread("HMGET", other)),
        }
    }

    /// All of them, by name. Each is as it stood at one moment; together they are no snapshot.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list(&self) -> Result<Vec<ScheduleRecord>, Error> {
        let timetable = self.queue.keys().timetable();
        let fields = self.queue.read(Cmd::new("HKEYS").arg(timetable)).await?;
        let fields = match &fields {
            Reply::Array(fields) | Reply::Set(fields) => fields,
            other => return Err(misread("HKEYS", other)),
        };
        let mut names: Vec<&str> = fields
            .iter()
            .filter_map(|field| std::str::from_utf8(field.as_bytes()?).ok()?.strip_suffix(":rev"))
            .filter(|name| check_name(name).is_ok())
            .collect();
        names.sort_unstable();
        let mut records = Vec::with_capacity(names.len());
        for page in names.chunks(PAGE) {
            let cmds = page.iter().map(|name| read_cmd(timetable, name)).collect();
            let replies = self.queue.read_all(cmds).await?;
            for (name, reply) in page.iter().zip(&replies) {
                if let Reply::Error(_) = reply {
                    return Err(misread("HMGET", reply));
                }
                records.extend(ScheduleRecord::read(name, reply));
            }
        }
        Ok(records)
    }

    /// Pauses one: it ticks no more until it is resumed.
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`] in [`Error::Schedule`]; see [`Error`].
    pub async fn pause(&self, name: &str) -> Result<Switched, Error> {
        check_name(name)?;
        let call = TimetablePause { name, resume: None };
        let set = self.queue.call(&call).await.map_err(Error::of_queue)?;
        match set.verdict {
            TimetablePaused::Already => Ok(Switched::Already),
            TimetablePaused::Unknown => Err(unknown(name)),
            _ => Ok(Switched::Changed),
        }
    }

    /// Resumes one at its first tick from now. What the pause passed over isn't made up.
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`] and [`ScheduleError::Unreadable`] in [`Error::Schedule`]; see
    /// [`Error`].
    pub async fn resume(&self, name: &str) -> Result<Switched, Error> {
        let mut after_ms = self.clock().await?.now_ms();
        for tries in 0..TRIES {
            let record = self.get(name).await?.ok_or_else(|| unknown(name))?;
            if !record.paused {
                return Ok(Switched::Already);
            }
            let lead_ms = (1 << tries) - 1;
            let next_ms = record.schedule?.timing().after(after_ms + lead_ms);
            let call = TimetablePause { name, resume: Some((record.revision, next_ms)) };
            let set = self.queue.call(&call).await.map_err(Error::of_queue)?;
            match set.verdict {
                TimetablePaused::Done => return Ok(Switched::Changed),
                TimetablePaused::Already => return Ok(Switched::Already),
                TimetablePaused::Unknown => return Err(unknown(name)),
                TimetablePaused::Past | TimetablePaused::Changed => after_ms = set.after_ms,
            }
        }
        Err(ScheduleError::Contended { name: name.to_owned() }.into())
    }

    /// Takes one out of the timetable. Jobs that its ticks admitted stay.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn remove(&self, name: &str) -> Result<Removed, Error> {
        check_name(name)?;
        let gone = self.queue.call(&TimetableRemove { name }).await.map_err(Error::of_queue)?;
        Ok(if gone { Removed::Done } else { Removed::NoRow })
    }

    /// Enqueues a job of it now, beside its ticks, also while it is paused: under a fresh id, with
    /// the payload and all that is said about its jobs.
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`] and [`ScheduleError::Unreadable`] in [`Error::Schedule`];
    /// otherwise as [`Queue::enqueue`].
    pub async fn run_now(&self, name: &str) -> Result<Enqueued, Error> {
        let record = self.get(name).await?.ok_or_else(|| unknown(name))?;
        let schedule = record.schedule?;
        let (lane, options) = (schedule.job_lane(), schedule.enqueue_options());
        self.queue.enqueue_into(lane, schedule.job_payload(), &options).await
    }

    async fn clock(&self) -> Result<ServerClock, Error> {
        let reply = self.queue.read(Cmd::new("TIME")).await?;
        ServerClock::of_time(&reply).ok_or_else(|| misread("TIME", &reply))
    }
}

fn unknown(name: &str) -> Error {
    ScheduleError::Unknown { name: name.to_owned() }.into()
}

fn refused_put(name: &str, error: CallError) -> Error {
    match error.refusal() {
        Some(RefusalClass::State) => ScheduleError::Clash { name: name.to_owned() }.into(),
        Some(RefusalClass::Limit) => ScheduleError::Full.into(),
        _ => Error::of_queue(error),
    }
}
