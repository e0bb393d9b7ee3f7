//! What an operator does to jobs and queues, and the wake that a stopping worker passes on.

use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin, push_flag};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// Calls a job off: one that waits goes; the holder of an active one learns at its next extension.
/// A dead job is refused with [`RefusalClass::State`].
#[derive(Clone, Copy, Debug)]
pub struct Cancel {
    /// The job.
    pub id: BrandedId,
}

/// What a [`Cancel`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is gone.
    Gone,
    /// It runs; its holder was asked to stop.
    Asked,
    /// There was no row.
    NoRow,
}

impl ScriptCall for Cancel {
    type Reply = Cancelled;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Cancel,
        keys: &[
            key::PENDING,
            key::ACTIVE,
            key::SCHEDULE,
            key::DEAD,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
            key::UNIQUE,
            key::META,
        ],
        args: &["base", "id"],
        tail: None,
        returns: "1 gone | 2 asked | 0 no row",
        refuses: &[RefusalClass::State, RefusalClass::Arg, RefusalClass::Kind],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode_id(&Self::CONTRACT, script, keys, self.id)
    }

    fn read(&self, reply: &Reply) -> Option<Cancelled> {
        match reply {
            Reply::Int(1) => Some(Cancelled::Gone),
            Reply::Int(2) => Some(Cancelled::Asked),
            Reply::Int(0) => Some(Cancelled::NoRow),
            _ => None,
        }
    }
}

/// Gives a dead job another life: its caps count from now, its token keeps rising. A job that isn't
/// dead is refused with [`RefusalClass::State`].
#[derive(Clone, Copy, Debug)]
pub struct Requeue {
    /// The job.
    pub id: BrandedId,
}

/// What a [`Requeue`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeued {
    /// It waits again.
    Done,
    /// There was no row.
    NoRow,
}

impl ScriptCall for Requeue {
    type Reply = Requeued;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Requeue,
        keys: &[
            key::DEAD,
            key::PENDING,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
        ],
        args: &["base", "id"],
        tail: None,
        returns: "1 | 0 no row",
        refuses: &[RefusalClass::State, RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode_id(&Self::CONTRACT, script, keys, self.id)
    }

    fn read(&self, reply: &Reply) -> Option<Requeued> {
        read_switch(reply, Requeued::Done, Requeued::NoRow)
    }
}

/// Deletes a job that nobody holds: pending, scheduled or dead. A leased one is refused with
/// [`RefusalClass::State`].
#[derive(Clone, Copy, Debug)]
pub struct Remove {
    /// The job.
    pub id: BrandedId,
}

/// What a [`Remove`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It is gone.
    Done,
    /// There was no row.
    NoRow,
}

impl ScriptCall for Remove {
    type Reply = Removed;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Remove,
        keys: &[
            key::PENDING,
            key::SCHEDULE,
            key::DEAD,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
            key::UNIQUE,
            key::META,
        ],
        args: &["base", "id"],
        tail: None,
        returns: "1 gone | 0 no row",
        refuses: &[RefusalClass::State, RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode_id(&Self::CONTRACT, script, keys, self.id)
    }

    fn read(&self, reply: &Reply) -> Option<Removed> {
        read_switch(reply, Removed::Done, Removed::NoRow)
    }
}

/// Deletes dead letters, the oldest first. Answers how many; call again until it answers 0.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// Only those whose id sorts before this one ([`BrandedId::min_for`] a time); `None` for all.
    pub before: Option<BrandedId>,
    /// The most jobs to delete, 1..=1000.
    pub limit: u32,
}

impl ScriptCall for Purge {
    type Reply = u64;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Purge,
        keys: &[key::DEAD, key::UNIQUE],
        args: &["base", "before_id", "limit"],
        tail: None,
        returns: "the count removed; 0: nothing is left to purge",
        refuses: &[RefusalClass::Arg, RefusalClass::Limit],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = begin(&Self::CONTRACT, script, keys, 48);
        cmd.push(self.before.as_ref().map_or(&[][..], |id| id.as_bytes()));
        cmd.push_int(self.limit.into());
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<u64> {
        read::count(reply)
    }
}

/// Deletes what waits, flat and in lanes. Answers how many; call again until it answers 0.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    /// Whether scheduled jobs go too.
    pub scheduled: bool,
    /// The most jobs to delete, 1..=1000.
    pub limit: u32,
}

impl ScriptCall for Drain {
    type Reply = u64;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Drain,
        keys: &[
            key::PENDING,
            key::SCHEDULE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
            key::UNIQUE,
            key::META,
        ],
        args: &["base", "scheduled", "limit"],
        tail: None,
        returns: "the count removed; 0: nothing is left to drain",
        refuses: &[RefusalClass::Arg, RefusalClass::Limit],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = begin(&Self::CONTRACT, script, keys, 32);
        push_flag(&mut cmd, self.scheduled);
        cmd.push_int(self.limit.into());
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<u64> {
        read::count(reply)
    }
}

/// Claims answer empty from now on; what is in flight is untouched.
#[derive(Clone, Copy, Debug)]
pub struct QueuePause;

/// Claims are served again.
#[derive(Clone, Copy, Debug)]
pub struct QueueResume;

/// What a [`QueuePause`] or a [`QueueResume`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switched {
    /// It was the other way before.
    Changed,
    /// It was so already.
    Already,
}

impl ScriptCall for QueuePause {
    type Reply = Switched;

    const CONTRACT: Contract = Contract {
        script: ScriptName::QueuePause,
        keys: &[key::META],
        args: &[],
        tail: None,
        returns: "1 paused now | 0 it was already",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        begin(&Self::CONTRACT, script, keys, 0)
    }

    fn read(&self, reply: &Reply) -> Option<Switched> {
        read_switch(reply, Switched::Changed, Switched::Already)
    }
}

impl ScriptCall for QueueResume {
    type Reply = Switched;

    const CONTRACT: Contract = Contract {
        script: ScriptName::QueueResume,
        keys: &[key::META, key::PENDING, key::RING, key::WAKE],
        args: &[],
        tail: None,
        returns: "1 resumed | 0 it was not paused",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        begin(&Self::CONTRACT, script, keys, 0)
    }

    fn read(&self, reply: &Reply) -> Option<Switched> {
        read_switch(reply, Switched::Changed, Switched::Already)
    }
}

/// Passes a wake on, as every worker that stops does.
#[derive(Clone, Copy, Debug)]
pub struct Nudge;

impl ScriptCall for Nudge {
    type Reply = ();

    const CONTRACT: Contract = Contract {
        script: ScriptName::Nudge,
        keys: &[key::WAKE],
        args: &[],
        tail: None,
        returns: "1",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        begin(&Self::CONTRACT, script, keys, 0)
    }

    fn read(&self, reply: &Reply) -> Option<()> {
        (*reply == Reply::Int(1)).then_some(())
    }
}

fn encode_id(contract: &Contract, script: &Script, keys: &QueueKeys, id: BrandedId) -> Cmd {
    let mut cmd = begin(contract, script, keys, 24);
    cmd.push(id.as_bytes());
    cmd
}

/// 1 or 0.
fn read_switch<T>(reply: &Reply, one: T, zero: T) -> Option<T> {
    match reply {
        Reply::Int(1) => Some(one),
        Reply::Int(0) => Some(zero),
        _ => None,
    }
}
