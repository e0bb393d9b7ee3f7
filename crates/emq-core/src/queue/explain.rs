//! A job explained: its row, and what the sets of its queue say of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use emq_keys::BrandedId;
use emq_wire::{Cmd, Pipeline, Reply};

use super::{JobRecord, JobState, Queue, count, misread};
use crate::error::Error;
use crate::queue::timers::server_ms;

/// How often a job that moves while it is looked at is looked at again.
const LOOKS: usize = 5;

/// A job's row with what is known of it besides: see [`Queue::explain`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explained {
    /// The row.
    pub record: JobRecord,
    /// What becomes of it next, and when.
    pub standing: Standing,
    /// The server's clock when it was looked at.
    pub server_time: SystemTime,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It waits.
    Waiting {
        /// How many jobs of its lane, or of the flat set, come before it.
        ahead: u64,
    },
    /// A worker holds it.
    Held {
        /// How long its lease lasts yet; zero when it is over and nobody took the job back so far.
        left: Duration,
    },
    /// It runs later.
    Due {
        /// How long until then; zero when it is due and nobody moved it so far.
        left: Duration,
    },
    /// It lies in the morgue.
    Dead,
    /// The set of its state doesn't have it: the doctor should look at the queue.
    Nowhere,
}

impl Explained {
    /// When it was minted, by the clock of its producer.
    #[must_use]
    pub fn minted(&self) -> SystemTime {
        at(self.record.id.unix_ms())
    }

    /// How long ago that was by the server's clock; zero when the producer's was ahead.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.server_time.duration_since(self.minted()).unwrap_or_default()
    }
}

impl Queue {
    /// A job's row, and where it stands: its place among those that wait, what is left of its
    /// lease, or when it is due. `None` when there is no such job.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use emq_core::Standing;
    ///
    /// # let valkey = emq_testkit::Valkey::start()?;
    /// # let queue = emq_core::Bus::connect(&valkey.url()).await?.queue("orders")?;
    /// let id = queue.enqueue("x").await?.id();
    /// let job = queue.explain(id).await?.unwrap();
    /// assert_eq!(job.standing, Standing::Waiting { ahead: 0 });
    ///
    /// let lease = queue.claim(Duration::from_secs(30)).await?.unwrap();
    /// let job = queue.explain(id).await?.unwrap();
    /// assert!(matches!(job.standing, Standing::Held { left } if left <= Duration::from_secs(30)));
    /// assert_eq!(job.record.holder.as_deref(), lease.ticket());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn explain(&self, id: BrandedId) -> Result<Option<Explained>, Error> {
        for _ in 1..LOOKS {
            match self.look(id).await? {
                // It moved between the reads, or it is torn.
                Some(Explained { standing: Standing::Nowhere, .. }) => {}
                seen => return Ok(seen),
            }
        }
        self.look(id).await
    }

    async fn look(&self, id: BrandedId) -> Result<Option<Explained>, Error> {
        let Some(record) = self.get(id).await? else { return Ok(None) };
        let keys = self.keys();
        let member = id.as_bytes();
        let standing = match (&record.state, record.group) {
            (JobState::Pending, None) => Cmd::new("ZRANK").arg(keys.pending()).arg(member),
            (JobState::Pending, Some(lane)) => Cmd::new("ZRANK").arg(keys.lane(&lane)).arg(member),
            (JobState::Active, _) => Cmd::new("ZSCORE").arg(keys.active()).arg(member),
            (JobState::Scheduled, _) => Cmd::new("ZSCORE").arg(keys.schedule()).arg(member),
            _ => Cmd::new("ZSCORE").arg(keys.dead()).arg(member),
        };
        let asked: Pipeline = [standing, Cmd::new("TIME")].into_iter().collect();
        let replies = self.read_all(asked).await?;
        let [found, time] = &replies[..] else { return Err(misread("TIME", &Reply::Nil)) };
        let now_ms = server_ms(time).ok_or_else(|| misread("TIME", time))?;
        let standing = match (&record.state, found) {
            (_, Reply::Error(_)) => return Err(misread("ZSCORE", found)),
            (_, Reply::Nil) => Standing::Nowhere,
            (JobState::Pending, rank) => {
                Standing::Waiting { ahead: count(rank).ok_or_else(|| misread("ZRANK", rank))? }
            }
            (JobState::Active, score) => Standing::Held { left: until(now_ms, score)? },
            (JobState::Scheduled, score) => Standing::Due { left: until(now_ms, score)? },
            (JobState::Dead, _) => Standing::Dead,
            (JobState::Other(_), _) => Standing::Nowhere,
        };
        Ok(Some(Explained { record, standing, server_time: at(now_ms) }))
    }
}

fn until(now_ms: u64, score: &Reply) -> Result<Duration, Error> {
    let score_ms = super::scored::score_ms(score).ok_or_else(|| misread("ZSCORE", score))?;
    Ok(Duration::from_millis(score_ms.saturating_sub(now_ms)))
}

fn at(unix_ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(unix_ms)
}
