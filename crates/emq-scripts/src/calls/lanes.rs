//! What an operator does to a lane: its ceiling, its weight, its pause.

use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin};
use crate::calls::Switched;
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::refusal::RefusalClass;

/// Sets a lane's ceiling: how many of its jobs may be leased at once. Leases over a lowered ceiling
/// run on until they settle.
#[derive(Clone, Copy, Debug)]
pub struct LaneLimit {
    /// The lane.
    pub group: BrandedId,
    /// The ceiling, 1..=2^31; 0 for none.
    pub limit: u32,
}

/// Sets how many jobs a lane gives per turn of the ring.
#[derive(Clone, Copy, Debug)]
pub struct LaneWeight {
    /// The lane.
    pub group: BrandedId,
    /// Jobs a turn, 1..=2^31; a lane without a weight of its own has 1.
    pub weight: u32,
}

/// Parks a lane: it leaves the rotation with its backlog, and what is in flight is untouched.
#[derive(Clone, Copy, Debug)]
pub struct LanePause {
    /// The lane.
    pub group: BrandedId,
}

/// Brings a parked lane back into the rotation.
#[derive(Clone, Copy, Debug)]
pub struct LaneResume {
    /// The lane.
    pub group: BrandedId,
}

impl ScriptCall for LaneLimit {
    type Reply = Switched;

    const CONTRACT: Contract = Contract {
        script: ScriptName::LaneLimit,
        keys: &[key::WAKE, key::RING, key::PAUSED, key::GLIMIT, key::GACTIVE, key::META],
        args: &["base", "group", "limit"],
        tail: None,
        returns: "1 changed | 0 it was so already",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = encode_group(&Self::CONTRACT, script, keys, self.group);
        cmd.push_int(self.limit.into());
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Switched> {
        read_switched(reply)
    }
}

impl ScriptCall for LaneWeight {
    type Reply = Switched;

    const CONTRACT: Contract = Contract {
        script: ScriptName::LaneWeight,
        keys: &[key::GWEIGHT, key::META],
        args: &["group", "weight"],
        tail: None,
        returns: "1 changed | 0 it was so already",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = encode_group(&Self::CONTRACT, script, keys, self.group);
        cmd.push_int(self.weight.into());
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Switched> {
        read_switched(reply)
    }
}

impl ScriptCall for LanePause {
    type Reply = Switched;

    const CONTRACT: Contract = Contract {
        script: ScriptName::LanePause,
        keys: &[key::RING, key::PAUSED, key::META],
        args: &["group"],
        tail: None,
        returns: "1 parked now | 0 it was already",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode_group(&Self::CONTRACT, script, keys, self.group)
    }

    fn read(&self, reply: &Reply) -> Option<Switched> {
        read_switched(reply)
    }
}

impl ScriptCall for LaneResume {
    type Reply = Switched;

    const CONTRACT: Contract = Contract {
        script: ScriptName::LaneResume,
        keys: &[key::WAKE, key::RING, key::PAUSED, key::GLIMIT, key::GACTIVE],
        args: &["base", "group"],
        tail: None,
        returns: "1 resumed | 0 it was not parked",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode_group(&Self::CONTRACT, script, keys, self.group)
    }

    fn read(&self, reply: &Reply) -> Option<Switched> {
        read_switched(reply)
    }
}

fn encode_group(contract: &Contract, script: &Script, keys: &QueueKeys, group: BrandedId) -> Cmd {
    let mut cmd = begin(contract, script, keys, 48);
    cmd.push(group.as_bytes());
    cmd
}

fn read_switched(reply: &Reply) -> Option<Switched> {
    match reply {
        Reply::Int(1) => Some(Switched::Changed),
        Reply::Int(0) => Some(Switched::Already),
        _ => None,
    }
}
