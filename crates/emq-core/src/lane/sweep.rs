//! What waits in all lanes of a queue, added up a few lanes at a time.
//!
//! No key holds this sum, and a queue may have so many lanes that one look at all of them would
//! hold the server. A sweep spreads the look over many small steps.

use emq_keys::BrandedId;
use emq_wire::{Cmd, Pipeline, Reply};

use super::Lanes;
use crate::error::Error;
use crate::queue::{Queue, count, ids, misread};

/// How many lanes one sweep looks at; it remembers their names meanwhile.
const LANES_SWEPT: u64 = 100_000;

/// What a sweep saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweptLanes {
    /// Lanes that were looked at: those in the ring, parked ones, and those with leases out.
    pub lanes: u64,
    /// Jobs that wait in them.
    pub waiting: u64,
    /// The job among them that waits longest by its mint time.
    pub oldest: Option<BrandedId>,
    /// Whether all lanes were looked at. If not, `lanes` and `waiting` are lower bounds.
    pub whole: bool,
}

/// Goes round the lanes of a queue, step by step: [`Queue::sweep_lanes`] starts it.
///
/// Each lane was looked at once within the sweep, at another moment than its neighbours.
///
/// ```
/// use emq_core::Bus;
/// use emq_keys::{BrandedId, namespace};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let valkey = emq_testkit::Valkey::start()?;
/// let queue = Bus::connect(&valkey.url()).await?.queue("renders")?;
/// for tenant in ["acme", "globex", "initech"] {
///     queue.lane(BrandedId::derive(namespace!("TEN"), tenant.as_bytes())?).enqueue("1").await?;
/// }
/// let mut sweep = queue.sweep_lanes();
/// let two = sweep.step(2).await?;
/// assert_eq!((two.waiting, two.whole), (2, false)); // at least two wait
/// let all = sweep.step(2).await?;
/// assert_eq!((all.waiting, all.whole), (3, true));
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is read until a step is asked for"]
pub struct LaneSweep {
    queue: Queue,
    lanes: Lanes,
    so_far: SweptLanes,
    last: Option<SweptLanes>,
}

impl Queue {
    /// Who adds up what waits in its lanes.
    pub fn sweep_lanes(&self) -> LaneSweep {
        LaneSweep::new(self.clone())
    }
}

impl LaneSweep {
    fn new(queue: Queue) -> LaneSweep {
        let lanes = Lanes::with_jobs(queue.clone());
        LaneSweep { queue, lanes, so_far: SweptLanes::default(), last: None }
    }

    /// Looks at the next lanes, at most this many, by two reads each, and answers
    /// [`LaneSweep::reading`]. When a sweep ends within a step the step ends too; the next one
    /// begins a new sweep.
    ///
    /// # Errors
    /// See [`Error`]. The same step can be asked for again.
    pub async fn step(&mut self, lanes_at_most: usize) -> Result<SweptLanes, Error> {
        let mut left = lanes_at_most;
        while left > 0 {
            let names = self.lanes.peek(left).await?;
            let full = self.so_far.lanes >= LANES_SWEPT;
            if names.is_empty() || full {
                self.last = Some(SweptLanes { whole: !full, ..self.so_far });
                self.so_far = SweptLanes::default();
                self.lanes = Lanes::with_jobs(self.queue.clone());
                break;
            }
            self.look_at(&names).await?;
            self.lanes.taken(names.len());
            left -= names.len();
        }
        Ok(self.reading())
    }

    /// What the last sweep that came to its end saw; during the first one, what it saw so far.
    #[must_use]
    pub fn reading(&self) -> SweptLanes {
        self.last.unwrap_or(self.so_far)
    }

    async fn look_at(&mut self, lanes: &[BrandedId]) -> Result<(), Error> {
        let mut asked = Pipeline::default();
        for lane in lanes {
            let key = self.queue.keys().lane(lane);
            asked.push(Cmd::new("ZCARD").arg(&key));
            asked.push(Cmd::new("ZRANGE").arg(&key).int(0).int(0));
        }
        let mut seen = self.so_far;
        let replies = self.queue.read_all(asked).await?;
        for both in replies.chunks(2) {
            let [depth, first] = both else { return Err(misread("ZRANGE", &Reply::Nil)) };
            seen.lanes += 1;
            seen.waiting += count(depth).ok_or_else(|| misread("ZCARD", depth))?;
            seen.oldest = older(seen.oldest, ids(first).next());
        }
        self.so_far = seen;
        Ok(())
    }
}

/// The one that was minted first.
fn older(one: Option<BrandedId>, other: Option<BrandedId>) -> Option<BrandedId> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other < one { other } else { one }),
        (one, other) => one.or(other),
    }
}
