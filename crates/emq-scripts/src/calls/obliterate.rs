//! A queue's end.

use emq_keys::QueueKeys;
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin, push_flag};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// Takes a paused queue down, a bounded step a call; call again while [`Obliterated::left`]. What a
/// producer admits between two steps goes with the next; the queue stays paused until its last key
/// goes, and what is admitted after that is a new queue's.
///
/// A queue that isn't paused, and without [`Obliterate::force`] one with leases out, is refused with
/// [`RefusalClass::State`]; one that has no key at all is gone already.
///
/// Rows and lanes that no set or register of the queue knows (a torn past) are left: a
/// [`crate::Checkup`] that mends brings them back in first.
#[derive(Clone, Copy, Debug)]
pub struct Obliterate {
    /// Whether jobs in flight go too. Their holders learn at their next extension or settle.
    pub force: bool,
    /// The most jobs to delete, 1..=1000.
    pub limit: u32,
}

/// What a step of [`Obliterate`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obliterated {
    /// Jobs deleted by this step.
    pub removed: u64,
    /// Whether anything is left: call again.
    pub left: bool,
}

impl ScriptCall for Obliterate {
    type Reply = Obliterated;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Obliterate,
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
            key::GWEIGHT,
            key::UNIQUE,
            key::META,
        ],
        args: &["base", "force", "limit"],
        tail: None,
        returns: "{removed, left}: the count of jobs; 1: call again | 0: no key of the queue is \
                  left",
        refuses: &[RefusalClass::Arg, RefusalClass::Limit, RefusalClass::State],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = begin(&Self::CONTRACT, script, keys, 32);
        push_flag(&mut cmd, self.force);
        cmd.push_int(self.limit.into());
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Obliterated> {
        let [removed, left] = reply.as_array()? else { return None };
        let left = match left {
            Reply::Int(1) => true,
            Reply::Int(0) => false,
            _ => return None,
        };
        Some(Obliterated { removed: read::count(removed)?, left })
    }
}
