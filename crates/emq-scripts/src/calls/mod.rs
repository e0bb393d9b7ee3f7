//! The typed calls, one file a family.

mod admit;
mod claim;
mod doctor;
mod lanes;
mod node;
mod obliterate;
mod operator;
mod reassign;
mod settle;
mod tick;
mod timers;
mod timetable;
mod turn;

pub use self::admit::{
    AdmitOptions, Admitted, Enqueue, EnqueueMany, LaneEnqueue, ManyItem, Schedule, Verdict, When,
};
pub use self::claim::{Claim, Claimed, LaneClaim};
pub use self::doctor::{Doctor, Doctored, Look, Next, Seat, Standing};
pub use self::lanes::{LaneLimit, LanePause, LaneResume, LaneWeight};
pub use self::node::{NodeLease, NodeLeased};
pub use self::obliterate::{Obliterate, Obliterated};
pub use self::operator::{
    Cancel, Cancelled, Drain, Nudge, Purge, QueuePause, QueueResume, Remove, Removed, Requeue,
    Requeued, Switched,
};
pub use self::reassign::{LaneReassign, LaneReassignBacklog, Reassigned};
pub use self::settle::{
    Checkpoint, Complete, Completed, Extend, Extended, LAST_ERROR_MAX_BYTES, Release, Retried,
    Retry,
};
pub use self::tick::{Tick, TickVerdict, Ticked};
pub use self::timers::{Promote, Reap, Reaped};
pub use self::timetable::{
    TimetablePause, TimetablePaused, TimetablePut, TimetableRemove, TimetableSet, TimetableWritten,
};
pub use self::turn::{
    ExtendVerdict, Extension, Settle, SettleOutcome, SettleVerdict, Turn, TurnJob, Turned,
};
