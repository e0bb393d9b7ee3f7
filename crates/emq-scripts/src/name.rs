//! The scripts of this wire version, by name.

use std::fmt;

/// Declares [`ScriptName`], its names and the embedded files from one list.
macro_rules! scripts {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// A script of the bundle.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum ScriptName {
            $($(#[$doc])* $variant,)+
        }

        impl ScriptName {
            /// Every script, in the order of declaration.
            pub const ALL: &'static [ScriptName] = &[$(ScriptName::$variant,)+];

            /// The name: the file is `lua/<name>.lua`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ScriptName::$variant => $name,)+
                }
            }

            /// The file's bytes as they were at build time.
            pub(crate) const fn embedded(self) -> &'static str {
                match self {
                    $(ScriptName::$variant => include_str!(concat!("../lua/", $name, ".lua")),)+
                }
            }
        }
    };
}

scripts! {
    /// Nothing -> pending, flat.
    Enqueue = "enqueue",
    /// Nothing -> pending, in a lane.
    LaneEnqueue = "lane_enqueue",
    /// Nothing -> scheduled, flat or in a lane.
    Schedule = "schedule",
    /// Up to 400 admissions.
    EnqueueMany = "enqueue_many",
    /// Pending -> active, flat.
    Claim = "claim",
    /// The ring turns one step.
    LaneClaim = "lane_claim",
    /// The job is done: gone.
    Complete = "complete",
    /// Active -> scheduled, or dead at the cap.
    Retry = "retry",
    /// Active -> pending, without blame.
    Release = "release",
    /// A lease is moved.
    Extend = "extend",
    /// A handler's progress is kept.
    Checkpoint = "checkpoint",
    /// Due scheduled -> pending.
    Promote = "promote",
    /// Expired active -> pending, or dead at the lost cap.
    Reap = "reap",
    /// A job is called off.
    Cancel = "cancel",
    /// Dead -> pending.
    Requeue = "requeue",
    /// A job that nobody holds -> gone.
    Remove = "remove",
    /// Dead letters -> gone.
    Purge = "purge",
    /// What waits -> gone.
    Drain = "drain",
    /// Claims answer empty from now on.
    QueuePause = "queue_pause",
    /// Claims are served again.
    QueueResume = "queue_resume",
    /// A lane's ceiling.
    LaneLimit = "lane_limit",
    /// A lane's jobs per turn of the ring.
    LaneWeight = "lane_weight",
    /// A lane leaves the rotation.
    LanePause = "lane_pause",
    /// A lane comes back into the rotation.
    LaneResume = "lane_resume",
    /// Jobs change lanes.
    LaneReassign = "lane_reassign",
    /// A paused queue -> gone.
    Obliterate = "obliterate",
    /// A part of a queue is examined, and mended.
    Doctor = "doctor",
    /// A worker's whole beat.
    Turn = "turn",
    /// The job of a schedule's tick is admitted, or ticks are passed over.
    Tick = "tick",
    /// A schedule is put into the timetable.
    TimetablePut = "timetable_put",
    /// A schedule is paused or resumed.
    TimetablePause = "timetable_pause",
    /// A schedule -> gone.
    TimetableRemove = "timetable_remove",
    /// A wake is passed on.
    Nudge = "nudge",
    /// A minting node is taken or renewed.
    NodeLease = "node_lease",
}

impl ScriptName {
    /// The script of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<ScriptName> {
        ScriptName::ALL.iter().copied().find(|script| script.as_str() == name)
    }
}

impl fmt::Display for ScriptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
