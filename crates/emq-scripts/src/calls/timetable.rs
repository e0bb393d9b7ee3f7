//! The timetable: schedules are put into it, paused, resumed and removed.

use emq_keys::QueueKeys;
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin, push_flag, push_u64};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// Puts a schedule into the timetable, or another definition for a name that is there. What is as
/// it was keeps its revision; a timing that is as it was keeps its next tick.
///
/// A name whose jobs would have the ids of another schedule's is refused with
/// [`RefusalClass::State`], the thousand-and-first one of a queue with [`RefusalClass::Limit`].
#[derive(Clone, Copy)]
pub struct TimetablePut<'a> {
    /// Its name: 1 to 128 bytes of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`.
    pub name: &'a str,
    /// The low 22 bits of the ids of its jobs.
    pub mark: u32,
    /// When it ticks, 1 to 1,024 bytes for the schedulers to read.
    pub timing: &'a str,
    /// What else schedulers have to know, a JSON object of at most 65,536 bytes.
    pub options: &'a str,
    /// The payload of its jobs.
    pub payload: &'a [u8],
    /// Its first tick, in unix milliseconds; it must be to come.
    pub next_ms: u64,
}

impl TimetablePut<'_> {
    /// The longest timing, in bytes.
    pub const MAX_TIMING_BYTES: usize = 1_024;
    /// The longest options, in bytes.
    pub const MAX_OPTIONS_BYTES: usize = 65_536;
    /// The most schedules of a queue.
    pub const MAX_SCHEDULES: usize = 1_000;
}

/// Where a schedule stands after a call that was about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimetableSet<V> {
    /// What the call came to.
    pub verdict: V,
    /// The revision of its definition; `None` when there is no such schedule.
    pub revision: Option<u64>,
    /// Its next tick, in unix milliseconds; `None` when there is none.
    pub next_ms: Option<u64>,
    /// A first tick must be later than this, in unix milliseconds of the server's clock.
    pub after_ms: u64,
}

/// What a [`TimetablePut`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimetableWritten {
    /// It is new.
    New,
    /// The definition is another one now.
    Changed,
    /// It was so already.
    Same,
    /// The first tick is not to come (any more). Nothing was written.
    Past,
}

/// What a [`TimetablePause`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimetablePaused {
    /// It is paused now, or resumed.
    Done,
    /// It was so already.
    Already,
    /// The next tick given is not to come (any more). Nothing was written.
    Past,
    /// There is no such schedule.
    Unknown,
    /// The definition is another one now. Nothing was written.
    Changed,
}

impl ScriptCall for TimetablePut<'_> {
    type Reply = TimetableSet<TimetableWritten>;

    const CONTRACT: Contract = Contract {
        script: ScriptName::TimetablePut,
        keys: &[key::TIMETABLE],
        args: &["name", "mark", "timing", "options", "payload", "next_ms"],
        tail: None,
        returns: "{verdict, rev, next_ms, after_ms}: 1 new | 2 changed, a new timing starts at \
                  next_ms | 0 it was so already | -1 next_ms must be later than after_ms, nothing \
                  was written",
        refuses: &[RefusalClass::Arg, RefusalClass::Limit, RefusalClass::State],
        runs_when_full: false,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let bytes = 256 + self.timing.len() + self.options.len() + self.payload.len();
        let mut cmd = begin(&Self::CONTRACT, script, keys, bytes);
        cmd.push(self.name);
        push_u64(&mut cmd, self.mark.into());
        cmd.push(self.timing);
        cmd.push(self.options);
        cmd.push(self.payload);
        push_u64(&mut cmd, self.next_ms);
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<TimetableSet<TimetableWritten>> {
        read_set(reply, |verdict| match verdict {
            1 => Some(TimetableWritten::New),
            2 => Some(TimetableWritten::Changed),
            0 => Some(TimetableWritten::Same),
            -1 => Some(TimetableWritten::Past),
            _ => None,
        })
    }
}

/// Pauses a schedule, or resumes it at a tick to come. What a pause passes over isn't made up.
#[derive(Clone, Copy, Debug)]
pub struct TimetablePause<'a> {
    /// The schedule.
    pub name: &'a str,
    /// To resume: the revision that was read, and the next tick in unix milliseconds, if there is
    /// one. `None` to pause.
    pub resume: Option<(u64, Option<u64>)>,
}

impl ScriptCall for TimetablePause<'_> {
    type Reply = TimetableSet<TimetablePaused>;

    const CONTRACT: Contract = Contract {
        script: ScriptName::TimetablePause,
        keys: &[key::TIMETABLE],
        args: &["name", "paused", "rev", "next_ms"],
        tail: None,
        returns: "{verdict, rev, next_ms, after_ms}: 1 done | 0 it was so already; nothing was \
                  written: -1 next_ms must be later than after_ms | -2 no such schedule | -4 \
                  another rev",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = begin(&Self::CONTRACT, script, keys, 128);
        cmd.push(self.name);
        push_flag(&mut cmd, self.resume.is_none());
        let (revision, next_ms) = self.resume.unwrap_or_default();
        push_u64(&mut cmd, revision);
        push_u64(&mut cmd, next_ms.unwrap_or(0));
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<TimetableSet<TimetablePaused>> {
        read_set(reply, |verdict| match verdict {
            1 => Some(TimetablePaused::Done),
            0 => Some(TimetablePaused::Already),
            -1 => Some(TimetablePaused::Past),
            -2 => Some(TimetablePaused::Unknown),
            -4 => Some(TimetablePaused::Changed),
            _ => None,
        })
    }
}

/// Takes a schedule out of the timetable; `true` when it was there. The jobs of its ticks stay.
#[derive(Clone, Copy, Debug)]
pub struct TimetableRemove<'a> {
    /// The schedule.
    pub name: &'a str,
}

impl ScriptCall for TimetableRemove<'_> {
    type Reply = bool;

    const CONTRACT: Contract = Contract {
        script: ScriptName::TimetableRemove,
        keys: &[key::TIMETABLE],
        args: &["name"],
        tail: None,
        returns: "1 gone | 0 no such schedule",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = begin(&Self::CONTRACT, script, keys, 64);
        cmd.push(self.name);
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<bool> {
        match reply {
            Reply::Int(1) => Some(true),
            Reply::Int(0) => Some(false),
            _ => None,
        }
    }
}

fn read_set<V>(reply: &Reply, verdict: impl Fn(i64) -> Option<V>) -> Option<TimetableSet<V>> {
    let [code, revision, next, after] = reply.as_array()? else { return None };
    let revision = match &revision.as_bytes()?[..] {
        [] => None,
        digits => Some(std::str::from_utf8(digits).ok()?.parse().ok()?),
    };
    Some(TimetableSet {
        verdict: verdict(code.as_int()?)?,
        revision,
        next_ms: Some(read::count(next)?).filter(|ms| *ms > 0),
        after_ms: read::count(after)?,
    })
}
