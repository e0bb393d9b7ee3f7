//! Random steps, biased to states where something can go wrong.

use std::collections::VecDeque;

use emq_keys::BrandedId;
use fastrand::Rng;

use super::answer::Answer;
use super::malformed::faults;
use super::step::{Admission, Due, Failed, Held, Options, Step};
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
    (90, |it, world| it.complete(world)),
    (130, |it, world| it.retry(world)),
    (60, |it, world| it.settle(world, Step::Release)),
    (40, |it, world| it.extend(world)),
    (60, |it, world| it.checkpoint(world)),
    (80, |it, world| it.expire(world)),
    (130, |it, world| it.reap(world)),
    (60, |it, world| it.make_due(world)),
    (80, |it, world| it.promote(world)),
    (50, |it, world| Step::Cancel(it.any_job(world))),
    (60, |it, world| it.requeue(world)),
    (25, |it, world| Step::Remove(it.any_job(world))),
    (25, |it, world| it.purge(world)),
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
];

/// The steps that may have to push a token.
const WAKING: &[Make] = &[
    |it, world| it.enqueue(world),
    |it, world| it.lane_enqueue(world),
    |it, world| it.schedule(world),
    |it, world| it.enqueue_many(world),
    |it, world| it.claim(world),
    |it, world| it.lane_claim(world),
    |it, world| it.complete(world),
    |it, world| it.retry(world),
    |it, world| it.settle(world, Step::Release),
    |it, world| it.reap(world),
    |it, world| it.promote(world),
    |it, world| it.requeue(world),
    |it, world| it.lane_limit(world),
    |it, _| Step::LaneResume(it.lane()),
    |_, _| Step::QueueResume,
];

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        let rng = Rng::with_seed(seed);
        Generator { rng, claims: VecDeque::new(), last_settle: None, tickets: 0 }
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
        if let (
            Step::Claim { ticket, .. } | Step::LaneClaim { ticket, .. },
            Answer::Claimed(Some(claimed)),
        ) = (step, answer)
        {
            let (id, token, ticket) = (claimed.id, claimed.token, ticket.clone());
            self.claims.push_front(Held { id, token, ticket });
            self.claims.truncate(MEMORY);
        }
        if matches!(step, Step::Complete(_) | Step::Retry(_) | Step::Release(_)) {
            self.last_settle = Some(step.clone());
        }
    }

    fn enqueue(&mut self, world: &World) -> Step {
        let job = Admission { group: None, due: Due::Now, ..self.admission(world) };
        Step::Enqueue { job, durable: self.rng.bool() }
    }

    fn lane_enqueue(&mut self, world: &World) -> Step {
        let group = self.lane();
        let job = Admission { group: Some(group), due: Due::Now, ..self.admission(world) };
        Step::LaneEnqueue { job, group, durable: self.rng.bool() }
    }

    fn schedule(&mut self, world: &World) -> Step {
        let mut job = self.admission(world);
        job.due = match self.rng.u8(..8) {
            0 => Due::Now,
            1 => Due::At(self.rng.u64(..3)),
            2..4 => Due::In(self.rng.u64(..4) * HOUR_MS),
            _ => Due::At(self.far_ms(world)),
        };
        Step::Schedule { job, durable: self.rng.bool() }
    }

    fn enqueue_many(&mut self, world: &World) -> Step {
        let burst = self.rng.u8(..30) == 0;
        let count = if burst { self.rng.u64(60..BURST) } else { self.rng.u64(..8) };
        let mut items: Vec<Admission> = (0..count).map(|_| self.admission(world)).collect();
        if burst {
            let (group, flat) = (self.lane(), self.rng.bool());
            for (n, item) in (JOBS..).zip(&mut items) {
                item.id = job(n);
                item.due = if self.rng.u8(..8) == 0 { item.due } else { Due::Now };
                item.group = if flat { None } else { Some(group) };
            }
        }
        Step::EnqueueMany { items, durable: self.rng.bool() }
    }

    fn admission(&mut self, world: &World) -> Admission {
        let free = (0..JOBS).map(job).filter(|id| !world.rows.contains_key(id));
        let free: Vec<BrandedId> = free.collect();
        let id = match self.rng.u8(..40) {
            0 => branded("TEN", self.rng.u64(..JOBS)),
            1..20 => job(self.rng.u64(..JOBS)),
            _ => self.rng.choice(free).unwrap_or(job(0)),
        };
        let payload = match self.rng.u8(..8) {
            0 => Vec::new(),
            1 => vec![0, 255, b'\r', b'\n', self.rng.u8(..)],
            _ => format!("payload {}", self.rng.u16(..)).into_bytes(),
        };
        let group = if self.rng.bool() { Some(self.lane()) } else { None };
        let due = match self.rng.u8(..6) {
            0 => Due::At(self.rng.u64(..3)),
            1 | 2 => Due::At(self.far_ms(world)),
            _ => Due::Now,
        };
        Admission { id, payload, group, due, options: self.options() }
    }

    /// A time far off, often next to the first of the schedule, or equal to it.
    fn far_ms(&mut self, world: &World) -> u64 {
        match world.schedule.values().min() {
            Some(first) if *first > SOON_MS && self.mostly() => first + self.rng.u64(..3) - 1,
            _ => FAR_MS + self.rng.u64(..8),
        }
    }

    fn options(&mut self) -> Options {
        if self.rng.bool() {
            return Options::default();
        }
        Options {
            kind: self.rng.bool().then_some("mail"),
            headers: (self.rng.u8(..4) == 0).then_some("{\"traceparent\":\"00\"}"),
            max_attempts: self.rng.bool().then(|| self.rng.u32(1..4)),
            unique: self.rng.bool().then(|| format!("key {}", self.rng.u8(..3))),
        }
    }

    /// From the flat set; mostly from the lanes instead when only they have work.
    fn claim(&mut self, world: &World) -> Step {
        if let Some(step) = self.work(world) {
            return step;
        }
        let (lease_ms, ticket) = (self.lease_ms(), self.ticket());
        match world.pending.is_empty() && self.mostly() {
            true => Step::LaneClaim { lease_ms, ticket },
            false => Step::Claim { lease_ms, ticket },
        }
    }

    /// From the lanes; mostly from the flat set instead when only that has work.
    fn lane_claim(&mut self, world: &World) -> Step {
        if let Some(step) = self.work(world) {
            return step;
        }
        let (lease_ms, ticket) = (self.lease_ms(), self.ticket());
        match world.ring.is_empty() && self.mostly() {
            true => Step::Claim { lease_ms, ticket },
            false => Step::LaneClaim { lease_ms, ticket },
        }
    }

    /// A way to get work, mostly, when a claim would find none.
    fn work(&mut self, world: &World) -> Option<Step> {
        let idle = world.paused || !world.has_work();
        (idle && self.mostly()).then(|| match self.rng.u8(..6) {
            _ if world.paused => Step::QueueResume,
            0 | 1 => self.enqueue(world),
            2 | 3 => self.lane_enqueue(world),
            4 => self.promote(world),
            _ => self.requeue(world),
        })
    }

    fn lease_ms(&mut self) -> u64 {
        HOUR_MS * self.rng.u64(1..4)
    }

    /// A fresh one, one that a claim had before, or none.
    fn ticket(&mut self) -> Option<String> {
        match self.rng.u8(..8) {
            0 => self.claims.front().and_then(|held| held.ticket.clone()),
            1 | 2 => None,
            _ => {
                self.tickets += 1;
                Some(format!("{}.{}", ["ann", "bob"][self.rng.usize(..2)], self.tickets))
            }
        }
    }

    /// Somebody's proof: mostly the current one, else an old or a wrong one.
    fn held(&mut self, world: &World) -> Held {
        let roll = self.rng.u8(..20);
        let jobs: Vec<Held> = world
            .rows
            .iter()
            .filter(|(id, row)| row.attempts > 0 && (roll >= 12 || world.active.contains_key(id)))
            .map(|(id, row)| Held { id: *id, token: row.attempts, ticket: row.holder.clone() })
            .collect();
        let old = if self.claims.is_empty() { None } else { self.rng.choice(self.claims.clone()) };
        let mut held = match (roll, self.rng.choice(jobs), old) {
            (15..=16, _, Some(old)) | (_, None, Some(old)) => old,
            (_, Some(held), _) => held,
            (_, None, None) => {
                Held { id: job(self.rng.u64(..JOBS)), token: 1, ticket: self.ticket() }
            }
        };
        match roll {
            17 if held.token > 1 => held.token -= 1,
            17 | 18 => held.token += 1,
            19 => held.ticket = if held.ticket.is_some() { None } else { Some("eve.1".to_owned()) },
            11 => held.ticket = Some("ann.0".to_owned()),
            _ => {}
        }
        held
    }

    /// A settle; mostly a claim instead when nothing is leased.
    fn settle(&mut self, world: &World, settle: fn(Held) -> Step) -> Step {
        match world.active.is_empty() && self.mostly() {
            true => self.claim(world),
            false => settle(self.held(world)),
        }
    }

    /// Often late: of a job that is out of its holder's hands already.
    fn complete(&mut self, world: &World) -> Step {
        let lost = world.rows.iter().filter(|(id, row)| {
            row.attempts > 0 && row.holder.is_some() && !world.active.contains_key(id)
        });
        let lost: Vec<_> = lost.collect();
        match self.rng.choice(lost).filter(|_| self.rng.bool()) {
            Some((id, row)) => {
                let (id, token, ticket) = (*id, row.attempts, row.holder.clone());
                Step::Complete(Held { id, token, ticket })
            }
            None => self.settle(world, Step::Complete),
        }
    }

    fn retry(&mut self, world: &World) -> Step {
        if world.active.is_empty() && self.mostly() {
            return self.claim(world);
        }
        let error = match self.rng.u8(..10) {
            0 => String::new(),
            // The cut falls into a character of 2, 3 or 4 bytes, or right behind one.
            1 => {
                "x".repeat(self.rng.usize(..4)) + &["é", "€", "𝄞"][self.rng.usize(..3)].repeat(2100)
            }
            _ => format!("error {}", self.rng.u8(..)),
        };
        Step::Retry(Failed {
            held: self.held(world),
            delay_ms: if self.rng.u8(..4) == 0 { 0 } else { HOUR_MS * self.rng.u64(1..4) },
            max_attempts: self.rng.u32(1..5),
            error,
            force_dead: self.rng.u8(..8) == 0,
        })
    }

    /// Often the holder of a job that was called off.
    fn called_off(&mut self, world: &World) -> Held {
        let asked =
            world.rows.iter().filter(|(id, row)| row.cancel && world.active.contains_key(id));
        let asked: Vec<_> = asked.collect();
        match self.rng.choice(asked).filter(|_| self.rng.bool()) {
            Some((id, row)) => Held { id: *id, token: row.attempts, ticket: row.holder.clone() },
            None => self.held(world),
        }
    }

    fn extend(&mut self, world: &World) -> Step {
        Step::Extend { held: self.called_off(world), lease_ms: self.lease_ms() }
    }

    fn checkpoint(&mut self, world: &World) -> Step {
        let lease_ms = if self.rng.bool() { Some(self.lease_ms()) } else { None };
        let data = match self.rng.u8(..5) {
            0 => Vec::new(),
            1 => vec![0, 200, self.rng.u8(..)],
            _ => format!("half {}", self.rng.u8(..)).into_bytes(),
        };
        Step::Checkpoint { held: self.called_off(world), lease_ms, data }
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

    fn purge(&mut self, world: &World) -> Step {
        let before = if self.rng.bool() { Some(self.any_job(world)) } else { None };
        Step::Purge { before, limit: self.limit(1000) }
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

    /// Small, or the most that is allowed.
    fn limit(&mut self, most: u32) -> u32 {
        if self.rng.u8(..4) == 0 { most } else { self.rng.u32(1..4) }
    }

    /// One that is there, mostly.
    fn any_job(&mut self, world: &World) -> BrandedId {
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
