//! A queue small enough to be planted, read back and compared whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Connection, Pipeline, Reply};

use crate::cells::{Cell, Place};
use crate::support::{job, lane};

/// The job that is settled.
pub(crate) const JOB: u64 = 5;
/// Its token.
pub(crate) const TOKEN: u64 = 3;
/// Its ticket, in the cells that use tickets.
pub(crate) const TICKET: &str = "me.7";
/// What a checkpoint says before the settle.
pub(crate) const CHECKPOINT: &str = "half";
/// When the other scheduled job is due, unix ms: long after this test.
const FAR_MS: i64 = 4_000_000_000_000;

pub(crate) type Row = BTreeMap<String, String>;

/// Everything that a settle may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) rows: BTreeMap<String, Row>,
    pub(crate) pending: BTreeSet<String>,
    pub(crate) active: BTreeMap<String, i64>,
    pub(crate) schedule: BTreeMap<String, i64>,
    pub(crate) dead: BTreeSet<String>,
    /// Lane -> its jobs.
    pub(crate) lanes: BTreeMap<String, BTreeSet<String>>,
    pub(crate) ring: Vec<String>,
    pub(crate) paused: BTreeSet<String>,
    pub(crate) glimit: BTreeMap<String, i64>,
    pub(crate) gactive: BTreeMap<String, i64>,
    pub(crate) unique: BTreeMap<String, String>,
    pub(crate) wake: usize,
    /// Scores of [`JOB`] that are the server's time plus so many ms: they can't be known before.
    pub(crate) timed: Vec<(Timed, i64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed {
    Active,
    Schedule,
}

fn row(fields: &[(&str, &str)]) -> Row {
    fields.iter().map(|(field, value)| ((*field).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn id() -> String {
    job(JOB).to_string()
}

/// The lane of the job that is settled.
pub(crate) fn group() -> String {
    lane(1).to_string()
}

impl World {
    /// The world of a cell before the settle.
    pub(crate) fn of(cell: &Cell) -> World {
        let mut world = World::default();
        let flat = world.bystander(1, "pending", None);
        world.pending.insert(flat);
        let scheduled = world.bystander(2, "scheduled", None);
        world.schedule.insert(scheduled, FAR_MS);
        let neighbour = lane(2).to_string();
        let waiting = world.bystander(3, "pending", Some(&neighbour));
        world.lanes.insert(neighbour, BTreeSet::from([waiting]));

        if let Some(facts) = cell.lane.facts() {
            let group = group();
            for n in 0..facts.waiting {
                let waiting = world.bystander(10 + n, "pending", Some(&group));
                world.lanes.entry(group.clone()).or_default().insert(waiting);
            }
            for n in 0..facts.leases {
                let held = world.bystander(20 + n, "active", Some(&group));
                world.active.insert(held, FAR_MS);
            }
            world.glimit.extend(facts.ceiling.map(|ceiling| (group.clone(), ceiling)));
            world.paused.extend(facts.parked.then(|| group.clone()));
        }
        world.place(cell);
        world.gactive = world.leases();
        // The neighbour stands first, so that "at the tail" and "in place" differ.
        world.ring = vec![lane(2).to_string()];
        world.ring.extend(world.is_serviceable(&group()).then(group));
        world
    }

    /// A job that the settle must not touch.
    fn bystander(&mut self, n: u64, state: &str, group: Option<&str>) -> String {
        let id = job(n).to_string();
        let mut fields = row(&[("state", state), ("attempts", "1"), ("payload", "other")]);
        fields.extend(group.map(|group| ("group".to_owned(), group.to_owned())));
        self.rows.insert(id.clone(), fields);
        id
    }

    /// Puts the job where the cell wants it.
    fn place(&mut self, cell: &Cell) {
        let state = match cell.place {
            Place::Active | Place::Expired => "active",
            Place::PendingReaped => "pending",
            Place::DeadReaped => "dead",
            Place::Scheduled => "scheduled",
            Place::NoRow => return,
        };
        let token = TOKEN.to_string();
        let mut fields = row(&[
            ("state", state),
            ("attempts", &token),
            ("payload", "the payload"),
            ("lost", "1"),
            ("last_error", "old"),
            ("checkpoint", CHECKPOINT),
            ("kind", "mail"),
            ("unique", "its key"),
        ]);
        if cell.ticketed {
            fields.extend(row(&[("holder", TICKET), ("cancel", "1")]));
        }
        if cell.lane.facts().is_some() {
            fields.extend(row(&[("group", &group())]));
        }
        self.rows.insert(id(), fields);
        self.unique.insert("its key".to_owned(), id());
        match (cell.place, cell.lane.facts()) {
            (Place::Active, _) => drop(self.active.insert(id(), FAR_MS)),
            (Place::Expired, _) => drop(self.active.insert(id(), 1)),
            (Place::Scheduled, _) => drop(self.schedule.insert(id(), FAR_MS + 1)),
            (Place::DeadReaped, _) => drop(self.dead.insert(id())),
            (Place::PendingReaped, None) => drop(self.pending.insert(id())),
            (Place::PendingReaped, Some(_)) => self.enter_lane(),
            (Place::NoRow, _) => {}
        }
    }

    pub(crate) fn enter_lane(&mut self) {
        self.lanes.entry(group()).or_default().insert(id());
    }

    /// Leases out by lane, counted from the rows.
    pub(crate) fn leases(&self) -> BTreeMap<String, i64> {
        let mut leases = BTreeMap::new();
        for id in self.active.keys() {
            if let Some(group) = self.rows.get(id).and_then(|row| row.get("group")) {
                *leases.entry(group.clone()).or_default() += 1;
            }
        }
        leases
    }

    pub(crate) fn is_serviceable(&self, group: &str) -> bool {
        let depth = self.lanes.get(group).map_or(0, BTreeSet::len);
        let leases = self.leases().get(group).copied().unwrap_or(0);
        let open = self.glimit.get(group).is_none_or(|ceiling| leases < *ceiling);
        depth > 0 && open && !self.paused.contains(group)
    }

    /// The ring invariant, stated without regard to how it is kept.
    pub(crate) fn assert_ring_holds_exactly_the_serviceable_lanes(&self) {
        let mut ring = self.ring.clone();
        ring.sort();
        let serviceable: Vec<String> =
            self.lanes.keys().filter(|group| self.is_serviceable(group)).cloned().collect();
        assert_eq!(ring, serviceable);
        assert_eq!(self.gactive, self.leases());
    }

    /// Writes the world in place of everything else that is on the server but the version.
    pub(crate) async fn plant(&self, connection: &Connection, keys: &QueueKeys) {
        let mut pipeline = Pipeline::new();
        let version = Cmd::new("SET").arg("{emq}:version").arg(emq_scripts::WIRE_VERSION);
        pipeline.extend([Cmd::new("FLUSHALL"), version]);
        for (id, row) in &self.rows {
            let key = keys.job(&id.parse().unwrap());
            let fields = row
                .iter()
                .fold(Cmd::new("HSET").arg(key), |cmd, (field, value)| cmd.arg(field).arg(value));
            pipeline.push(fields);
        }
        let zadd =
            |key: &str, score: i64, id: &String| Cmd::new("ZADD").arg(key).int(score).arg(id);
        pipeline.extend(self.pending.iter().map(|id| zadd(keys.pending(), 0, id)));
        pipeline.extend(self.dead.iter().map(|id| zadd(keys.dead(), 0, id)));
        pipeline.extend(self.active.iter().map(|(id, at)| zadd(keys.active(), *at, id)));
        pipeline.extend(self.schedule.iter().map(|(id, at)| zadd(keys.schedule(), *at, id)));
        for (group, ids) in &self.lanes {
            let key = keys.lane(&group.parse().unwrap());
            pipeline.extend(ids.iter().map(|id| zadd(&key, 0, id)));
        }
        let ring = |group| Cmd::new("RPUSH").arg(keys.ring()).arg(group);
        pipeline.extend(self.ring.iter().map(ring));
        let parked = |group| Cmd::new("SADD").arg(keys.paused()).arg(group);
        pipeline.extend(self.paused.iter().map(parked));
        let hset = |key: &str, field: &String, value: String| {
            Cmd::new("HSET").arg(key).arg(field).arg(value)
        };
        pipeline.extend(self.glimit.iter().map(|(g, n)| hset(keys.glimit(), g, n.to_string())));
        pipeline.extend(self.gactive.iter().map(|(g, n)| hset(keys.gactive(), g, n.to_string())));
        pipeline.extend(self.unique.iter().map(|(k, id)| hset(keys.unique(), k, id.clone())));
        for reply in connection.pipeline(pipeline).await.unwrap() {
            reply.into_result().unwrap();
        }
    }

    /// Reads the queue back. A key that no world has fails the test.
    pub(crate) async fn read(connection: &Connection, keys: &QueueKeys) -> World {
        let found = texts(&ask(connection, &["KEYS", "*"]).await);
        let mut world = World::default();
        for key in found {
            let tail = key.strip_prefix(keys.base());
            match tail {
                None => assert_eq!(key, "{emq}:version"),
                Some("pending") => world.pending = members(connection, &key).await,
                Some("dead") => world.dead = members(connection, &key).await,
                Some("active") => world.active = scores(connection, &key).await,
                Some("schedule") => world.schedule = scores(connection, &key).await,
                Some("ring") => world.ring = list(connection, &key).await,
                Some("wake") => world.wake = list(connection, &key).await.len(),
                Some("paused") => {
                    world.paused =
                        texts(&ask(connection, &["SMEMBERS", &key]).await).into_iter().collect();
                }
                Some("glimit") => world.glimit = numbers(hash(connection, &key).await),
                Some("gactive") => world.gactive = numbers(hash(connection, &key).await),
                Some("unique") => world.unique = hash(connection, &key).await,
                Some(tail) => match (tail.strip_prefix("job:"), tail.strip_prefix("g:")) {
                    (Some(id), _) => {
                        id.parse::<BrandedId>().unwrap();
                        world.rows.insert(id.to_owned(), hash(connection, &key).await);
                    }
                    (_, Some(lane)) => {
                        let group = lane.strip_suffix(":pending").unwrap().to_owned();
                        world.lanes.insert(group, members(connection, &key).await);
                    }
                    _ => panic!("a stray key {key}"),
                },
            }
        }
        world
    }

    /// Checks the scores that the settle took from the clock, then makes `expected` agree.
    pub(crate) fn match_times(&self, expected: &mut World, during: RangeInclusive<i64>) {
        for (set, after_ms) in std::mem::take(&mut expected.timed) {
            let (actual, expected) = match set {
                Timed::Active => (&self.active, &mut expected.active),
                Timed::Schedule => (&self.schedule, &mut expected.schedule),
            };
            let score = actual.get(&id()).copied().unwrap_or_default();
            assert!(during.contains(&(score - after_ms)), "{set:?}: {score} of {during:?}");
            expected.insert(id(), score);
        }
    }
}

async fn ask(connection: &Connection, words: &[&str]) -> Reply {
    crate::support::ask(connection, words).await
}

fn texts(reply: &Reply) -> Vec<String> {
    let text = |item: &Reply| String::from_utf8(item.as_bytes().unwrap().to_vec()).unwrap();
    reply.as_array().unwrap().iter().map(text).collect()
}

async fn list(connection: &Connection, key: &str) -> Vec<String> {
    texts(&ask(connection, &["LRANGE", key, "0", "-1"]).await)
}

async fn hash(connection: &Connection, key: &str) -> BTreeMap<String, String> {
    let items = texts(&ask(connection, &["HGETALL", key]).await);
    items.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

fn numbers(hash: BTreeMap<String, String>) -> BTreeMap<String, i64> {
    hash.into_iter().map(|(key, value)| (key, value.parse().unwrap())).collect()
}

async fn scores(connection: &Connection, key: &str) -> BTreeMap<String, i64> {
    let items = ask(connection, &["ZRANGE", key, "0", "-1", "WITHSCORES"]).await;
    let items = texts(&items);
    items.chunks(2).map(|pair| (pair[0].clone(), pair[1].parse().unwrap())).collect()
}

/// The members of a set whose scores must all be 0.
async fn members(connection: &Connection, key: &str) -> BTreeSet<String> {
    let scores = scores(connection, key).await;
    assert!(scores.values().all(|score| *score == 0), "{key}: {scores:?}");
    scores.into_keys().collect()
}
