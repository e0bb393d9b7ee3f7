//! Admission: nothing -> pending or scheduled.

use std::time::Duration;

use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin, push_flag, push_ms, push_u64};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// What may be said about a job beside its payload. An empty text is refused with
/// [`RefusalClass::Arg`]: `None` means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmitOptions<'a> {
    /// The handler's name.
    pub kind: Option<&'a str>,
    /// A JSON object for trace context and the like; the scripts don't look into it.
    pub headers: Option<&'a str>,
    /// This job's own cap of attempts, from 1.
    pub max_attempts: Option<u32>,
    /// A key that at most one job of the queue holds at a time.
    pub unique: Option<&'a str>,
}

impl AdmitOptions<'_> {
    fn texts(&self) -> [(&'static str, Option<&str>); 3] {
        [("kind", self.kind), ("headers", self.headers), ("unique", self.unique)]
    }

    /// How many arguments [`AdmitOptions::push`] adds.
    fn arg_count(&self) -> usize {
        let texts = self.texts().iter().filter(|(_, text)| text.is_some()).count();
        2 * (texts + usize::from(self.max_attempts.is_some()))
    }

    pub(super) fn bytes(&self) -> usize {
        self.texts().iter().filter_map(|(_, text)| *text).map(|text| text.len() + 32).sum()
    }

    pub(super) fn push(&self, cmd: &mut Cmd) {
        for (field, text) in self.texts() {
            if let Some(text) = text {
                cmd.push(field);
                cmd.push(text);
            }
        }
        if let Some(cap) = self.max_attempts {
            cmd.push("max_attempts");
            cmd.push_int(cap.into());
        }
    }
}

/// What an admission came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The job is new and waits.
    Admitted,
    /// A row of this id is there already, in whatever state; nothing was changed.
    Duplicate,
    /// Another job holds the unique key; nothing was written.
    Held(BrandedId),
}

impl Admitted {
    fn read(reply: &Reply) -> Option<Admitted> {
        match reply {
            Reply::Int(1) => Some(Self::Admitted),
            Reply::Int(0) => Some(Self::Duplicate),
            holder => read::id(holder).map(Self::Held),
        }
    }
}

/// Admits a job to the flat set.
#[derive(Clone, Copy)]
pub struct Enqueue<'a> {
    /// Its id, of kind `JOB`.
    pub id: BrandedId,
    /// Opaque bytes.
    pub payload: &'a [u8],
    /// What else is said about it.
    pub options: AdmitOptions<'a>,
    /// Whether a duplicate shall write too, so that a durable resend has a write to wait for.
    pub durable: bool,
}

impl ScriptCall for Enqueue<'_> {
    type Reply = Admitted;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Enqueue,
        keys: &[key::PENDING, key::WAKE, key::UNIQUE],
        args: &["base", "id", "payload", "durable"],
        tail: Some("pairs"),
        returns: "1 admitted | 0 duplicate | the id that holds the unique key",
        refuses: &[RefusalClass::Arg, RefusalClass::Kind],
        runs_when_full: false,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let bytes = 64 + self.payload.len() + self.options.bytes();
        let mut cmd = begin(&Self::CONTRACT, script, keys, bytes);
        cmd.push(self.id.as_bytes());
        cmd.push(self.payload);
        push_flag(&mut cmd, self.durable);
        self.options.push(&mut cmd);
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Admitted> {
        Admitted::read(reply)
    }
}

/// Admits a job to a lane.
#[derive(Clone, Copy)]
pub struct LaneEnqueue<'a> {
    /// Its id, of kind `JOB`.
    pub id: BrandedId,
    /// Opaque bytes.
    pub payload: &'a [u8],
    /// The lane: the identity whose fairness is owed.
    pub group: BrandedId,
    /// What else is said about it.
    pub options: AdmitOptions<'a>,
    /// As in [`Enqueue::durable`].
    pub durable: bool,
}

impl ScriptCall for LaneEnqueue<'_> {
    type Reply = Admitted;

    const CONTRACT: Contract = Contract {
        script: ScriptName::LaneEnqueue,
        keys: &[key::WAKE, key::RING, key::PAUSED, key::GLIMIT, key::GACTIVE, key::UNIQUE],
        args: &["base", "id", "payload", "group", "durable"],
        tail: Some("pairs"),
        returns: "1 admitted | 0 duplicate | the id that holds the unique key",
        refuses: &[RefusalClass::Arg, RefusalClass::Kind],
        runs_when_full: false,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let bytes = 96 + self.payload.len() + self.options.bytes();
        let mut cmd = begin(&Self::CONTRACT, script, keys, bytes);
        cmd.push(self.id.as_bytes());
        cmd.push(self.payload);
        cmd.push(self.group.as_bytes());
        push_flag(&mut cmd, self.durable);
        self.options.push(&mut cmd);
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Admitted> {
        Admitted::read(reply)
    }
}

/// When a job shall run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time, in unix milliseconds; one that has passed means now.
    At(u64),
    /// After a delay on the server's clock, rounded up to milliseconds.
    In(Duration),
}

/// Admits a job that runs later.
#[derive(Clone, Copy)]
pub struct Schedule<'a> {
    /// Its id, of kind `JOB`.
    pub id: BrandedId,
    /// Opaque bytes.
    pub payload: &'a [u8],
    /// Its lane; `None` for the flat set.
    pub group: Option<BrandedId>,
    /// When.
    pub when: When,
    /// What else is said about it.
    pub options: AdmitOptions<'a>,
    /// As in [`Enqueue::durable`].
    pub durable: bool,
}

impl ScriptCall for Schedule<'_> {
    type Reply = Admitted;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Schedule,
        keys: &[
            key::PENDING,
            key::SCHEDULE,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
            key::UNIQUE,
        ],
        args: &["base", "id", "payload", "group", "at_ms", "delay_ms", "durable"],
        tail: Some("pairs"),
        returns: "1 admitted | 0 duplicate | the id that holds the unique key",
        refuses: &[RefusalClass::Arg, RefusalClass::Kind],
        runs_when_full: false,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let bytes = 128 + self.payload.len() + self.options.bytes();
        let mut cmd = begin(&Self::CONTRACT, script, keys, bytes);
        cmd.push(self.id.as_bytes());
        cmd.push(self.payload);
        push_group(&mut cmd, self.group);
        match self.when {
            When::At(unix_ms) => {
                push_u64(&mut cmd, unix_ms);
                cmd.push("0");
            }
            When::In(delay) => {
                cmd.push("0");
                push_ms(&mut cmd, delay);
            }
        }
        push_flag(&mut cmd, self.durable);
        self.options.push(&mut cmd);
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Admitted> {
        Admitted::read(reply)
    }
}

/// One item of [`EnqueueMany`].
#[derive(Clone, Copy)]
pub struct ManyItem<'a> {
    /// Its id, of kind `JOB`.
    pub id: BrandedId,
    /// Opaque bytes.
    pub payload: &'a [u8],
    /// Its lane; `None` for the flat set.
    pub group: Option<BrandedId>,
    /// When it runs, in unix milliseconds; `None` for now.
    pub run_at_ms: Option<u64>,
    /// What else is said about it.
    pub options: AdmitOptions<'a>,
}

/// Admits up to 400 jobs at once, 1 MiB of payload in all; over a bound is
/// [`RefusalClass::Limit`] and nothing is written.
#[derive(Clone, Copy)]
pub struct EnqueueMany<'a> {
    /// The jobs.
    pub items: &'a [ManyItem<'a>],
    /// As in [`Enqueue::durable`].
    pub durable: bool,
}

/// What became of one item of [`EnqueueMany`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The job is new and waits.
    Admitted,
    /// A row of this id was there already.
    Duplicate,
    /// Another job holds the unique key.
    Held(BrandedId),
    /// The id is not of kind `JOB`.
    Kind,
}

impl EnqueueMany<'_> {
    /// The most items of one call.
    pub const MAX_ITEMS: usize = 400;

    /// The most bytes of payload in one call.
    pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;
}

impl ScriptCall for EnqueueMany<'_> {
    type Reply = Vec<Verdict>;

    const CONTRACT: Contract = Contract {
        script: ScriptName::EnqueueMany,
        keys: &[
            key::PENDING,
            key::SCHEDULE,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
            key::UNIQUE,
        ],
        args: &["base", "durable", "count"],
        tail: Some("items"),
        returns: "one verdict an item: 1 admitted | 0 duplicate | -1 not of kind JOB \
                  | the id that holds the unique key",
        refuses: &[RefusalClass::Arg, RefusalClass::Limit],
        runs_when_full: false,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let bytes = self.items.iter().map(|item| 96 + item.payload.len() + item.options.bytes());
        let mut cmd = begin(&Self::CONTRACT, script, keys, 32 + bytes.sum::<usize>());
        push_flag(&mut cmd, self.durable);
        push_u64(&mut cmd, self.items.len() as u64);
        for item in self.items {
            cmd.push(item.id.as_bytes());
            cmd.push(item.payload);
            push_group(&mut cmd, item.group);
            // 0 means "no time" to the script, so the epoch itself travels as its next millisecond.
            push_u64(&mut cmd, item.run_at_ms.map_or(0, |unix_ms| unix_ms.max(1)));
            push_u64(&mut cmd, item.options.arg_count() as u64);
            item.options.push(&mut cmd);
        }
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Vec<Verdict>> {
        let verdicts = reply.as_array().filter(|verdicts| verdicts.len() == self.items.len())?;
        verdicts.iter().map(read_verdict).collect()
    }
}

fn read_verdict(reply: &Reply) -> Option<Verdict> {
    Some(match reply {
        Reply::Int(-1) => Verdict::Kind,
        other => match Admitted::read(other)? {
            Admitted::Admitted => Verdict::Admitted,
            Admitted::Duplicate => Verdict::Duplicate,
            Admitted::Held(holder) => Verdict::Held(holder),
        },
    })
}

pub(super) fn push_group(cmd: &mut Cmd, group: Option<BrandedId>) {
    cmd.push(group.as_ref().map_or(&[][..], |group| group.as_bytes()));
}
