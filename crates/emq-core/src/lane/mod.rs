//! A lane of a queue: the jobs of one identity, which takes its turn among the others.

mod listing;
mod sweep;
mod typed;

use std::fmt;
use std::time::{Duration, SystemTime};

use emq_keys::BrandedId;
use emq_scripts::{LaneLimit, LanePause, LaneResume, LaneWeight, Remove, Removed, Switched};
use emq_wire::{Cmd, Reply};

pub(crate) use self::listing::backlog;
pub use self::listing::{LaneStatus, Lanes};
pub use self::sweep::{LaneSweep, SweptLanes};
pub use self::typed::TypedLane;
use crate::error::Error;
use crate::outcome::Enqueued;
use crate::queue::{EnqueueOptions, Queue, ids, misread};

/// The largest ceiling or weight that the scripts take.
const SETTING_MAX: u32 = 1 << 31;
/// How many jobs one step of a drain looks at.
const DRAIN_STEP: i64 = 200;

/// A lane of a [`Queue`], named by the identity whose fairness is owed: a tenant, a portfolio, or
/// a job whose children share it. Any branded id names a lane; [`BrandedId::derive`] makes one of
/// a name of one's own. A lane needs no creation: it is there while something is said of it, its
/// jobs or its settings. Cheap to clone.
///
/// The lanes of a queue take turns, one job each (or as many as its [`Lane::weight`] says), and
/// the flat set counts as one more lane. A [`Worker`](crate::Worker) of the queue serves all of
/// them.
///
/// ```
/// use emq_core::{Bus, EnqueueOptions};
/// use emq_keys::{BrandedId, namespace};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let valkey = emq_testkit::Valkey::start()?;
/// # let url = valkey.url();
/// let queue = Bus::connect(&url).await?.queue("renders")?;
/// let acme = queue.lane(BrandedId::derive(namespace!("TEN"), b"acme-corp")?);
/// acme.limit(2).await?; // at most two of its jobs run at a time,
/// acme.weight(3).await?; // and it may start three a turn.
/// for page in ["1", "2", "3"] {
///     acme.enqueue(page).await?;
/// }
/// let status = acme.status().await?;
/// assert_eq!((status.depth, status.ceiling, status.weight), (3, Some(2), 3));
/// assert!(status.serviceable());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Lane {
    queue: Queue,
    id: BrandedId,
}

impl Lane {
    pub(crate) fn new(queue: Queue, id: BrandedId) -> Lane {
        Lane { queue, id }
    }

    /// The identity that it is named by.
    #[must_use]
    pub fn id(&self) -> BrandedId {
        self.id
    }

    /// The queue that it is of.
    #[must_use]
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The same lane with payloads of a type, in JSON.
    #[must_use]
    pub fn typed<T>(&self) -> TypedLane<T> {
        TypedLane::new(self.clone())
    }

    /// The same lane with payloads of a type, in a codec of one's own.
    #[must_use]
    pub fn typed_with<T, C>(&self) -> TypedLane<T, C> {
        TypedLane::new(self.clone())
    }

    /// Enqueues a job in the lane under a fresh id.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub async fn enqueue(&self, payload: impl AsRef<[u8]>) -> Result<Enqueued, Error> {
        self.enqueue_with(payload, &EnqueueOptions::new()).await
    }

    /// Enqueues a job that enters the lane at a time, by the server's clock.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub async fn enqueue_at(
        &self,
        payload: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<Enqueued, Error> {
        self.enqueue_with(payload, &EnqueueOptions::new().at(time)).await
    }

    /// Enqueues a job that enters the lane after a delay, on the server's clock.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub async fn enqueue_in(
        &self,
        payload: impl AsRef<[u8]>,
        delay: Duration,
    ) -> Result<Enqueued, Error> {
        self.enqueue_with(payload, &EnqueueOptions::new().delay(delay)).await
    }

    /// Enqueues a job in the lane with options. An id that is there already is a duplicate,
    /// whatever its lane: [`Queue::reassign`] moves a job.
    ///
    /// # Errors
    /// As [`Queue::enqueue_with`].
    pub async fn enqueue_with(
        &self,
        payload: impl AsRef<[u8]>,
        options: &EnqueueOptions,
    ) -> Result<Enqueued, Error> {
        self.queue.enqueue_into(Some(self.id), payload.as_ref(), options).await
    }

    /// Bounds how many of its jobs may be leased at once. Leases over a lowered ceiling run on
    /// until they settle. The slot of a holder that was killed comes back when its lease has ended
    /// and a worker reaps it.
    ///
    /// # Errors
    /// [`Error::Setting`] for 0 (see [`Lane::pause`]) and for more than 2^31; see [`Error`].
    pub async fn limit(&self, ceiling: u32) -> Result<Switched, Error> {
        let limit = setting("a lane's ceiling", ceiling)?;
        self.queue.call(&LaneLimit { group: self.id, limit }).await.map_err(Error::of_queue)
    }

    /// Removes the bound of [`Lane::limit`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn unlimited(&self) -> Result<Switched, Error> {
        let call = LaneLimit { group: self.id, limit: 0 };
        self.queue.call(&call).await.map_err(Error::of_queue)
    }

    /// Sets how many jobs it may start per turn of the ring, never past its ceiling. 1 is the
    /// default and leaves no trace.
    ///
    /// # Errors
    /// [`Error::Setting`] for 0 (see [`Lane::pause`]) and for more than 2^31; see [`Error`].
    pub async fn weight(&self, jobs_a_turn: u32) -> Result<Switched, Error> {
        let weight = setting("a lane's weight", jobs_a_turn)?;
        self.queue.call(&LaneWeight { group: self.id, weight }).await.map_err(Error::of_queue)
    }

    /// Takes it out of the rotation with its backlog; what is in flight is untouched, and it can
    /// still be enqueued to.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn pause(&self) -> Result<Switched, Error> {
        self.queue.call(&LanePause { group: self.id }).await.map_err(Error::of_queue)
    }

    /// Brings it back into the rotation.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn resume(&self) -> Result<Switched, Error> {
        self.queue.call(&LaneResume { group: self.id }).await.map_err(Error::of_queue)
    }

    /// How many jobs wait in it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn depth(&self) -> Result<u64, Error> {
        self.queue.cardinality(Cmd::new("ZCARD").arg(self.key())).await
    }

    /// The ids of the jobs that wait in it, newest first, at most `n`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn browse(&self, n: usize) -> Result<Vec<BrandedId>, Error> {
        self.queue.newest(&self.key(), n).await
    }

    /// Its depth, leases and settings, in one round trip.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn status(&self) -> Result<LaneStatus, Error> {
        let mut statuses = listing::statuses(&self.queue, &[self.id]).await?;
        // One status a lane, in order.
        Ok(statuses.swap_remove(0))
    }

    /// Deletes what waits in it, two hundred jobs at a time and the oldest first, until a step finds
    /// fewer. What is in flight, scheduled or dead stays. Answers how many went.
    ///
    /// Each job goes as by [`Queue::remove`], so the lane leaves the ring with its last one. A job
    /// that starts between the step's look and its end stays; one that within that moment started
    /// and failed, or was moved to another lane, goes all the same.
    ///
    /// ```
    /// # use emq_core::Bus;
    /// # use emq_keys::{BrandedId, namespace};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let valkey = emq_testkit::Valkey::start()?;
    /// # let queue = Bus::connect(&valkey.url()).await?.queue("renders")?;
    /// let acme = queue.lane(BrandedId::derive(namespace!("TEN"), b"acme-corp")?);
    /// acme.enqueue("1").await?;
    /// queue.enqueue("of nobody").await?;
    /// assert_eq!(acme.drain().await?, 1);
    /// assert_eq!(queue.depth().await?, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`Error`]; what was deleted until then stays deleted.
    pub async fn drain(&self) -> Result<u64, Error> {
        let (mut removed, mut after) = (0, "-".to_owned());
        loop {
            let oldest = Cmd::new("ZRANGE").arg(self.key()).arg(&after).arg("+").arg("BYLEX");
            let oldest = self.queue.read(oldest.arg("LIMIT").int(0).int(DRAIN_STEP)).await?;
            let Reply::Array(members) = &oldest else { return Err(misread("ZRANGE", &oldest)) };
            let calls: Vec<Remove> = ids(&oldest).map(|id| Remove { id }).collect();
            for outcome in self.queue.call_all(&calls).await.map_err(Error::of_queue)? {
                match outcome.map_err(Error::of_queue) {
                    Ok(outcome) => removed += u64::from(outcome == Removed::Done),
                    // It was claimed meanwhile.
                    Err(Error::State { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            // What couldn't be removed isn't met again.
            match calls.last() {
                Some(last) if members.len() as i64 == DRAIN_STEP => after = format!("({}", last.id),
                _ => return Ok(removed),
            }
        }
    }

    fn key(&self) -> String {
        self.queue.keys().lane(&self.id)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lane").field(self.queue.name()).field(&self.id).finish()
    }
}

fn setting(what: &'static str, value: u32) -> Result<u32, Error> {
    if (1..=SETTING_MAX).contains(&value) {
        return Ok(value);
    }
    Err(Error::Setting { what, range: "from 1 to 2^31" })
}
