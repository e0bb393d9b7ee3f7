//! Random steps, biased to states where something can go wrong.

mod admit;
mod hold;

use std::collections::VecDeque;

use emq_keys::BrandedId;
use fastrand::Rng;

use super::answer::Answer;
use super::malformed::faults;
use super::step::{Held, Step};
use super::world::World;
use crate::support::{branded, job, lane};

/// Jobs of most steps: few, so that they meet each other.
const JOBS: u64 = 16;
/// Jobs of bursts, beyond those.
const BURST: u64 = 80;
/// Lanes.
pub(crate) const LANES: u64 = 3;
/// Long after the test, unix ms.
const FAR_MS: u64 = 4_000_000_000_000;
/// What is expired or due lies before it, unix ms.
const SOON_MS: u64 = 5;
const HOUR_MS: u64 = 3_600_000;
/// How many claims are remembered for stale settles.
const MEMORY: usize = 16;

/// Makes steps from a seed. What it makes depends on what the steps before came to.
pub(crate) struct Generator {
    rng: Rng,
    claims: VecDeque<Held>,
    last_settle: Option<Step>,
    tickets: u64,
    /// Whether turns are among the steps; without them the single verbs come more often.
    turns: bool,
}

type Make = fn(&mut Generator, &World) -> Step;

/// How often each kind of step comes.
const WEIGHTS: &[(u32, Make)] = &[
    (80, |it, world| it.enqueue(world)),
    (110, |it, world| it.lane_enqueue(world)),
    (60, |it, world| it.schedule(world)),
    (60, |it, world| it.enqueue_many(world)),
    (110, |it, world| it.claim(world)),
    (130, |it, world| it.lane_claim(world)),
    (250, |it, world| it.turn(world)),
    (90, |it, world| it.complete(world)),
    (130, |it, world| it.retry(world)),
    (60, |it, world| it.settle(world, Step::Release)),
    (40, |it, world| it.extend(world)),
    (60, |it, world| it.checkpoint(world)),
    (80, |it, world| it.expire(world)),
    (130, |it, world| it.reap(world)),
    (60, |it, world| it.make_due(world)),
    (80, |it, world| it.promote(world)),
    (50, |it, world| it.cancel(world)),
    (40, |it, world| it.requeue(world)),
    (25, |it, world| Step::Remove(it.any_job(world))),
    (50, |it, world| it.purge(world)),
    (10, |it, _| it.drain()),
    (8, |_, _| Step::QueuePause),
    (20, |it, world| it.queue_resume(world)),
    (12, |_, _| Step::Nudge),
    (50, |it, _| Step::Malformed(it.rng.usize(..faults().len()))),
    (8, |_, _| Step::ForgetScripts),
    (8, |it, world| Step::Tear(it.any_job(world))),
    (60, |it, world| it.lane_limit(world)),
    (20, |it, _| Step::LaneWeight { group: it.lane(), weight: it.rng.u32(1..4) }),
    (20, |it, world| it.lane_pause(world)),
    (30, |it, _| Step::LaneResume(it.lane())),
    (35, |it, world| it.reassign(world)),
];

/// The steps that may have to push a token.
const WAKING: &[Make] = &[
    |it, world| it.enqueue(world),
    |it, world| it.lane_enqueue(world),
    |it, world| it.schedule(world),
    |it, world| it.enqueue_many(world),
    |it, world| it.claim(world),
    |it, world| it.lane_claim(world),
    |it, world| it.turn(world),
    |it, world| it.turn(world),
    |it, world| it.complete(world),
    |it, world| it.retry(world),
    |it, world| it.settle(world, Step::Release),
    |it, world| it.reap(world),
    |it, world| it.promote(world),
    |it, world| it.requeue(world),
    |it, world| it.lane_limit(world),
    |it, _| Step::LaneResume(it.lane()),
    |it, world| it.reassign(world),
    |_, _| Step::QueueResume,
];

impl Generator {
    /// Even seeds make turns too.
    pub(crate) fn new(seed: u64) -> Generator {
        let (rng, turns) = (Rng::with_seed(seed), seed.is_multiple_of(2));
        Generator { rng, claims: VecDeque::new(), last_settle: None, tickets: 0, turns }
    }

    /// The next step.
    pub(crate) fn next(&mut self, world: &World) -> Step {
        if world.rows.len() > 30 && self.rng.u8(..4) == 0 {
            return Step::Drain { scheduled: true, limit: self.rng.u32(1..60) };
        }
        // A standing token hides that none was pushed, so a step that should push one often finds
        // none.
        if world.wake > 0 && self.rng.u8(..3) == 0 {
            return Step::EatWake { all: self.mostly() };
        }
        if world.wake == 0 && self.rng.bool() {
            return WAKING[self.rng.usize(..WAKING.len())](self, world);
        }
        if let Some(again) = self.last_settle.take_if(|_| self.rng.u8(..6) == 0) {
            return again;
        }
        let total: u32 = WEIGHTS.iter().map(|(weight, _)| weight).sum();
        let mut roll = self.rng.u32(..total);
        for (weight, make) in WEIGHTS {
            match roll.checked_sub(*weight) {
                Some(rest) => roll = rest,
                None => return make(self, world),
            }
        }
        unreachable!("the roll is below the sum of the weights")
    }

    /// Learns what a step came to: claims for later, and the last settle to be sent again.
    pub(crate) fn learn(&mut self, step: &Step, answer: &Answer) {
        let claimed: Vec<(BrandedId, u64)> = match answer {
            Answer::Claimed(claimed) => claimed.iter().map(|job| (job.id, job.token)).collect(),
            Answer::Turned(turned) => turned.jobs.iter().map(|job| (job.id, job.token)).collect(),
            _ => Vec::new(),
        };
        let ticket = match step {
            Step::Claim { ticket, .. } | Step::LaneClaim { ticket, .. } => ticket.clone(),
            Step::Turn(beat) => beat.ticket.clone(),
            _ => None,
        };
        for (id, token) in claimed {
            self.claims.push_front(Held { id, token, ticket: ticket.clone() });
        }
        self.claims.truncate(MEMORY);
        if matches!(step, Step::Complete(_) | Step::Retry(_) | Step::Release(_) | Step::Turn(_)) {
            self.last_settle = Some(step.clone());
        }
    }

    fn expire(&mut self, world: &World) -> Step {
        match self.rng.choice(world.active.keys()) {
            Some(id) => Step::Expire { id: *id, deadline_ms: self.rng.u64(1..SOON_MS) },
            None => self.claim(world),
        }
    }

    /// Mostly when a lease is over.
    fn reap(&mut self, world: &World) -> Step {
        if world.active.values().all(|at| *at >= SOON_MS) && self.mostly() {
            return self.expire(world);
        }
        Step::Reap { limit: self.limit(200), lost_cap: self.rng.u32(1..4) }
    }

    fn make_due(&mut self, world: &World) -> Step {
        match self.rng.choice(world.schedule.keys()) {
            Some(id) => Step::MakeDue { id: *id, run_at_ms: self.rng.u64(1..SOON_MS) },
            None => self.schedule(world),
        }
    }

    /// Mostly when a job is due.
    fn promote(&mut self, world: &World) -> Step {
        if world.schedule.values().all(|at| *at >= SOON_MS) && self.mostly() {
            return self.make_due(world);
        }
        Step::Promote { limit: self.limit(200) }
    }

    fn requeue(&mut self, world: &World) -> Step {
        let dead = self.rng.choice(world.dead.iter().copied());
        match dead.filter(|_| self.mostly()) {
            Some(id) => Step::Requeue(id),
            None => Step::Requeue(self.any_job(world)),
        }
    }

    /// Often of a running job.
    fn cancel(&mut self, world: &World) -> Step {
        let running = self.rng.choice(world.active.keys().copied());
        let any = self.any_job(world);
        Step::Cancel(running.filter(|_| self.rng.u8(..3) == 0).unwrap_or(any))
    }

    /// Mostly when more lie there than a small limit takes.
    fn purge(&mut self, world: &World) -> Step {
        if world.dead.len() < 2 && self.mostly() {
            return self.retry(world);
        }
        let before = if self.rng.bool() { Some(self.any_job(world)) } else { None };
        Step::Purge { before, limit: if self.mostly() { 1 } else { self.limit(1000) } }
    }

    fn drain(&mut self) -> Step {
        Step::Drain { scheduled: self.rng.bool(), limit: self.limit(1000) }
    }

    fn queue_resume(&mut self, world: &World) -> Step {
        if world.paused || !self.mostly() { Step::QueueResume } else { self.lane_enqueue(world) }
    }

    /// Often just what is leased: the lane is full.
    fn lane_limit(&mut self, world: &World) -> Step {
        let group = self.lane();
        let leases = world.lanes.get(&group).map_or(0, |lane| lane.leases);
        let limit = match u32::try_from(leases) {
            Ok(leases) if leases > 0 && self.rng.bool() => leases,
            _ => self.rng.u32(..4),
        };
        Step::LaneLimit { group, limit }
    }

    /// Often one that is served.
    fn lane_pause(&mut self, world: &World) -> Step {
        let served = self.rng.choice(world.ring.iter().copied());
        let lane = self.lane();
        Step::LanePause(served.filter(|_| self.rng.bool()).unwrap_or(lane))
    }

    /// A job, or a backlog.
    fn reassign(&mut self, world: &World) -> Step {
        let to = if self.mostly() { Some(self.lane()) } else { None };
        if self.rng.bool() {
            return Step::Reassign { id: self.any_job(world), to };
        }
        let from = if self.mostly() { Some(self.lane()) } else { None };
        Step::ReassignBacklog { from, to, limit: self.limit(200) }
    }

    /// Small, or the most that is allowed.
    fn limit(&mut self, most: u32) -> u32 {
        if self.rng.u8(..4) == 0 { most } else { self.rng.u32(1..4) }
    }

    /// A job that waits in its lane alone: the lane is empty without it.
    fn lonely(&mut self, world: &World) -> Option<BrandedId> {
        let lonely = world.lanes.values().filter(|lane| lane.waiting.len() == 1);
        let lonely: Vec<BrandedId> = lonely.flat_map(|lane| lane.waiting.iter().copied()).collect();
        self.rng.choice(lonely)
    }

    /// One that is there, mostly; often one that its lane would miss.
    fn any_job(&mut self, world: &World) -> BrandedId {
        if let Some(id) = self.lonely(world).filter(|_| self.rng.u8(..4) == 0) {
            return id;
        }
        let there: Vec<BrandedId> = world.rows.keys().copied().collect();
        let any = match self.rng.u8(..50) {
            0 => branded("TEN", 1),
            // Some of them are never there.
            _ => job(self.rng.u64(..2 * JOBS)),
        };
        if self.rng.u8(..5) == 0 { any } else { self.rng.choice(there).unwrap_or(any) }
    }

    fn mostly(&mut self) -> bool {
        self.rng.u8(..4) > 0
    }

    fn lane(&mut self) -> BrandedId {
        lane(self.rng.u64(..LANES))
    }
}
