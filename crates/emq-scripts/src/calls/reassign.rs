//! Jobs change lanes.

use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// Moves one job to another lane, or to the flat set. One that is scheduled or dead enters its lane
/// when it is promoted or requeued. A leased one is refused with [`RefusalClass::State`]: its lease
/// counts for the lane that it was claimed from.
#[derive(Clone, Copy, Debug)]
pub struct LaneReassign {
    /// The job.
    pub id: BrandedId,
    /// The lane; `None` for the flat set.
    pub to: Option<BrandedId>,
}

/// What a [`LaneReassign`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reassigned {
    /// It is there now.
    Moved,
    /// It was there already, leased or not.
    Already,
    /// There was no row.
    NoRow,
}

/// Moves the oldest jobs of a lane's backlog, or of the flat set's, each as [`LaneReassign`] does.
/// Answers how many left it; call again until it answers 0. What is in flight, scheduled or dead
/// stays with the lane. A backlog can't move to where it is: [`RefusalClass::Arg`].
#[derive(Clone, Copy, Debug)]
pub struct LaneReassignBacklog {
    /// The lane whose backlog moves; `None` for the flat set's.
    pub from: Option<BrandedId>,
    /// The lane that it moves to; `None` for the flat set.
    pub to: Option<BrandedId>,
    /// The most jobs to move, 1..=200.
    pub limit: u32,
}

const CONTRACT: Contract = Contract {
    script: ScriptName::LaneReassign,
    keys: &[key::PENDING, key::WAKE, key::RING, key::PAUSED, key::GLIMIT, key::GACTIVE, key::META],
    args: &["base", "id", "from", "group", "limit"],
    tail: None,
    returns: "a job: 1 moved | 2 it was there | 0 no row; a backlog: the count that left it, 0: it \
              is empty",
    refuses: &[RefusalClass::Arg, RefusalClass::Limit, RefusalClass::State],
    runs_when_full: true,
};

impl ScriptCall for LaneReassign {
    type Reply = Reassigned;

    const CONTRACT: Contract = CONTRACT;

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode(script, keys, [Some(self.id), None, self.to], 1)
    }

    fn read(&self, reply: &Reply) -> Option<Reassigned> {
        match reply {
            Reply::Int(1) => Some(Reassigned::Moved),
            Reply::Int(2) => Some(Reassigned::Already),
            Reply::Int(0) => Some(Reassigned::NoRow),
            _ => None,
        }
    }
}

impl ScriptCall for LaneReassignBacklog {
    type Reply = u64;

    const CONTRACT: Contract = CONTRACT;

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode(script, keys, [None, self.from, self.to], self.limit)
    }

    fn read(&self, reply: &Reply) -> Option<u64> {
        read::count(reply)
    }
}

fn encode(script: &Script, keys: &QueueKeys, ids: [Option<BrandedId>; 3], limit: u32) -> Cmd {
    let mut cmd = begin(&CONTRACT, script, keys, 96);
    for id in ids {
        cmd.push(id.as_ref().map_or(&[][..], |id| id.as_bytes()));
    }
    cmd.push_int(limit.into());
    cmd
}
