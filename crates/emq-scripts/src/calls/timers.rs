//! What time does to jobs: due ones run, expired leases return.

use emq_keys::QueueKeys;
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// Moves due jobs from the schedule to where they wait. Answers how many.
#[derive(Clone, Copy, Debug)]
pub struct Promote {
    /// The most jobs to move, 1..=200.
    pub limit: u32,
}

impl ScriptCall for Promote {
    type Reply = u64;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Promote,
        keys: &[
            key::SCHEDULE,
            key::PENDING,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
        ],
        args: &["base", "limit"],
        tail: None,
        returns: "the count of jobs made pending",
        refuses: &[RefusalClass::Arg, RefusalClass::Limit],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = begin(&Self::CONTRACT, script, keys, 16);
        cmd.push_int(self.limit.into());
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<u64> {
        read::count(reply)
    }
}

/// Returns jobs whose lease has expired, or buries those that were lost too often.
#[derive(Clone, Copy, Debug)]
pub struct Reap {
    /// The most jobs to look at, 1..=200.
    pub limit: u32,
    /// A job lost this many times is dead.
    pub lost_cap: u32,
}

/// What a [`Reap`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Jobs that wait again.
    pub returned: u64,
    /// Jobs that are dead now.
    pub buried: u64,
}

impl ScriptCall for Reap {
    type Reply = Reaped;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Reap,
        keys: &[
            key::ACTIVE,
            key::PENDING,
            key::DEAD,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
        ],
        args: &["base", "limit", "lost_cap"],
        tail: None,
        returns: "{returned, buried}",
        refuses: &[RefusalClass::Arg, RefusalClass::Limit],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = begin(&Self::CONTRACT, script, keys, 32);
        cmd.push_int(self.limit.into());
        cmd.push_int(self.lost_cap.into());
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Reaped> {
        let Reply::Array(counts) = reply else { return None };
        let [returned, buried] = counts.as_slice() else { return None };
        Some(Reaped { returned: read::count(returned)?, buried: read::count(buried)? })
    }
}
