//! Claims, and what holders say of their jobs, rightly or not.

use super::{Generator, HOUR_MS, JOBS};
use crate::model::step::{Beat, Failed, Held, Outcome, Settled, Step};
use crate::model::world::World;
use crate::support::job;

impl Generator {
    /// From the flat set; mostly from the lanes instead when only they have work.
    pub(super) fn claim(&mut self, world: &World) -> Step {
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
    pub(super) fn lane_claim(&mut self, world: &World) -> Step {
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
    pub(super) fn settle(&mut self, world: &World, settle: fn(Held) -> Step) -> Step {
        match world.active.is_empty() && self.mostly() {
            true => self.claim(world),
            false => settle(self.held(world)),
        }
    }

    /// Often late: of a job that is out of its holder's hands already.
    pub(super) fn complete(&mut self, world: &World) -> Step {
        let lost = world.rows.iter().filter(|(id, row)| {
            row.attempts > 0 && row.holder.is_some() && !world.active.contains_key(id)
        });
        let lost: Vec<_> = lost.collect();
        let lonely = self.lonely(world);
        let missed = lost.iter().copied().find(|(id, _)| lonely == Some(**id));
        match missed.or(self.rng.choice(lost)).filter(|_| self.rng.bool()) {
            Some((id, row)) => {
                let (id, token, ticket) = (*id, row.attempts, row.holder.clone());
                Step::Complete(Held { id, token, ticket })
            }
            None => self.settle(world, Step::Complete),
        }
    }

    pub(super) fn retry(&mut self, world: &World) -> Step {
        if world.active.is_empty() && self.mostly() {
            return self.claim(world);
        }
        Step::Retry(Failed {
            held: self.held(world),
            delay_ms: self.delay_ms(),
            max_attempts: self.rng.u32(1..5),
            error: self.error(),
            force_dead: self.rng.u8(..4) == 0,
        })
    }

    fn delay_ms(&mut self) -> u64 {
        if self.rng.u8(..4) == 0 { 0 } else { HOUR_MS * self.rng.u64(1..4) }
    }

    fn error(&mut self) -> String {
        match self.rng.u8(..10) {
            0 => String::new(),
            // The cut falls into a character of 2, 3 or 4 bytes, or right behind one.
            1 => {
                "x".repeat(self.rng.usize(..4)) + &["é", "€", "𝄞"][self.rng.usize(..3)].repeat(2100)
            }
            _ => format!("error {}", self.rng.u8(..)),
        }
    }

    /// Often the holder of a job that was called off.
    fn called_off(&mut self, world: &World) -> Held {
        let asked =
            world.rows.iter().filter(|(id, row)| row.cancel && world.active.contains_key(id));
        let asked: Vec<_> = asked.collect();
        match self.rng.choice(asked).filter(|_| self.mostly()) {
            Some((id, row)) => Held { id: *id, token: row.attempts, ticket: row.holder.clone() },
            None => self.held(world),
        }
    }

    pub(super) fn extend(&mut self, world: &World) -> Step {
        Step::Extend { held: self.called_off(world), lease_ms: self.lease_ms() }
    }

    pub(super) fn checkpoint(&mut self, world: &World) -> Step {
        let lease_ms = if self.rng.bool() { Some(self.lease_ms()) } else { None };
        let data = match self.rng.u8(..5) {
            0 => Vec::new(),
            1 => vec![0, 200, self.rng.u8(..)],
            _ => format!("half {}", self.rng.u8(..)).into_bytes(),
        };
        Step::Checkpoint { held: self.called_off(world), lease_ms, data }
    }

    /// A worker's beat, with settles of what it holds and of what it holds no more.
    pub(super) fn turn(&mut self, world: &World) -> Step {
        if !self.turns {
            return if self.rng.bool() { self.complete(world) } else { self.lane_claim(world) };
        }
        let count = |it: &mut Self| if it.mostly() { it.rng.usize(..4) } else { it.rng.usize(..9) };
        let mut settles: Vec<Settled> = Vec::new();
        for _ in 0..count(self) {
            let again = settles.last().filter(|_| self.rng.u8(..6) == 0);
            let held = again.map(|settled| settled.held.clone());
            let held = held.unwrap_or_else(|| self.held(world));
            settles.push(Settled { held, outcome: self.outcome() });
        }
        Step::Turn(Beat {
            lease_ms: self.lease_ms(),
            ticket: self.ticket(),
            claim: [0, 1, 2, 5, 8, 200][self.rng.usize(..6)],
            promote: if self.rng.bool() { self.limit(200) } else { 0 },
            reap: if self.rng.bool() { self.limit(200) } else { 0 },
            lost_cap: self.rng.u32(1..4),
            max_attempts: self.rng.u32(1..5),
            settles,
            extensions: (0..self.rng.usize(..3)).map(|_| self.called_off(world)).collect(),
        })
    }

    fn outcome(&mut self) -> Outcome {
        match self.rng.u8(..4) {
            0 => Outcome::Complete,
            1 => Outcome::Release,
            _ => {
                let (delay_ms, error) = (self.delay_ms(), self.error());
                Outcome::Retry { delay_ms, error, force_dead: self.rng.u8(..8) == 0 }
            }
        }
    }
}
