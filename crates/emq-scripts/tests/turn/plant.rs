//! Random queues, written straight into a server: every state, lanes under ceilings and weights,
//! expired and due jobs, late holders, and sometimes what only a torn past leaves.

use emq_keys::{BrandedId, QueueKeys};
use emq_wire::Cmd;
use fastrand::Rng;

use crate::support::{job, lane};

/// Expired or due for long, unix ms.
const PAST_MS: u64 = 5;
/// Neither expires nor comes due in our time, unix ms.
const FAR_MS: u64 = 4_000_000_000_000;

/// The most lanes of a queue.
pub(crate) const LANES: u64 = 30;

/// Where a planted job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Pending,
    Active(u64),
    Scheduled(u64),
    Dead,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: BrandedId,
    place: Place,
    attempts: u64,
    ticket: Option<String>,
    group: Option<usize>,
    fields: Vec<(&'static str, String)>,
    unique: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    ceiling: Option<u64>,
    weight: Option<u64>,
    parked: bool,
    waiting: u64,
    leases: u64,
}

impl Lane {
    fn is_serviceable(&self) -> bool {
        self.waiting > 0 && !self.parked && self.ceiling.is_none_or(|most| self.leases < most)
    }
}

/// A queue to be planted.
#[derive(Clone, Debug)]
pub(crate) struct Plant {
    pub(crate) jobs: Vec<Job>,
    lanes: Vec<Lane>,
    ring: Vec<usize>,
    wake: usize,
    paused: bool,
    left: Option<usize>,
    spent: Option<(usize, u64)>,
    /// What a torn past did to jobs, by their places in `jobs`.
    torn: Vec<(usize, Torn)>,
}

#[derive(Clone, Copy, Debug)]
enum Torn {
    /// The id stands in its set, the row is gone.
    NoRow,
    /// The row is there, the lease isn't.
    NoLease,
    /// The row says that it is somewhere else.
    Astray(&'static str),
    /// Another kind of key has the row's name.
    Foreign,
}

impl Plant {
    pub(crate) fn random(rng: &mut Rng) -> Plant {
        let count = [0, 1, 2, 4, 7, LANES as usize][rng.usize(..6)];
        let mut lanes: Vec<Lane> = (0..count).map(|_| random_lane(rng)).collect();
        let laned = rng.u8(..=4);
        let mut numbers: Vec<u64> = (0..200).collect();
        rng.shuffle(&mut numbers);
        numbers.truncate([2, 8, 20, 45][rng.usize(..4)]);
        let jobs: Vec<Job> = numbers
            .iter()
            .map(|n| {
                let in_lane = count > 0 && rng.u8(..4) < laned;
                let group = in_lane.then(|| rng.usize(..count));
                random_job(rng, job(*n), group)
            })
            .collect();
        for job in &jobs {
            let Some(group) = job.group else { continue };
            match job.place {
                Place::Pending => lanes[group].waiting += 1,
                Place::Active(_) => lanes[group].leases += 1,
                Place::Scheduled(_) | Place::Dead => {}
            }
        }
        for lane in &mut lanes {
            // Often just what is leased.
            if rng.u8(..3) == 0 && lane.leases > 0 {
                lane.ceiling = Some(lane.leases);
            }
        }
        let mut ring: Vec<usize> = (0..count).filter(|n| lanes[*n].is_serviceable()).collect();
        rng.shuffle(&mut ring);
        let head = ring.first().copied().filter(|_| rng.bool());
        let spent = head.and_then(|head| {
            let weight = lanes[head].weight?;
            Some((head, rng.u64(1..weight.max(2))))
        });
        let left = rng.bool().then(|| rng.usize(..ring.len() + 2));
        let (wake, paused) = ([0, 0, 1, 3][rng.usize(..4)], rng.u8(..10) == 0);
        let mut plant = Plant { jobs, lanes, ring, wake, paused, left, spent, torn: Vec::new() };
        if rng.u8(..3) == 0 {
            plant.tear(rng);
        }
        plant
    }

    fn tear(&mut self, rng: &mut Rng) {
        for n in 0..self.jobs.len() {
            let states = ["pending", "active", "scheduled", "dead"];
            let torn = match rng.u8(..20) {
                0..3 => Torn::NoRow,
                3 => Torn::NoLease,
                4 => Torn::Astray(states[rng.usize(..4)]),
                5 if rng.u8(..4) == 0 => Torn::Foreign,
                _ => continue,
            };
            self.torn.push((n, torn));
        }
        // A lane that has no business in the ring.
        let stray = (0..self.lanes.len()).find(|n| !self.ring.contains(n));
        if let Some(stray) = stray.filter(|_| rng.bool()) {
            self.ring.insert(rng.usize(..=self.ring.len()), stray);
            self.spent = None;
        }
    }

    /// The commands that plant it.
    pub(crate) fn commands(&self, keys: &QueueKeys) -> Vec<Cmd> {
        let mut commands = Vec::new();
        for job in &self.jobs {
            self.plant_job(&mut commands, keys, job);
        }
        let base = keys.base();
        let of = |fact: &str| format!("{base}{fact}");
        for (n, it) in self.lanes.iter().enumerate() {
            let group = lane(n as u64);
            let leases = Some(it.leases).filter(|leases| *leases > 0);
            let facts = [("glimit", it.ceiling), ("gweight", it.weight), ("gactive", leases)];
            for (fact, value) in facts {
                commands.extend(value.map(|value| hset(&of(fact), group.as_str(), value)));
            }
            if it.parked {
                commands.push(Cmd::new("SADD").arg(of("paused")).arg(group.as_str()));
            }
        }
        for n in &self.ring {
            commands.push(Cmd::new("RPUSH").arg(of("ring")).arg(lane(*n as u64).as_str()));
        }
        for _ in 0..self.wake {
            commands.push(Cmd::new("RPUSH").arg(of("wake")).arg("1"));
        }
        let meta = of("meta");
        if self.paused {
            commands.push(hset(&meta, "paused", 1));
        }
        commands.extend(self.left.map(|left| hset(&meta, "left", left)));
        let spent = self.spent.map(|(n, k)| format!("{}|{k}", lane(n as u64)));
        commands.extend(spent.map(|spent| hset(&meta, "spent", spent)));
        for (n, torn) in &self.torn {
            let (id, row) = (self.jobs[*n].id, keys.job(&self.jobs[*n].id));
            let gone = Cmd::new("DEL").arg(&row);
            match torn {
                Torn::NoRow => commands.push(gone),
                Torn::NoLease => {
                    commands.push(Cmd::new("ZREM").arg(keys.active()).arg(id.as_str()));
                }
                Torn::Astray(state) => commands.push(hset(&row, "state", state)),
                Torn::Foreign => {
                    commands.extend([gone, Cmd::new("SET").arg(&row).arg("foreign")]);
                }
            }
        }
        commands
    }

    /// The command that removes it, whatever became of it.
    pub(crate) fn clear(&self, keys: &QueueKeys) -> Cmd {
        let facts = [
            "pending", "active", "schedule", "dead", "ring", "wake", "paused", "glimit", "gactive",
            "gweight", "unique", "meta",
        ];
        let facts = facts.map(|fact| format!("{}{fact}", keys.base()));
        let rows = self.jobs.iter().map(|job| keys.job(&job.id));
        let lanes = (0..LANES).map(|n| keys.lane(&lane(n)));
        facts.into_iter().chain(rows).chain(lanes).fold(Cmd::new("DEL"), Cmd::arg)
    }

    fn plant_job(&self, commands: &mut Vec<Cmd>, keys: &QueueKeys, job: &Job) {
        let (state, set, score) = match (job.place, job.group) {
            (Place::Pending, None) => ("pending", keys.pending().to_owned(), 0),
            (Place::Pending, Some(n)) => ("pending", keys.lane(&lane(n as u64)), 0),
            (Place::Active(at), _) => ("active", keys.active().to_owned(), at),
            (Place::Scheduled(at), _) => ("scheduled", keys.schedule().to_owned(), at),
            (Place::Dead, _) => ("dead", keys.dead().to_owned(), 0),
        };
        commands.push(Cmd::new("ZADD").arg(set).arg(score.to_string()).arg(job.id.as_str()));
        let mut row = Cmd::new("HSET").arg(keys.job(&job.id)).arg("state").arg(state);
        row = row.arg("attempts").arg(job.attempts.to_string()).arg("payload").arg(job.id.as_str());
        if let Some(n) = job.group {
            row = row.arg("group").arg(lane(n as u64).as_str());
        }
        if let Some(ticket) = &job.ticket {
            row = row.arg("holder").arg(ticket);
        }
        for (field, value) in &job.fields {
            row = row.arg(field).arg(value);
        }
        if let Some(key) = &job.unique {
            row = row.arg("unique").arg(key);
            commands.push(
                Cmd::new("HSET")
                    .arg(format!("{}unique", keys.base()))
                    .arg(key)
                    .arg(job.id.as_str()),
            );
        }
        commands.push(row);
    }
}

fn random_lane(rng: &mut Rng) -> Lane {
    Lane {
        ceiling: (rng.u8(..5) < 2).then(|| [1, 2, 3, 20][rng.usize(..4)]),
        weight: (rng.u8(..5) < 2).then(|| [2, 3, 5][rng.usize(..3)]),
        parked: rng.u8(..8) == 0,
        ..Lane::default()
    }
}

fn random_job(rng: &mut Rng, id: BrandedId, group: Option<usize>) -> Job {
    let past = rng.u64(1..=PAST_MS);
    let at = if rng.u8(..5) < 2 { past } else { FAR_MS + rng.u64(..3) };
    let place = match rng.u8(..10) {
        0..5 => Place::Pending,
        5..8 => Place::Active(at),
        8 => Place::Scheduled(at),
        _ => Place::Dead,
    };
    let claimed = matches!(place, Place::Active(_) | Place::Dead) || rng.u8(..3) == 0;
    let attempts = if claimed { rng.u64(1..4) } else { 0 };
    let ticket = (claimed && rng.bool()).then(|| format!("me.{}", rng.u8(..3)));
    let mut fields = Vec::new();
    let mut maybe = |odds: u8, field: &'static str, value: String| {
        if rng.u8(..odds) == 0 {
            fields.push((field, value));
        }
    };
    if claimed {
        maybe(4, "lost", "1".to_owned());
        maybe(8, "last_error", "before".to_owned());
        maybe(6, "checkpoint", "half".to_owned());
    }
    if matches!(place, Place::Active(_)) {
        maybe(6, "cancel", "1".to_owned());
    }
    maybe(5, "kind", "mail".to_owned());
    maybe(5, "max_attempts", "2".to_owned());
    let unique = (rng.u8(..5) == 0).then(|| format!("key {id}"));
    Job { id, place, attempts, ticket, group, fields, unique }
}

fn hset(key: &str, field: &str, value: impl std::fmt::Display) -> Cmd {
    Cmd::new("HSET").arg(key).arg(field).arg(value.to_string())
}
