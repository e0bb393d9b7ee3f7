//! The table itself: what each cell answers and leaves behind.

use std::time::Duration;

use emq_keys::QueueKeys;
use emq_scripts::{
    CallError, Checkpoint, Complete, Completed, Extend, Extended, Fenced, RefusalClass, Release,
    Retried, Retry,
};

use crate::support::job;
use crate::world::{JOB, TICKET, TOKEN, Timed, World, group, id};

const LEASE_MS: i64 = 60_000;
const DELAY_MS: i64 = 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Active,
    /// Past its deadline, not reaped: still a live lease.
    Expired,
    PendingReaped,
    DeadReaped,
    Scheduled,
    NoRow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Complete,
    /// One failure below the cap: 3 attempts of which 1 was lost, and a cap of 3.
    RetryBelowCap,
    /// At the cap: the same, and a cap of 2.
    RetryAtCap,
    /// Far below the cap, but dead on request; without an error of its own.
    RetryForced,
    Release,
    Extend,
    Checkpoint,
    CheckpointAndExtend,
    /// An empty checkpoint removes the old one: no field is ever written empty.
    CheckpointCleared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    Right,
    /// A token that isn't one.
    ZeroToken,
    OldToken,
    /// A token that nobody was given yet.
    NextToken,
    OtherTicket,
    /// None where there is one, one where there is none.
    SwappedTicket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Flat,
    /// Nothing else in it.
    Alone,
    /// More waits, a lease is out, no ceiling.
    Busy,
    /// The job's own lease is what closes it.
    AtCeiling,
    /// Open while the job isn't active itself; one more lease closes it.
    Narrow,
    /// Closed whatever happens to the job: its ceiling was lowered.
    OverCeiling,
    /// Nothing else waits in a closed lane.
    AloneAndClosed,
    /// An operator parked it.
    Parked,
}

/// A lane, the job itself not counted.
pub(crate) struct LaneFacts {
    pub(crate) waiting: u64,
    pub(crate) leases: u64,
    pub(crate) ceiling: Option<i64>,
    pub(crate) parked: bool,
}

#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) place: Place,
    pub(crate) verb: Verb,
    pub(crate) auth: Auth,
    /// Whether the claim carried a ticket. Such a job was also asked to cancel.
    pub(crate) ticketed: bool,
    pub(crate) lane: Lane,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    NoRow,
    Scheduled,
    Dead,
    Held,
    CancelAsked,
    Refused(RefusalClass),
}

impl Verb {
    pub(crate) const ALL: [Verb; 9] = [
        Verb::Complete,
        Verb::RetryBelowCap,
        Verb::RetryAtCap,
        Verb::RetryForced,
        Verb::Release,
        Verb::Extend,
        Verb::Checkpoint,
        Verb::CheckpointAndExtend,
        Verb::CheckpointCleared,
    ];

    fn is_retry(self) -> bool {
        matches!(self, Self::RetryBelowCap | Self::RetryAtCap | Self::RetryForced)
    }
}

impl Auth {
    pub(crate) const ALL: [Auth; 6] = [
        Auth::Right,
        Auth::ZeroToken,
        Auth::OldToken,
        Auth::NextToken,
        Auth::OtherTicket,
        Auth::SwappedTicket,
    ];
}

impl Lane {
    pub(crate) const ALL: [Lane; 8] = [
        Lane::Flat,
        Lane::Alone,
        Lane::Busy,
        Lane::AtCeiling,
        Lane::Narrow,
        Lane::OverCeiling,
        Lane::AloneAndClosed,
        Lane::Parked,
    ];

    pub(crate) fn facts(self) -> Option<LaneFacts> {
        let facts =
            |waiting, leases, ceiling, parked| Some(LaneFacts { waiting, leases, ceiling, parked });
        match self {
            Self::Flat => None,
            Self::Alone => facts(0, 0, None, false),
            Self::Busy => facts(2, 1, None, false),
            Self::AtCeiling => facts(2, 1, Some(2), false),
            Self::Narrow => facts(2, 0, Some(1), false),
            Self::OverCeiling => facts(2, 2, Some(2), false),
            Self::AloneAndClosed => facts(0, 1, Some(1), false),
            Self::Parked => facts(2, 1, None, true),
        }
    }
}

impl Cell {
    fn token(&self) -> u64 {
        match self.auth {
            Auth::ZeroToken => 0,
            Auth::OldToken => TOKEN - 1,
            Auth::NextToken => TOKEN + 1,
            Auth::Right | Auth::OtherTicket | Auth::SwappedTicket => TOKEN,
        }
    }

    fn ticket(&self) -> Option<&'static str> {
        match self.auth {
            Auth::OtherTicket => Some("you.1"),
            Auth::SwappedTicket => (!self.ticketed).then_some(TICKET),
            _ => self.ticketed.then_some(TICKET),
        }
    }

    /// Makes the call.
    pub(crate) async fn settle(&self, fenced: &Fenced, keys: &QueueKeys) -> Answer {
        let (id, token, ticket) = (job(JOB), self.token(), self.ticket());
        let lease = Duration::from_millis(LEASE_MS.unsigned_abs());
        let delay = Duration::from_millis(DELAY_MS.unsigned_abs());
        let retry = |max_attempts, error, force_dead| Retry {
            id,
            token,
            ticket,
            delay,
            max_attempts,
            error,
            force_dead,
        };
        let checkpoint = |lease, data| Checkpoint { id, token, ticket, lease, data };
        let answer = match self.verb {
            Verb::Complete => {
                fenced.call(keys, &Complete { id, token, ticket }).await.map(Answer::from)
            }
            Verb::RetryBelowCap => {
                fenced.call(keys, &retry(3, "why", false)).await.map(Answer::from)
            }
            Verb::RetryAtCap => fenced.call(keys, &retry(2, "why", false)).await.map(Answer::from),
            Verb::RetryForced => fenced.call(keys, &retry(99, "", true)).await.map(Answer::from),
            Verb::Release => {
                fenced.call(keys, &Release { id, token, ticket }).await.map(|()| Answer::Done)
            }
            Verb::Extend => {
                fenced.call(keys, &Extend { id, token, ticket, lease }).await.map(Answer::from)
            }
            Verb::Checkpoint => {
                fenced.call(keys, &checkpoint(None, b"new")).await.map(Answer::from)
            }
            Verb::CheckpointAndExtend => {
                fenced.call(keys, &checkpoint(Some(lease), b"new")).await.map(Answer::from)
            }
            Verb::CheckpointCleared => {
                fenced.call(keys, &checkpoint(None, b"")).await.map(Answer::from)
            }
        };
        match answer {
            Ok(answer) => answer,
            Err(CallError::Refused { class, .. }) => Answer::Refused(class),
            Err(error) => panic!("{error:?}"),
        }
    }

    /// What must be answered and what must be left, given what was there.
    pub(crate) fn expect(&self, before: &World) -> (Answer, World) {
        let mut world = before.clone();
        let answer = self.apply(&mut world);
        if world != *before {
            // What changed of the lane, for the ring and for the wake.
            let group = group();
            world.gactive = world.leases();
            world.lanes.retain(|_, jobs| !jobs.is_empty());
            match (before.is_serviceable(&group), world.is_serviceable(&group)) {
                (false, true) => {
                    world.ring.push(group);
                    world.wake = 1;
                }
                (true, false) => world.ring.retain(|lane| *lane != group),
                _ => {}
            }
        }
        (answer, world)
    }

    fn apply(&self, world: &mut World) -> Answer {
        if self.auth == Auth::ZeroToken {
            return Answer::Refused(RefusalClass::Arg);
        }
        let stale = Answer::Refused(RefusalClass::Stale);
        if self.place == Place::NoRow {
            let retires = self.verb == Verb::Complete || self.verb.is_retry();
            return if retires { Answer::NoRow } else { stale };
        }
        if self.auth != Auth::Right {
            return stale;
        }
        if self.verb == Verb::Complete {
            return complete(world);
        }
        if !matches!(self.place, Place::Active | Place::Expired) {
            return stale;
        }
        match self.verb {
            Verb::Complete => complete(world),
            Verb::RetryBelowCap => {
                world.active.remove(&id());
                world.timed.push((Timed::Schedule, DELAY_MS));
                self.fail(world, "scheduled", Some("why"));
                // It became the earliest of the schedule.
                world.wake = 1;
                Answer::Scheduled
            }
            Verb::RetryAtCap | Verb::RetryForced => {
                world.active.remove(&id());
                world.dead.insert(id());
                self.fail(world, "dead", (self.verb == Verb::RetryAtCap).then_some("why"));
                Answer::Dead
            }
            Verb::Release => self.release(world),
            Verb::Extend => {
                world.timed.push((Timed::Active, LEASE_MS));
                self.held()
            }
            Verb::Checkpoint | Verb::CheckpointAndExtend | Verb::CheckpointCleared => {
                let row = world.rows.get_mut(&id()).unwrap();
                if self.verb == Verb::CheckpointCleared {
                    row.remove("checkpoint");
                } else {
                    row.insert("checkpoint".to_owned(), "new".to_owned());
                }
                if self.verb == Verb::CheckpointAndExtend {
                    world.timed.push((Timed::Active, LEASE_MS));
                }
                self.held()
            }
        }
    }

    /// Retry and release take the holder off; the checkpoint and the wish to cancel stay.
    fn fail(&self, world: &mut World, state: &str, error: Option<&str>) {
        let row = world.rows.get_mut(&id()).unwrap();
        row.insert("state".to_owned(), state.to_owned());
        row.remove("holder");
        row.remove("last_error");
        row.extend(error.map(|error| ("last_error".to_owned(), error.to_owned())));
    }

    fn release(&self, world: &mut World) -> Answer {
        world.active.remove(&id());
        let row = world.rows.get_mut(&id()).unwrap();
        row.insert("state".to_owned(), "pending".to_owned());
        row.insert("forgiven".to_owned(), "1".to_owned());
        row.remove("holder");
        if self.lane == Lane::Flat {
            world.pending.insert(id());
            world.wake = 1;
        } else {
            world.enter_lane();
            world.wake = usize::from(world.is_serviceable(&group()));
        }
        Answer::Done
    }

    fn held(&self) -> Answer {
        if self.ticketed { Answer::CancelAsked } else { Answer::Held }
    }
}

/// The job goes, wherever it sits.
fn complete(world: &mut World) -> Answer {
    let id = id();
    world.rows.remove(&id);
    world.pending.remove(&id);
    world.active.remove(&id);
    world.schedule.remove(&id);
    world.dead.remove(&id);
    world.unique.retain(|_, holder| *holder != id);
    for jobs in world.lanes.values_mut() {
        jobs.remove(&id);
    }
    Answer::Done
}

impl From<Completed> for Answer {
    fn from(completed: Completed) -> Self {
        match completed {
            Completed::Done => Self::Done,
            Completed::NoRow => Self::NoRow,
        }
    }
}

impl From<Retried> for Answer {
    fn from(retried: Retried) -> Self {
        match retried {
            Retried::Scheduled => Self::Scheduled,
            Retried::Dead => Self::Dead,
            Retried::NoRow => Self::NoRow,
        }
    }
}

impl From<Extended> for Answer {
    fn from(extended: Extended) -> Self {
        match extended {
            Extended::Held => Self::Held,
            Extended::CancelAsked => Self::CancelAsked,
        }
    }
}
