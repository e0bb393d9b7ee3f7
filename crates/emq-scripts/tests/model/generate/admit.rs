//! Admissions.

use emq_keys::BrandedId;

use super::{BURST, FAR_MS, Generator, HOUR_MS, JOBS, SOON_MS};
use crate::model::step::{Admission, Due, Options, Step};
use crate::model::world::World;
use crate::support::{branded, job};

impl Generator {
    pub(super) fn enqueue(&mut self, world: &World) -> Step {
        let job = Admission { group: None, due: Due::Now, ..self.admission(world) };
        Step::Enqueue { job, durable: self.rng.bool() }
    }

    pub(super) fn lane_enqueue(&mut self, world: &World) -> Step {
        let group = self.lane();
        let job = Admission { group: Some(group), due: Due::Now, ..self.admission(world) };
        Step::LaneEnqueue { job, group, durable: self.rng.bool() }
    }

    pub(super) fn schedule(&mut self, world: &World) -> Step {
        let mut job = self.admission(world);
        job.due = match self.rng.u8(..8) {
            0 => Due::Now,
            1 => Due::At(self.rng.u64(..3)),
            2..4 => Due::In(self.rng.u64(..4) * HOUR_MS),
            _ => Due::At(self.far_ms(world)),
        };
        Step::Schedule { job, durable: self.rng.bool() }
    }

    pub(super) fn enqueue_many(&mut self, world: &World) -> Step {
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
}
