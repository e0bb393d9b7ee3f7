//! Looking at a queue without changing it.

use std::ops::Range;
use std::time::SystemTime;

use emq_keys::{BrandedId, EPOCH_MS, MAX_UNIX_MS, Namespace};
use emq_scripts::CallError;
use emq_wire::{Cmd, Pipeline, Reply, WireError};

use super::options::unix_ms;
use super::{JobRecord, Queue};
use crate::bus::Bus;
use crate::error::Error;
use crate::lane::backlog;

/// How many ids one read of a window brings.
const PAGE: i64 = 1_000;

/// How many lanes are looked at for [`Counts::in_lanes`].
const LANES_COUNTED: usize = 10_000;

/// How many jobs a queue has, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Jobs of the flat set that wait.
    pub pending: u64,
    /// Jobs that wait in lanes.
    pub in_lanes: u64,
    /// Whether there are more lanes than were counted, so that `in_lanes` is a lower bound.
    pub lanes_uncounted: bool,
    /// Jobs under a lease.
    pub active: u64,
    /// Jobs that run later.
    pub scheduled: u64,
    /// Dead letters.
    pub dead: u64,
    /// Whether an operator paused the queue.
    pub paused: bool,
}

impl Queue {
    /// The ids of the jobs that wait in the flat set, newest first, at most `n`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn browse(&self, n: usize) -> Result<Vec<BrandedId>, Error> {
        self.newest(self.keys().pending(), n).await
    }

    /// The ids of the jobs that wait in the flat set and were minted in a window of time, oldest
    /// first. It is read a thousand at a time: it is no snapshot where jobs come and go.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn window(&self, minted: Range<SystemTime>) -> Result<Vec<BrandedId>, Error> {
        let (Some(from), Some(until)) = (least_id(minted.start), least_id(minted.end)) else {
            return Ok(Vec::new());
        };
        let until = format!("({until}");
        let mut from = format!("[{from}");
        let mut found = Vec::new();
        loop {
            let cmd = Cmd::new("ZRANGE").arg(self.keys().pending()).arg(&from).arg(&until);
            let cmd = cmd.arg("BYLEX").arg("LIMIT").int(0).int(PAGE);
            let reply = self.read(cmd).await?;
            let page = reply.as_array().map_or(0, <[Reply]>::len);
            found.extend(ids(&reply));
            match found.last() {
                Some(last) if page >= PAGE as usize => from = format!("({last}"),
                _ => return Ok(found),
            }
        }
    }

    /// How many jobs wait in the flat set.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn depth(&self) -> Result<u64, Error> {
        self.cardinality(Cmd::new("ZCARD").arg(self.keys().pending())).await
    }

    /// How many jobs there are by state. One round trip on a queue without lanes; what waits in
    /// lanes is added up, five hundred lanes a round trip and some ten thousand in all, while jobs
    /// come and go. [`Queue::lanes`] reads on where this stops.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn counts(&self) -> Result<Counts, Error> {
        let keys = self.keys();
        let mut asked: Pipeline = [keys.pending(), keys.active(), keys.schedule(), keys.dead()]
            .into_iter()
            .map(|key| Cmd::new("ZCARD").arg(key))
            .collect();
        asked.push(Cmd::new("HEXISTS").arg(keys.meta()).arg("paused"));
        asked.push(Cmd::new("LLEN").arg(keys.ring()));
        asked.push(Cmd::new("SCARD").arg(keys.paused()));
        asked.push(Cmd::new("HLEN").arg(keys.gactive()));
        let replies = self.read_all(asked).await?;
        let at = |n: usize| {
            let reply = replies.get(n).unwrap_or(&Reply::Nil);
            count(reply).ok_or_else(|| misread("ZCARD", reply))
        };
        let lanes = at(5)? + at(6)? + at(7)?;
        let (in_lanes, all) = match lanes {
            0 => (0, true),
            _ => backlog(self, LANES_COUNTED).await?,
        };
        Ok(Counts {
            pending: at(0)?,
            in_lanes,
            lanes_uncounted: !all,
            active: at(1)?,
            scheduled: at(2)?,
            dead: at(3)?,
            paused: at(4)? == 1,
        })
    }

    /// A job's row; `None` when there is none.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get(&self, id: BrandedId) -> Result<Option<JobRecord>, Error> {
        let records = self.get_many(&[id]).await?;
        Ok(records.into_iter().next().flatten())
    }

    /// The rows of several jobs in one round trip, in order.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get_many(&self, ids: &[BrandedId]) -> Result<Vec<Option<JobRecord>>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let row = |id: &BrandedId| Cmd::new("HGETALL").arg(self.keys().job(id));
        let replies = self.read_all(ids.iter().map(row).collect()).await?;
        ids.iter()
            .zip(&replies)
            .map(|(id, reply)| match reply {
                Reply::Error(_) => Err(misread("HGETALL", reply)),
                reply => Ok(JobRecord::read(*id, reply)),
            })
            .collect()
    }

    /// What was enqueued under an id.
    ///
    /// # Errors
    /// [`Error::Gone`] when there is no such job (any more).
    pub async fn payload(&self, id: BrandedId) -> Result<bytes::Bytes, Error> {
        let cmd = Cmd::new("HGET").arg(self.keys().job(&id)).arg("payload");
        match self.read(cmd).await? {
            Reply::Bulk(payload) => Ok(payload),
            Reply::Nil => Err(Error::Gone { id }),
            other => Err(misread("HGET", &other)),
        }
    }

    /// The ids of a set whose scores are all 0, newest first.
    pub(crate) async fn newest(&self, key: &str, n: usize) -> Result<Vec<BrandedId>, Error> {
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        let cmd = Cmd::new("ZRANGE").arg(key).arg("+").arg("-").arg("BYLEX").arg("REV");
        let reply = self.read(cmd.arg("LIMIT").int(0).int(n)).await?;
        match reply {
            Reply::Array(_) => Ok(ids(&reply).collect()),
            other => Err(misread("ZRANGE", &other)),
        }
    }

    pub(crate) async fn cardinality(&self, cmd: Cmd) -> Result<u64, Error> {
        let reply = self.read(cmd).await?;
        count(&reply).ok_or_else(|| misread("ZCARD", &reply))
    }

    pub(crate) async fn read(&self, cmd: Cmd) -> Result<Reply, Error> {
        read_one(self.bus(), cmd).await
    }

    pub(crate) async fn read_all(&self, cmds: Pipeline) -> Result<Vec<Reply>, Error> {
        read_all(self.bus(), cmds).await
    }
}

pub(crate) async fn read_one(bus: &Bus, cmd: Cmd) -> Result<Reply, Error> {
    let reply = bus.fenced().connection().command(cmd).await;
    reply.map_err(|error| Error::of_wire(None, error))
}

pub(crate) async fn read_all(bus: &Bus, cmds: Pipeline) -> Result<Vec<Reply>, Error> {
    let replies = bus.fenced().connection().pipeline(cmds).await;
    replies.map_err(|error| Error::of_wire(None, error))
}

/// The members that are ids; nothing else is ever in these sets.
pub(crate) fn ids(reply: &Reply) -> impl Iterator<Item = BrandedId> + '_ {
    let members = reply.as_array().unwrap_or_default().iter();
    members.filter_map(|member| BrandedId::parse(member.as_bytes()?).ok())
}

/// The least id of a time, moved into what ids can carry; `None` where nothing can follow.
fn least_id(time: SystemTime) -> Option<BrandedId> {
    let ms = unix_ms(time).max(EPOCH_MS);
    BrandedId::min_for(Namespace::JOB, ms.min(MAX_UNIX_MS)).ok()
}

pub(crate) fn count(reply: &Reply) -> Option<u64> {
    reply.as_int().and_then(|n| u64::try_from(n).ok())
}

/// The error of a plain read that answered something else than it can.
pub(crate) fn misread(step: &'static str, reply: &Reply) -> Error {
    let error = match reply {
        Reply::Error(source) => WireError::Server { step, source: source.clone() },
        _ => WireError::Unexpected { step, found: "a reply of another shape".to_owned() },
    };
    Error::Call(Box::new(CallError::Wire(error)))
}
