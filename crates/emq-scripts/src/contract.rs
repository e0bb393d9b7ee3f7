//! What each script takes and answers, as data: the typed calls encode by it, and the headers of
//! the Lua files are compared with it.

use std::fmt;

use emq_keys::{QueueFact, RESERVE_NODES};

use crate::call::ScriptCall;
use crate::calls::{
    Cancel, Checkpoint, Claim, Complete, Doctor, Drain, Enqueue, EnqueueMany, Extend, LaneClaim,
    LaneEnqueue, LaneLimit, LanePause, LaneReassign, LaneResume, LaneWeight, NodeLease, Nudge,
    Obliterate, Promote, Purge, QueuePause, QueueResume, Reap, Release, Remove, Requeue, Retry,
    Schedule, Tick, TimetablePause, TimetablePut, TimetableRemove, Turn,
};
use crate::name::ScriptName;
use crate::refusal::RefusalClass;

/// One script's interface. [`ScriptCall::CONTRACT`] is where each is written.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Contract {
    /// The script.
    pub script: ScriptName,
    /// KEYS, in order.
    pub keys: &'static [ContractKey],
    /// The fixed ARGV, in order. `base` is the queue's `emq:{q}:`.
    pub args: &'static [&'static str],
    /// What may follow the fixed ARGV, any number of times: `pairs`, `items` or `runs`.
    pub tail: Option<&'static str>,
    /// The replies, as the script's header writes them.
    pub returns: &'static str,
    /// The classes it may refuse with.
    pub refuses: &'static [RefusalClass],
    /// Whether it runs on a full server (`maxmemory` with `noeviction`), so that one can be
    /// drained; one that doesn't is refused whole with [`crate::CallError::OutOfMemory`].
    pub runs_when_full: bool,
}

/// A key of [`Contract::keys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractKey {
    /// A fixed key of the queue, `emq:{q}:<type>`.
    Queue(QueueFact),
    /// A key of the reserve, whole.
    Reserve(&'static str),
}

/// As the script's header writes it: `emq:{q}:pending`, `{emq}:nodes`.
impl fmt::Display for ContractKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(fact) => write!(f, "emq:{{q}}:{fact}"),
            Self::Reserve(key) => f.write_str(key),
        }
    }
}

/// Every contract, in the order of [`ScriptName::ALL`].
pub const CONTRACTS: &[Contract] = &[
    Enqueue::CONTRACT,
    LaneEnqueue::CONTRACT,
    Schedule::CONTRACT,
    EnqueueMany::CONTRACT,
    Claim::CONTRACT,
    LaneClaim::CONTRACT,
    Complete::CONTRACT,
    Retry::CONTRACT,
    Release::CONTRACT,
    Extend::CONTRACT,
    Checkpoint::CONTRACT,
    Promote::CONTRACT,
    Reap::CONTRACT,
    Cancel::CONTRACT,
    Requeue::CONTRACT,
    Remove::CONTRACT,
    Purge::CONTRACT,
    Drain::CONTRACT,
    QueuePause::CONTRACT,
    QueueResume::CONTRACT,
    LaneLimit::CONTRACT,
    LaneWeight::CONTRACT,
    LanePause::CONTRACT,
    LaneResume::CONTRACT,
    LaneReassign::CONTRACT,
    Obliterate::CONTRACT,
    Doctor::CONTRACT,
    Turn::CONTRACT,
    Tick::CONTRACT,
    TimetablePut::CONTRACT,
    TimetablePause::CONTRACT,
    TimetableRemove::CONTRACT,
    Nudge::CONTRACT,
    NodeLease::CONTRACT,
];

/// Short names for the tables of the calls.
pub(crate) mod key {
    use super::{ContractKey, QueueFact, RESERVE_NODES};

    pub(crate) const PENDING: ContractKey = ContractKey::Queue(QueueFact::Pending);
    pub(crate) const ACTIVE: ContractKey = ContractKey::Queue(QueueFact::Active);
    pub(crate) const SCHEDULE: ContractKey = ContractKey::Queue(QueueFact::Schedule);
    pub(crate) const DEAD: ContractKey = ContractKey::Queue(QueueFact::Dead);
    pub(crate) const RING: ContractKey = ContractKey::Queue(QueueFact::Ring);
    pub(crate) const PAUSED: ContractKey = ContractKey::Queue(QueueFact::Paused);
    pub(crate) const GLIMIT: ContractKey = ContractKey::Queue(QueueFact::Glimit);
    pub(crate) const GACTIVE: ContractKey = ContractKey::Queue(QueueFact::Gactive);
    pub(crate) const WAKE: ContractKey = ContractKey::Queue(QueueFact::Wake);
    pub(crate) const GWEIGHT: ContractKey = ContractKey::Queue(QueueFact::Gweight);
    pub(crate) const UNIQUE: ContractKey = ContractKey::Queue(QueueFact::Unique);
    pub(crate) const META: ContractKey = ContractKey::Queue(QueueFact::Meta);
    pub(crate) const TIMETABLE: ContractKey = ContractKey::Queue(QueueFact::Timetable);
    pub(crate) const NODES: ContractKey = ContractKey::Reserve(RESERVE_NODES);
    pub(crate) const NODES_OWNERS: ContractKey = ContractKey::Reserve("{emq}:nodes:owners");
}
