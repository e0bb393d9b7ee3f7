//! The steps: the verbs, and what the test does to a queue by itself.

use std::fmt::{self, Write};

use emq_keys::{BrandedId, Namespace};

use super::malformed::faults;
use super::world::World;

/// One admission, alone or in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) id: BrandedId,
    pub(crate) payload: Vec<u8>,
    pub(crate) group: Option<BrandedId>,
    pub(crate) due: Due,
    pub(crate) options: Options,
}

/// When an admitted job shall run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// Unix ms, either long past or far off.
    At(u64),
    /// From now, in ms: 0, or so long that it doesn't pass within the test.
    In(u64),
}

/// The registered pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) kind: Option<&'static str>,
    pub(crate) headers: Option<&'static str>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) unique: Option<String>,
}

/// What a holder shows: the job, its token and its ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) id: BrandedId,
    pub(crate) token: u64,
    pub(crate) ticket: Option<String>,
}

/// A retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) held: Held,
    pub(crate) delay_ms: u64,
    pub(crate) max_attempts: u32,
    pub(crate) error: String,
    pub(crate) force_dead: bool,
}

/// One settle of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) held: Held,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Complete,
    Release,
    Retry { delay_ms: u64, error: String, force_dead: bool },
}

/// A turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) lease_ms: u64,
    pub(crate) ticket: Option<String>,
    pub(crate) claim: u32,
    pub(crate) promote: u32,
    pub(crate) reap: u32,
    pub(crate) lost_cap: u32,
    pub(crate) max_attempts: u32,
    pub(crate) settles: Vec<Settled>,
    pub(crate) extensions: Vec<Held>,
}

/// One step. It carries everything that it needs, so that any part of a sequence can be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Enqueue {
        job: Admission,
        durable: bool,
    },
    LaneEnqueue {
        job: Admission,
        group: BrandedId,
        durable: bool,
    },
    Schedule {
        job: Admission,
        durable: bool,
    },
    EnqueueMany {
        items: Vec<Admission>,
        durable: bool,
    },
    Claim {
        lease_ms: u64,
        ticket: Option<String>,
    },
    LaneClaim {
        lease_ms: u64,
        ticket: Option<String>,
    },
    Complete(Held),
    Retry(Failed),
    Release(Held),
    Extend {
        held: Held,
        lease_ms: u64,
    },
    Checkpoint {
        held: Held,
        lease_ms: Option<u64>,
        data: Vec<u8>,
    },
    Promote {
        limit: u32,
    },
    Reap {
        limit: u32,
        lost_cap: u32,
    },
    Cancel(BrandedId),
    Requeue(BrandedId),
    Remove(BrandedId),
    Purge {
        before: Option<BrandedId>,
        limit: u32,
    },
    Drain {
        scheduled: bool,
        limit: u32,
    },
    QueuePause,
    QueueResume,
    LaneLimit {
        group: BrandedId,
        limit: u32,
    },
    LaneWeight {
        group: BrandedId,
        weight: u32,
    },
    LanePause(BrandedId),
    LaneResume(BrandedId),
    Reassign {
        id: BrandedId,
        to: Option<BrandedId>,
    },
    ReassignBacklog {
        from: Option<BrandedId>,
        to: Option<BrandedId>,
        limit: u32,
    },
    Nudge,
    Turn(Beat),

    /// The call of this number in [`super::malformed::faults`].
    Malformed(usize),
    /// The lease is over: the test rewrites the deadline, since it can't move the server's clock.
    Expire {
        id: BrandedId,
        deadline_ms: u64,
    },
    /// The scheduled job is due.
    MakeDue {
        id: BrandedId,
        run_at_ms: u64,
    },
    /// Parked consumers take tokens.
    EatWake {
        all: bool,
    },
    /// The server's script cache is cold from here on.
    ForgetScripts,
    /// The row is lost, its id stays in its set: a torn past.
    Tear(BrandedId),
}

impl Step {
    /// The variant's name.
    pub(crate) fn verb(&self) -> String {
        let mut name = FirstWord(String::new());
        // The error is how it stops the rest, which may be long.
        let _ = write!(name, "{self:?}");
        name.0
    }

    /// The whole step, for a failure's history.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Malformed(fault) => format!("{self:?} {}", faults()[*fault]),
            step => format!("{step:?}"),
        }
    }

    /// The jobs that it names.
    pub(crate) fn ids(&self) -> Vec<BrandedId> {
        match self {
            Self::Enqueue { job, .. }
            | Self::LaneEnqueue { job, .. }
            | Self::Schedule { job, .. } => vec![job.id],
            Self::EnqueueMany { items, .. } => items.iter().map(|item| item.id).collect(),
            Self::Complete(held)
            | Self::Retry(Failed { held, .. })
            | Self::Release(held)
            | Self::Extend { held, .. }
            | Self::Checkpoint { held, .. } => vec![held.id],
            Self::Cancel(id)
            | Self::Requeue(id)
            | Self::Remove(id)
            | Self::Reassign { id, .. }
            | Self::Expire { id, .. }
            | Self::MakeDue { id, .. }
            | Self::Tear(id) => vec![*id],
            Self::Turn(beat) => {
                let settled = beat.settles.iter().map(|settled| settled.held.id);
                settled.chain(beat.extensions.iter().map(|held| held.id)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the test itself does it, with plain commands.
    pub(crate) fn is_planted(&self) -> bool {
        matches!(
            self,
            Self::Expire { .. }
                | Self::MakeDue { .. }
                | Self::EatWake { .. }
                | Self::ForgetScripts
                | Self::Tear(_)
        )
    }

    /// Whether the specification says what it does in this world. A torn id that is admitted again
    /// stands in two sets; the leases of a torn row's lane can't be known.
    pub(crate) fn is_defined(&self, world: &World) -> bool {
        match self {
            Self::Enqueue { .. }
            | Self::LaneEnqueue { .. }
            | Self::Schedule { .. }
            | Self::EnqueueMany { .. } => {
                let torn = world.torn();
                self.ids().iter().all(|id| !torn.contains(id))
            }
            Self::Tear(id) => {
                let row = world.rows.get(id);
                row.is_some_and(|row| row.group.is_none() || !world.active.contains_key(id))
            }
            _ => true,
        }
    }
}

/// Takes the first word of what is written to it.
struct FirstWord(String);

impl fmt::Write for FirstWord {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        self.0.push_str(word);
        if word.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Whether a queue admits it.
pub(crate) fn is_job(id: BrandedId) -> bool {
    id.namespace() == Namespace::JOB
}
