//! A schedule's tick: nothing -> pending, once.

use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Reply, Script};

use super::admit::{AdmitOptions, push_group};
use crate::call::{ScriptCall, begin, push_u64};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// Admits the job of a schedule's tick, or passes ticks over. It does so only while the schedule
/// still is what the caller read, by its revision and its next tick, and only within the given
/// bounds of the server's clock; then it sets what comes next. So each tick is decided once, by
/// whoever comes first, and never before its time.
#[derive(Clone, Copy)]
pub struct Tick<'a> {
    /// The schedule: 1 to 128 bytes of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`.
    pub name: &'a str,
    /// The revision of its definition, as it was read.
    pub revision: u64,
    /// The tick that comes next, as it was read; unix milliseconds.
    pub next_ms: u64,
    /// Nothing happens before this moment. With a job it is the tick itself: `next_ms`, or a later
    /// one when those between are passed over.
    pub from_ms: u64,
    /// Nothing happens from this moment on.
    pub until_ms: Option<u64>,
    /// The tick that comes next afterwards; `None` when there is none.
    pub following_ms: Option<u64>,
    /// The tick's job; `None` to pass over what comes before `following_ms`.
    pub id: Option<BrandedId>,
    /// Its payload.
    pub payload: &'a [u8],
    /// Its lane; `None` for the flat set.
    pub group: Option<BrandedId>,
    /// What else is said about it.
    pub options: AdmitOptions<'a>,
}

/// What a [`Tick`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticked {
    /// Whether the schedule moved on, and how.
    pub verdict: TickVerdict,
    /// The schedule's next tick now; `None` when there is none, or no such schedule.
    pub next_ms: Option<u64>,
    /// The server's clock, in unix milliseconds.
    pub now_ms: u64,
}

/// Whether a schedule moved on, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickVerdict {
    /// The job is new and waits; the schedule moved on.
    Admitted,
    /// The ticks were passed over; the schedule moved on.
    Passed,
    /// A row of this id was there already; the schedule moved on.
    Duplicate,
    /// This job holds the unique key, so there is no new one; the schedule moved on.
    Held(BrandedId),
    /// There is no such schedule.
    Unknown,
    /// It is too early.
    Early,
    /// It is too late.
    Late,
    /// Another tick comes next: somebody else was first.
    Elsewhere,
    /// The definition is another one now.
    Changed,
    /// The schedule is paused.
    Paused,
}

impl ScriptCall for Tick<'_> {
    type Reply = Ticked;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Tick,
        keys: &[
            key::PENDING,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
            key::UNIQUE,
            key::TIMETABLE,
        ],
        args: &[
            "base",
            "name",
            "rev",
            "next_ms",
            "from_ms",
            "until_ms",
            "following_ms",
            "id",
            "payload",
            "group",
        ],
        tail: Some("pairs"),
        returns: "{verdict, next_ms, now_ms, holder}: 1 admitted | 2 passed over | 3 the row was \
                  there | 4 holder has the unique key; the schedule moved on. 0 no such schedule | \
                  -1 too early | -2 too late | -3 another tick is next | -4 another rev | -5 \
                  paused; nothing was written",
        refuses: &[RefusalClass::Arg, RefusalClass::Kind],
        runs_when_full: false,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let bytes = 256 + self.payload.len() + self.options.bytes();
        let mut cmd = begin(&Self::CONTRACT, script, keys, bytes);
        cmd.push(self.name);
        push_u64(&mut cmd, self.revision);
        push_u64(&mut cmd, self.next_ms);
        push_u64(&mut cmd, self.from_ms);
        push_u64(&mut cmd, self.until_ms.unwrap_or(0));
        push_u64(&mut cmd, self.following_ms.unwrap_or(0));
        cmd.push(self.id.as_ref().map_or(&[][..], |id| id.as_bytes()));
        cmd.push(self.payload);
        push_group(&mut cmd, self.group);
        self.options.push(&mut cmd);
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Ticked> {
        let [verdict, next, now, holder] = reply.as_array()? else { return None };
        let verdict = match verdict.as_int()? {
            1 => TickVerdict::Admitted,
            2 => TickVerdict::Passed,
            3 => TickVerdict::Duplicate,
            4 => TickVerdict::Held(read::id(holder)?),
            0 => TickVerdict::Unknown,
            -1 => TickVerdict::Early,
            -2 => TickVerdict::Late,
            -3 => TickVerdict::Elsewhere,
            -4 => TickVerdict::Changed,
            -5 => TickVerdict::Paused,
            _ => return None,
        };
        let next_ms = Some(read::count(next)?).filter(|ms| *ms > 0);
        Some(Ticked { verdict, next_ms, now_ms: read::count(now)? })
    }
}
