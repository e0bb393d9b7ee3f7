//! The jobs that stand at a time: those under a lease and those that run later.

use std::time::Duration;

use emq_keys::BrandedId;
use emq_wire::{Cmd, Pipeline, Reply};

use super::scored::scored;
use super::timers::server_ms;
use super::{Queue, misread};
use crate::error::Error;

/// The fields of a row that tell who has it; the payload isn't among them.
const WHO: [&str; 4] = ["attempts", "holder", "group", "kind"];

/// A job that a worker holds, or that runs later: see [`Queue::leased`] and [`Queue::scheduled`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timed {
    /// The job.
    pub id: BrandedId,
    /// How long until its lease ends, or until it is due; zero when that has passed.
    pub left: Duration,
    /// How often it was claimed, which is also the latest token.
    pub attempts: u64,
    /// The ticket of the claim that holds it: `<incarnation of the worker>.<n>`.
    pub holder: Option<String>,
    /// Its lane; `None` for the flat set.
    pub lane: Option<BrandedId>,
    /// The name of its handler.
    pub kind: Option<String>,
}

impl Timed {
    /// The worker that holds it: [`Worker::incarnation`](crate::Worker::incarnation).
    #[must_use]
    pub fn worker(&self) -> Option<&str> {
        let holder = self.holder.as_deref()?;
        Some(holder.rsplit_once('.').map_or(holder, |(incarnation, _)| incarnation))
    }
}

impl Queue {
    /// The jobs under a lease, at most `n`, the lease that ends first at the head. Two round trips
    /// whatever `n` is; payloads aren't read.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// # let valkey = emq_testkit::Valkey::start()?;
    /// # let queue = emq_core::Bus::connect(&valkey.url()).await?.queue("orders")?;
    /// queue.enqueue("x").await?;
    /// let lease = queue.claim(Duration::from_secs(30)).await?.unwrap();
    /// let held = queue.leased(100).await?;
    /// assert_eq!((held[0].id, held[0].holder.as_deref()), (lease.id(), lease.ticket()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn leased(&self, n: usize) -> Result<Vec<Timed>, Error> {
        self.timed(self.keys().active(), n).await
    }

    /// The jobs that run later, at most `n`, the one that is due first at the head. Two round trips
    /// whatever `n` is; payloads aren't read.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn scheduled(&self, n: usize) -> Result<Vec<Timed>, Error> {
        self.timed(self.keys().schedule(), n).await
    }

    async fn timed(&self, key: &str, n: usize) -> Result<Vec<Timed>, Error> {
        let Some(last) = i64::try_from(n).unwrap_or(i64::MAX).checked_sub(1).filter(|n| *n >= 0)
        else {
            return Ok(Vec::new());
        };
        let first = Cmd::new("ZRANGE").arg(key).int(0).int(last).arg("WITHSCORES");
        let asked: Pipeline = [first, Cmd::new("TIME")].into_iter().collect();
        let replies = self.read_all(asked).await?;
        let [found, time] = &replies[..] else { return Err(misread("ZRANGE", &Reply::Nil)) };
        let now_ms = server_ms(time).ok_or_else(|| misread("TIME", time))?;
        let found = scored(found)?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let who = |(id, _): &(BrandedId, u64)| {
            WHO.iter()
                .fold(Cmd::new("HMGET").arg(self.keys().job(id)), |cmd, field| cmd.arg(*field))
        };
        let rows = self.read_all(found.iter().map(who).collect()).await?;
        found
            .iter()
            .zip(&rows)
            .map(|((id, score_ms), row)| {
                let Some([attempts, holder, group, kind]) = row.as_array() else {
                    return Err(misread("HMGET", row));
                };
                let text = |reply: &Reply| {
                    reply.as_bytes().map(|text| String::from_utf8_lossy(text).into_owned())
                };
                Ok(Timed {
                    id: *id,
                    left: Duration::from_millis(score_ms.saturating_sub(now_ms)),
                    attempts: text(attempts).and_then(|n| n.parse().ok()).unwrap_or(0),
                    holder: text(holder),
                    lane: group.as_bytes().and_then(|id| BrandedId::parse(id).ok()),
                    kind: text(kind),
                })
            })
            .collect()
    }
}
