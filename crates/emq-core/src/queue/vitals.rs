//! What a watcher reads of a queue again and again: a few numbers, each had at once whatever the
//! queue's size.

use std::time::Duration;

use emq_keys::BrandedId;
use emq_wire::{Cmd, Pipeline, Reply};

use super::scored::{members, scored};
use super::timers::server_ms;
use super::{Queue, count, ids, misread};
use crate::error::Error;

/// A queue's numbers, as they were within one round trip.
///
/// What waits in lanes isn't among them, since no key holds its sum:
/// [`LaneSweep`](crate::LaneSweep) adds it up a few lanes at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vitals {
    /// The server's clock, Unix milliseconds.
    pub server_ms: u64,
    /// Jobs of the flat set that wait.
    pub pending: u64,
    /// Jobs under a lease.
    pub active: u64,
    /// Jobs that run later.
    pub scheduled: u64,
    /// Dead letters.
    pub dead: u64,
    /// Whether an operator paused the queue.
    pub paused: bool,
    /// Lanes that the next turns serve: something waits, they aren't parked, and they are below
    /// their ceiling.
    pub lanes_ready: u64,
    /// Lanes that an operator parked.
    pub lanes_paused: u64,
    /// Lanes with leases out.
    pub lanes_leased: u64,
    /// Lanes with a ceiling.
    pub lanes_limited: u64,
    /// The job of the flat set that waits longest by its mint time.
    pub oldest: Option<BrandedId>,
    /// When the first lease ends, in the server's Unix milliseconds.
    pub lease_ends_ms: Option<u64>,
    /// When the first scheduled job is due, in the server's Unix milliseconds.
    pub due_ms: Option<u64>,
}

impl Vitals {
    /// Whether anything says that the queue is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let jobs = self.pending + self.active + self.scheduled + self.dead;
        let lanes = self.lanes_ready + self.lanes_paused + self.lanes_leased + self.lanes_limited;
        jobs == 0 && lanes == 0 && !self.paused
    }

    /// How long ago, on the server's clock, a job was minted by its producer's clock; zero for one
    /// whose producer's clock is ahead.
    #[must_use]
    pub fn since(&self, job: BrandedId) -> Duration {
        Duration::from_millis(self.server_ms.saturating_sub(job.unix_ms()))
    }
}

impl Queue {
    /// A queue's numbers in one round trip of thirteen reads, none of which takes longer on a
    /// queue of a million jobs or of ten thousand lanes.
    ///
    /// ```
    /// # use emq_core::Bus;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let valkey = emq_testkit::Valkey::start()?;
    /// let orders = Bus::connect(&valkey.url()).await?.queue("orders")?;
    /// assert!(orders.vitals().await?.is_empty());
    /// orders.enqueue("7").await?;
    /// let vitals = orders.vitals().await?;
    /// assert_eq!((vitals.pending, vitals.active), (1, 0));
    /// assert!(vitals.oldest.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn vitals(&self) -> Result<Vitals, Error> {
        let replies = self.read_all(self.vital_reads()).await?;
        let at = |n: usize| replies.get(n).unwrap_or(&Reply::Nil);
        let number = |n: usize| count(at(n)).ok_or_else(|| misread("ZCARD", at(n)));
        Ok(Vitals {
            server_ms: server_ms(at(0)).ok_or_else(|| misread("TIME", at(0)))?,
            pending: number(1)?,
            active: number(2)?,
            scheduled: number(3)?,
            dead: number(4)?,
            paused: number(5)? == 1,
            lanes_ready: number(6)?,
            lanes_paused: number(7)?,
            lanes_leased: number(8)?,
            lanes_limited: number(9)?,
            oldest: members("ZRANGE", at(10)).map(|()| ids(at(10)).next())?,
            lease_ends_ms: scored(at(11))?.first().map(|(_, ms)| *ms),
            due_ms: scored(at(12))?.first().map(|(_, ms)| *ms),
        })
    }

    fn vital_reads(&self) -> Pipeline {
        let keys = self.keys();
        let mut asked: Pipeline = [Cmd::new("TIME")].into_iter().collect();
        for key in [keys.pending(), keys.active(), keys.schedule(), keys.dead()] {
            asked.push(Cmd::new("ZCARD").arg(key));
        }
        asked.push(Cmd::new("HEXISTS").arg(keys.meta()).arg("paused"));
        asked.push(Cmd::new("LLEN").arg(keys.ring()));
        asked.push(Cmd::new("SCARD").arg(keys.paused()));
        asked.push(Cmd::new("HLEN").arg(keys.gactive()));
        asked.push(Cmd::new("HLEN").arg(keys.glimit()));
        asked.push(Cmd::new("ZRANGE").arg(keys.pending()).int(0).int(0));
        for key in [keys.active(), keys.schedule()] {
            asked.push(Cmd::new("ZRANGE").arg(key).int(0).int(0).arg("WITHSCORES"));
        }
        asked
    }
}
