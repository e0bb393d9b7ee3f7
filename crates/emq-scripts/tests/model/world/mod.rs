//! The model: what bundle.md and machine.md say a queue is and what each verb does to it.
//!
//! It is written from the specification, as plainly as it can be, and shares nothing with the
//! scripts: serviceability is computed before and after each change of a lane, and the rest
//! follows.

mod admit;
mod claim;
mod facts;
mod lanes;
mod operator;
mod settle;
mod timers;
mod turn;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use emq_keys::BrandedId;
use emq_scripts::Reaped;

use super::answer::Answer;
use super::malformed;
use super::snapshot::Snapshot;
use super::step::{Options, Step};

/// The most tokens that stand in `wake`.
const WAKE_MAX: usize = 64;

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Active,
    Scheduled,
    Dead,
}

/// A job's row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) state: State,
    /// The fencing token.
    pub(crate) attempts: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) group: Option<BrandedId>,
    pub(crate) holder: Option<String>,
    pub(crate) lost: u64,
    pub(crate) forgiven: u64,
    pub(crate) last_error: Option<String>,
    pub(crate) checkpoint: Option<Vec<u8>>,
    pub(crate) options: Options,
    pub(crate) cancel: bool,
}

/// A lane and what an operator said of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) waiting: BTreeSet<BrandedId>,
    pub(crate) leases: u64,
    pub(crate) ceiling: Option<u32>,
    pub(crate) weight: Option<u32>,
    pub(crate) parked: bool,
}

impl Lane {
    /// Non-empty, not paused, and below its ceiling.
    pub(crate) fn is_serviceable(&self) -> bool {
        !self.waiting.is_empty()
            && !self.parked
            && self.ceiling.is_none_or(|ceiling| self.leases < u64::from(ceiling))
    }

    /// A job waits here no more.
    pub(super) fn drop_waiting(&mut self, id: BrandedId) {
        self.waiting.remove(&id);
    }
}

/// A queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) rows: BTreeMap<BrandedId, Row>,
    pub(crate) pending: BTreeSet<BrandedId>,
    /// Id -> lease deadline.
    pub(crate) active: BTreeMap<BrandedId, u64>,
    /// Id -> run-at.
    pub(crate) schedule: BTreeMap<BrandedId, u64>,
    pub(crate) dead: BTreeSet<BrandedId>,
    pub(crate) lanes: BTreeMap<BrandedId, Lane>,
    pub(crate) ring: VecDeque<BrandedId>,
    /// How many tokens stand.
    pub(crate) wake: usize,
    pub(crate) unique: BTreeMap<String, BrandedId>,
    pub(crate) paused: bool,
    /// Lane turns until the flat set is due.
    pub(crate) left: Option<u64>,
    /// The lane at the head whose share was interrupted, and how much of it is spent.
    pub(crate) spent: Option<(BrandedId, u32)>,
}

/// What can't be foretold: the server's clock within its bounds, and a choice that the
/// specification leaves open. It is taken from what the queue held afterwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    /// The server's clock before the step, unix ms.
    pub(crate) from_ms: u64,
    /// And after it.
    pub(crate) to_ms: u64,
    pub(crate) after: &'a Snapshot,
    /// How long a turn's answer says that nothing happens by itself.
    pub(crate) next_ms: Option<u64>,
}

impl Moment<'_> {
    /// A score of now + `offset_ms`: the server's own, if it lies between the bounds.
    fn stamp(&self, set: &str, id: BrandedId, offset_ms: u64) -> u64 {
        let allowed = self.from_ms + offset_ms..=self.to_ms + offset_ms;
        let seen = self.after.zset(set).get(id.as_str()).copied();
        seen.filter(|score| allowed.contains(score)).unwrap_or(*allowed.start())
    }

    /// Whether a time was still to come; one that the clock passed meanwhile is if its id stands in
    /// the set.
    fn is_later(&self, set: &str, id: BrandedId, unix_ms: u64) -> bool {
        unix_ms > self.to_ms
            || unix_ms > self.from_ms && self.after.zset(set).contains_key(id.as_str())
    }
}

impl World {
    /// Takes a step and says what it answers.
    pub(crate) fn apply(&mut self, step: &Step, moment: &Moment<'_>) -> Answer {
        match step {
            Step::Enqueue { job, .. } | Step::Schedule { job, .. } => self.admit_one(job, moment),
            Step::LaneEnqueue { job, group, .. } => self.lane_enqueue(job, *group, moment),
            Step::EnqueueMany { items, .. } => self.admit_many(items, moment),
            Step::Claim { lease_ms, ticket } => self.claim(*lease_ms, ticket.as_deref(), moment),
            Step::LaneClaim { lease_ms, ticket } => {
                self.lane_claim(*lease_ms, ticket.as_deref(), moment)
            }
            Step::Complete(held) => self.complete(held),
            Step::Retry(failed) => self.retry(failed, moment),
            Step::Release(held) => self.release(held),
            Step::Extend { held, lease_ms } => self.extend(held, Some(*lease_ms), moment),
            Step::Checkpoint { held, lease_ms, data } => {
                self.checkpoint(held, *lease_ms, data, moment)
            }
            Step::Promote { limit } => Answer::Count(self.promote(*limit, moment)),
            Step::Reap { limit, lost_cap } => {
                let (returned, buried) = self.reap(*limit, *lost_cap, moment);
                Answer::Reaped(Reaped { returned, buried })
            }
            Step::Cancel(id) => self.cancel(*id),
            Step::Requeue(id) => self.requeue(*id),
            Step::Remove(id) => self.remove(*id),
            Step::Purge { before, limit } => Answer::Count(self.purge(*before, *limit)),
            Step::Drain { scheduled, limit } => {
                Answer::Count(self.drain(*scheduled, *limit, moment))
            }
            Step::QueuePause => self.queue_pause(),
            Step::QueueResume => self.queue_resume(),
            Step::LaneLimit { group, limit } => self.lane_limit(*group, *limit),
            Step::LaneWeight { group, weight } => self.lane_weight(*group, *weight),
            Step::LanePause(group) => self.lane_park(*group, true),
            Step::LaneResume(group) => self.lane_park(*group, false),
            Step::Reassign { id, to } => self.reassign(*id, *to),
            Step::ReassignBacklog { from, to, limit } => self.reassign_backlog(*from, *to, *limit),
            Step::Nudge => self.nudge(),
            Step::Turn(beat) => self.turn(beat, moment),
            Step::Malformed(fault) => Answer::Refused(malformed::faults()[*fault].class.clone()),
            planted => self.plant(planted),
        }
    }

    /// What the test itself does to the queue.
    fn plant(&mut self, step: &Step) -> Answer {
        match step {
            Step::Expire { id, deadline_ms } => {
                self.active.entry(*id).and_modify(|score| *score = *deadline_ms);
            }
            Step::MakeDue { id, run_at_ms } => {
                self.schedule.entry(*id).and_modify(|score| *score = *run_at_ms);
            }
            Step::EatWake { all } => self.wake = if *all { 0 } else { self.wake.saturating_sub(1) },
            Step::Tear(id) => {
                if let Some(row) = self.rows.remove(id) {
                    self.free_unique(*id, &row);
                }
            }
            _ => {}
        }
        Answer::Planted
    }

    /// Every transition that makes a job runnable pushes one token if `wake` is empty; a batch of
    /// `n` pushes until there are min(n, 64).
    fn made_runnable(&mut self, n: usize) {
        self.wake = self.wake.max(n.min(WAKE_MAX));
    }

    /// A claim that leaves work behind passes the wake on; never while the queue is paused.
    fn cascade(&mut self) {
        if !self.paused && self.has_work() {
            self.made_runnable(1);
        }
    }

    /// Whether anything is runnable, were the queue not paused.
    pub(crate) fn has_work(&self) -> bool {
        !self.pending.is_empty() || !self.ring.is_empty()
    }

    /// Whether a due time comes before all that stand in the schedule.
    fn is_earliest(&self, due_ms: u64) -> bool {
        self.schedule.values().all(|other| due_ms < *other)
    }

    /// Puts a job with a row where it waits, and with it gives the lane's lease back if it held
    /// one. Answers whether it is runnable there.
    fn wait(&mut self, id: BrandedId, ends_lease: bool) -> bool {
        let Some(row) = self.rows.get_mut(&id) else { return false };
        row.state = State::Pending;
        let Some(group) = row.group else { return self.pending.insert(id) };
        self.change_lane(group, |lane| {
            lane.waiting.insert(id);
            lane.leases -= u64::from(ends_lease);
        });
        self.lanes[&group].is_serviceable()
    }

    /// Takes a job out of the set that it is in. Answers whether that opened its lane.
    fn leave(&mut self, id: BrandedId, row: &Row) -> bool {
        match (row.state, row.group) {
            (State::Pending, None) => {
                self.pending.remove(&id);
                false
            }
            (State::Pending, Some(group)) => self.change_lane(group, |lane| lane.drop_waiting(id)),
            (State::Active, group) => {
                self.active.remove(&id);
                group.is_some_and(|group| self.change_lane(group, |lane| lane.leases -= 1))
            }
            (State::Scheduled, _) => {
                self.schedule.remove(&id);
                false
            }
            (State::Dead, _) => {
                self.dead.remove(&id);
                false
            }
        }
    }

    /// The job is gone, wherever it was: its row, its place and its unique key. Answers whether
    /// that opened its lane.
    fn gone(&mut self, id: BrandedId) -> bool {
        let Some(row) = self.rows.remove(&id) else { return false };
        self.free_unique(id, &row);
        self.leave(id, &row)
    }

    /// Only the owner's end frees a unique key.
    fn free_unique(&mut self, id: BrandedId, row: &Row) {
        if let Some(key) = &row.options.unique
            && self.unique.get(key) == Some(&id)
        {
            self.unique.remove(key);
        }
    }

    /// The ids that stand in a set and have no row.
    pub(crate) fn torn(&self) -> BTreeSet<BrandedId> {
        let waiting = self.lanes.values().flat_map(|lane| &lane.waiting);
        let sets = self.pending.iter().chain(&self.dead).chain(waiting);
        let timed = self.active.keys().chain(self.schedule.keys());
        sets.chain(timed).filter(|id| !self.rows.contains_key(id)).copied().collect()
    }
}
