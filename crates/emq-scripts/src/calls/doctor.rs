//! The doctor: a part of a queue, examined at one instant.

use bytes::Bytes;
use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin, push_flag};
use crate::contract::{Contract, key};
use crate::finding::{Diagnosis, Finding};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// Examines a part of a queue while the queue runs. [`crate::Checkup`] says which parts there are.
#[derive(Clone, Copy, Debug)]
pub struct Doctor<'a> {
    /// What to look at.
    pub look: Look<'a>,
    /// Whether to mend what is found, where that is safe.
    pub repair: bool,
}

/// The parts of a queue.
#[derive(Clone, Copy, Debug)]
pub enum Look<'a> {
    /// These jobs: in the one set of their state, their rows whole, their unique keys held. At most
    /// [`Look::MAX_SUBJECTS`].
    Jobs(&'a [Seat]),
    /// These lanes: in the ring exactly when serviceable, their settings numbers. At most
    /// [`Look::MAX_SUBJECTS`].
    Lanes(&'a [Standing]),
    /// The counts of leases out, of all lanes at once. At most 1,000 findings.
    Leases,
    /// These unique keys: held for jobs that have them. At most [`Look::MAX_SUBJECTS`].
    Unique(&'a [Bytes]),
    /// The queue's own facts and its wake tokens. A lost wake is found when the mark that an earlier
    /// look answered still fits: nobody took anything in between.
    Queue {
        /// [`Next::Mark`] of an earlier look.
        mark: Option<&'a [u8]>,
    },
}

impl Look<'_> {
    /// The most jobs, lanes or keys of a call.
    pub const MAX_SUBJECTS: usize = 200;
}

/// A job to examine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The lane where it was seen. The four fixed sets and the row's own lane are looked into
    /// anyway.
    pub lane: Option<BrandedId>,
    /// The id; any bytes may be a member of a set.
    pub id: Bytes,
}

/// A lane to examine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The lane; any bytes may be in the ring.
    pub lane: Bytes,
    /// How often it was seen in the ring just now: 0, 1, or 2 for more. The ring is walked only for
    /// a lane that wasn't seen as often as it should be, so this may be wrong.
    pub seen: u8,
}

/// What a [`Doctor`] call found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doctored {
    /// How to go on.
    pub next: Next,
    /// The findings.
    pub diagnoses: Vec<Diagnosis>,
}

/// How to go on after a [`Doctor`] call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// So many of the subjects were examined, at least one when any was given; send the others
    /// again.
    Examined(usize),
    /// Whether the same call would mend more.
    Again(bool),
    /// Work waits and no token stands: look again later with this mark. Empty: nothing to suspect.
    Mark(Bytes),
}

impl ScriptCall for Doctor<'_> {
    type Reply = Doctored;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Doctor,
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
        args: &["base", "look", "repair"],
        tail: Some("subjects"),
        returns: "{next, findings}: next is the count of subjects examined (jobs, lanes, unique); \
                  1: call again, more can be mended | 0 (leases); or the mark (queue); findings \
                  are four values each: kind, subject, detail, 1 mended | 0 not",
        refuses: &[RefusalClass::Arg, RefusalClass::Limit],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let (word, subjects) = match self.look {
            Look::Jobs(seats) => ("jobs", seats.len() * 2),
            Look::Lanes(standings) => ("lanes", standings.len() * 2),
            Look::Leases => ("leases", 0),
            Look::Unique(keys) => ("unique", keys.len() * 2),
            Look::Queue { .. } => ("queue", 8),
        };
        let mut cmd = begin(&Self::CONTRACT, script, keys, 48 + subjects * 24);
        cmd.push(word);
        push_flag(&mut cmd, self.repair);
        match self.look {
            Look::Jobs(seats) => {
                for seat in seats {
                    cmd.push(seat.lane.as_ref().map_or(&[][..], |lane| lane.as_bytes()));
                    cmd.push(&seat.id);
                }
            }
            Look::Lanes(standings) => {
                for standing in standings {
                    cmd.push_int(standing.seen.into());
                    cmd.push(&standing.lane);
                }
            }
            Look::Leases => {}
            Look::Unique(keys) => keys.iter().for_each(|key| cmd.push(key)),
            Look::Queue { mark } => cmd.push(mark.unwrap_or_default()),
        }
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Doctored> {
        let (next, values) = reply.as_array()?.split_first()?;
        let next = match (self.look, next) {
            (Look::Jobs(_) | Look::Lanes(_) | Look::Unique(_), next) => {
                Next::Examined(usize::try_from(read::count(next)?).ok()?)
            }
            (Look::Leases, Reply::Int(0)) => Next::Again(false),
            (Look::Leases, Reply::Int(1)) => Next::Again(true),
            (Look::Queue { .. }, Reply::Bulk(mark)) => Next::Mark(mark.clone()),
            _ => return None,
        };
        let findings = values.chunks_exact(4);
        if !findings.remainder().is_empty() {
            return None;
        }
        let diagnoses = findings.map(read_diagnosis).collect::<Option<_>>()?;
        Some(Doctored { next, diagnoses })
    }
}

fn read_diagnosis(values: &[Reply]) -> Option<Diagnosis> {
    let [Reply::Bulk(kind), Reply::Bulk(subject), Reply::Bulk(detail), Reply::Int(mended)] = values
    else {
        return None;
    };
    let finding = Finding::read(kind, subject, detail);
    Some(Diagnosis { finding, mended: *mended == 1 })
}
