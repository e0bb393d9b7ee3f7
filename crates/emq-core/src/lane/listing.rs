//! The lanes of a queue, read in pages.
//!
//! A lane is known while the ring, the parked lanes, the ceilings, the leases out or the weights
//! name it: a lane with jobs is in one of the first, or at its ceiling and so has leases out.

use std::collections::HashSet;

use emq_keys::BrandedId;
use emq_wire::{Cmd, Pipeline, Reply};

use crate::error::Error;
use crate::queue::{Queue, count, misread};

/// How many lanes are read at once.
const PAGE: i64 = 500;

/// One lane, as it was when its page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneStatus {
    /// The lane.
    pub id: BrandedId,
    /// Jobs that wait in it.
    pub depth: u64,
    /// Jobs of it that are leased.
    pub leases: u64,
    /// How many may be leased at once; `None` without a bound.
    pub ceiling: Option<u32>,
    /// How many it may start per turn of the ring.
    pub weight: u32,
    /// Whether an operator parked it.
    pub paused: bool,
}

impl LaneStatus {
    /// Whether the next turns of the ring serve it: something waits, it isn't parked, and it is
    /// below its ceiling.
    #[must_use]
    pub fn serviceable(&self) -> bool {
        let below = self.ceiling.is_none_or(|ceiling| self.leases < u64::from(ceiling));
        self.depth > 0 && !self.paused && below
    }
}

/// The lanes of a queue, read page by page: [`Queue::lanes`](crate::Queue::lanes) starts it. Each
/// lane comes once. It is no snapshot: one that appears or goes meanwhile may be in it or not.
///
/// A page is at most a few hundred lanes and holds the server for less than a millisecond or two.
/// What was seen is kept in memory, some tens of bytes a lane.
#[derive(Debug)]
#[must_use = "nothing is read until a page is asked for"]
pub struct Lanes {
    queue: Queue,
    from: Source,
    /// What is read after this source.
    facts: &'static [Fact],
    seen: HashSet<BrandedId>,
    /// Seen, and not in a page yet.
    waiting: Vec<BrandedId>,
}

/// Where lanes are named, and how far it was read.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// The ring from its tail to its head: what turns meanwhile moves away from what was read.
    Ring { read: i64 },
    /// The ring's tail once more: the lanes that took their turn meanwhile are there.
    Tail { read: i64, windows_left: i64 },
    /// A set or a hash, by the server's own cursor.
    Scan { fact: Fact, cursor: u64 },
    /// All is read.
    End,
}

#[derive(Clone, Copy, Debug)]
enum Fact {
    Paused,
    Leases,
    Ceilings,
    Weights,
}

impl Lanes {
    pub(crate) fn new(queue: Queue) -> Lanes {
        Lanes::over(queue, &[Fact::Paused, Fact::Leases, Fact::Ceilings, Fact::Weights])
    }

    /// Only the lanes that may have jobs.
    pub(super) fn with_jobs(queue: Queue) -> Lanes {
        Lanes::over(queue, &[Fact::Paused, Fact::Leases])
    }

    fn over(queue: Queue, facts: &'static [Fact]) -> Lanes {
        let from = Source::Ring { read: 0 };
        Lanes { queue, from, facts, seen: HashSet::new(), waiting: Vec::new() }
    }

    /// The next lanes; `None` when all were read. A page is never empty.
    ///
    /// # Errors
    /// See [`Error`]. The same page can be asked for again.
    pub async fn page(&mut self) -> Result<Option<Vec<LaneStatus>>, Error> {
        let lanes = self.names().await?;
        if lanes.is_empty() {
            return Ok(None);
        }
        let page = statuses(&self.queue, &lanes).await?;
        self.taken(lanes.len());
        Ok(Some(page))
    }

    /// The names of the next lanes, at most this many, without their facts; none when all were
    /// read. [`Queue::lane_statuses`](crate::Queue::lane_statuses) reads the facts of those that
    /// are wanted.
    ///
    /// # Errors
    /// As [`Lanes::page`].
    pub async fn ids(&mut self, at_most: usize) -> Result<Vec<BrandedId>, Error> {
        let mut ids = self.peek(at_most).await?;
        self.taken(ids.len());
        // They are taken from the end of what was seen.
        ids.reverse();
        Ok(ids)
    }

    /// All that is left, page by page.
    ///
    /// # Errors
    /// As [`Lanes::page`].
    pub async fn collect(mut self) -> Result<Vec<LaneStatus>, Error> {
        let mut all = Vec::new();
        while let Some(page) = self.page().await? {
            all.extend(page);
        }
        Ok(all)
    }

    /// The names of the next page; none at the end.
    async fn names(&mut self) -> Result<Vec<BrandedId>, Error> {
        self.peek(PAGE as usize).await
    }

    /// The next names, at most this many; none at the end. They stay the next until they were
    /// [taken](Lanes::taken), so that nothing is lost when the reading of their facts fails.
    pub(super) async fn peek(&mut self, at_most: usize) -> Result<Vec<BrandedId>, Error> {
        while self.waiting.is_empty() {
            match self.from {
                Source::End => break,
                Source::Ring { read } => self.read_ring(read).await?,
                Source::Tail { read, windows_left } => self.read_tail(read, windows_left).await?,
                Source::Scan { fact, cursor } => self.scan(fact, cursor).await?,
            }
        }
        let first = self.waiting.len().saturating_sub(at_most);
        Ok(self.waiting[first..].to_vec())
    }

    pub(super) fn taken(&mut self, names: usize) {
        self.waiting.truncate(self.waiting.len().saturating_sub(names));
    }

    async fn read_ring(&mut self, read: i64) -> Result<(), Error> {
        let (named, _) = self.ring_window(read).await?;
        self.from = match (named == PAGE, read) {
            (true, _) => Source::Ring { read: read + PAGE },
            // A ring of one window was seen at one moment.
            (false, 0) => self.next_fact(),
            (false, _) => Source::Tail { read: 0, windows_left: read / PAGE + 1 },
        };
        Ok(())
    }

    async fn read_tail(&mut self, read: i64, windows_left: i64) -> Result<(), Error> {
        let (named, fresh) = self.ring_window(read).await?;
        self.from = if named < PAGE || fresh == 0 || windows_left <= 1 {
            self.next_fact()
        } else {
            Source::Tail { read: read + PAGE, windows_left: windows_left - 1 }
        };
        Ok(())
    }

    /// A window of the ring, counted from its tail: how many lanes it named, and how many of them
    /// weren't seen before.
    async fn ring_window(&mut self, read: i64) -> Result<(i64, usize), Error> {
        let cmd = Cmd::new("LRANGE").arg(self.queue.keys().ring());
        let reply = self.queue.read(cmd.int(-(read + PAGE)).int(-(read + 1))).await?;
        let Reply::Array(window) = &reply else { return Err(misread("LRANGE", &reply)) };
        let named = i64::try_from(window.len()).unwrap_or(PAGE);
        Ok((named, self.note(window.iter())))
    }

    async fn scan(&mut self, fact: Fact, cursor: u64) -> Result<(), Error> {
        let keys = self.queue.keys();
        let (command, key) = match fact {
            Fact::Paused => ("SSCAN", keys.paused()),
            Fact::Leases => ("HSCAN", keys.gactive()),
            Fact::Ceilings => ("HSCAN", keys.glimit()),
            Fact::Weights => ("HSCAN", keys.gweight()),
        };
        let cmd = Cmd::new(command).arg(key).arg(cursor.to_string()).arg("COUNT").int(PAGE);
        let reply = self.queue.read(cmd).await?;
        let Some((next, members)) = read_scan(&reply) else { return Err(misread(command, &reply)) };
        match fact {
            Fact::Paused => self.note(members.iter()),
            // Fields and values take turns.
            _ => self.note(members.iter().step_by(2)),
        };
        self.from = if next == 0 { self.next_fact() } else { Source::Scan { fact, cursor: next } };
        Ok(())
    }

    fn next_fact(&mut self) -> Source {
        let Some((fact, rest)) = self.facts.split_first() else { return Source::End };
        self.facts = rest;
        Source::Scan { fact: *fact, cursor: 0 }
    }

    /// Keeps the lanes that weren't seen before for a page; answers how many they are.
    fn note<'a>(&mut self, names: impl Iterator<Item = &'a Reply>) -> usize {
        let before = self.waiting.len();
        // Nothing but ids is ever in these keys.
        for id in names.filter_map(|name| BrandedId::parse(name.as_bytes()?).ok()) {
            if self.seen.insert(id) {
                self.waiting.push(id);
            }
        }
        self.waiting.len() - before
    }
}

/// The cursor and the members of a scan.
fn read_scan(reply: &Reply) -> Option<(u64, &[Reply])> {
    let [cursor, members] = reply.as_array()? else { return None };
    let cursor = std::str::from_utf8(cursor.as_bytes()?).ok()?.parse().ok()?;
    let members = match members {
        Reply::Array(members) | Reply::Set(members) => members,
        _ => return None,
    };
    Some((cursor, members))
}

impl Queue {
    /// The depth, leases and settings of some lanes, in order and in one round trip: one read a
    /// lane, and four.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn lane_statuses(&self, lanes: &[BrandedId]) -> Result<Vec<LaneStatus>, Error> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        statuses(self, lanes).await
    }
}

/// The facts of some lanes, in order.
pub(super) async fn statuses(queue: &Queue, lanes: &[BrandedId]) -> Result<Vec<LaneStatus>, Error> {
    let keys = queue.keys();
    let mut asked = depths(queue, lanes);
    for (command, key) in [
        ("HMGET", keys.gactive()),
        ("HMGET", keys.glimit()),
        ("HMGET", keys.gweight()),
        ("SMISMEMBER", keys.paused()),
    ] {
        let named = lanes.iter().fold(Cmd::new(command).arg(key), |cmd, id| cmd.arg(id.as_bytes()));
        asked.push(named);
    }
    let replies = queue.read_all(asked).await?;
    let facts = |nth: usize| match replies.get(lanes.len() + nth) {
        Some(Reply::Array(facts)) if facts.len() == lanes.len() => Ok(facts),
        other => Err(misread("HMGET", other.unwrap_or(&Reply::Nil))),
    };
    let (leases, ceilings, weights, parked) = (facts(0)?, facts(1)?, facts(2)?, facts(3)?);
    let status = |(at, id): (usize, &BrandedId)| {
        let depth = &replies[at];
        Ok(LaneStatus {
            id: *id,
            depth: count(depth).ok_or_else(|| misread("ZCARD", depth))?,
            leases: number(&leases[at]).unwrap_or(0),
            ceiling: number(&ceilings[at]),
            weight: number(&weights[at]).unwrap_or(1),
            paused: count(&parked[at]) == Some(1),
        })
    };
    lanes.iter().enumerate().map(status).collect()
}

/// What waits in the lanes of a queue, and whether that is all: at most `lanes_cap` are looked at.
pub(crate) async fn backlog(queue: &Queue, lanes_cap: usize) -> Result<(u64, bool), Error> {
    let mut lanes = Lanes::with_jobs(queue.clone());
    let (mut jobs, mut looked_at) = (0, 0);
    loop {
        let names = lanes.names().await?;
        if names.is_empty() {
            return Ok((jobs, true));
        }
        if looked_at >= lanes_cap {
            return Ok((jobs, false));
        }
        for reply in queue.read_all(depths(queue, &names)).await? {
            jobs += count(&reply).ok_or_else(|| misread("ZCARD", &reply))?;
        }
        looked_at += names.len();
        lanes.taken(names.len());
    }
}

fn depths(queue: &Queue, lanes: &[BrandedId]) -> Pipeline {
    lanes.iter().map(|id| Cmd::new("ZCARD").arg(queue.keys().lane(id))).collect()
}

/// A number that a script wrote into a hash.
fn number<N: std::str::FromStr>(value: &Reply) -> Option<N> {
    std::str::from_utf8(value.as_bytes()?).ok()?.parse().ok()
}
