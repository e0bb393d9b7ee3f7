//! The numbers of some queues, read together.

use std::collections::HashMap;
use std::time::Instant;

use emq_core::{Bus, Error, LaneSweep, Queue, SweptLanes, Vitals};
use emq_keys::QueueName;
use tokio::task::JoinSet;

/// A queue's numbers.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    pub(crate) name: QueueName,
    pub(crate) at: Instant,
    pub(crate) vitals: Vitals,
    pub(crate) lanes: SweptLanes,
    /// Whether `lanes` was added up within this reading, and is no older than it.
    pub(crate) is_summed: bool,
}

/// What reading some queues came to.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// By name.
    pub(crate) read: Vec<Numbers>,
    pub(crate) unreadable: Vec<(QueueName, Error)>,
}

/// The queues that are watched, and how far their lanes were looked at.
#[derive(Debug)]
pub(crate) struct Watched {
    bus: Bus,
    sweeps: HashMap<QueueName, LaneSweep>,
}

impl Watched {
    pub(crate) fn new(bus: Bus) -> Watched {
        Watched { bus, sweeps: HashMap::new() }
    }

    /// Whether a queue was read before.
    pub(crate) fn knows(&self, name: &QueueName) -> bool {
        self.sweeps.contains_key(name)
    }

    /// Forgets all other queues.
    pub(crate) fn keep_only(&mut self, names: &[QueueName]) {
        self.sweeps.retain(|name, _| names.contains(name));
    }

    /// Reads all at once, so that the round trips overlap: thirteen numbers a queue, and two of
    /// each of so many lanes in all. A queue that can't be read, because a hand put something else
    /// under its keys for instance, doesn't keep the others from being read.
    ///
    /// # Errors
    /// When the server was lost, or is of no use any more.
    pub(crate) async fn read(
        &mut self,
        names: &[QueueName],
        lanes_at_most: usize,
    ) -> Result<Round, Error> {
        let lanes_each = lanes_at_most.div_ceil(names.len().max(1));
        let mut round = Round::default();
        let mut reads = JoinSet::new();
        for name in names {
            match self.bus.queue(name) {
                Ok(queue) => {
                    let sweep = self.sweeps.remove(name).unwrap_or_else(|| queue.sweep_lanes());
                    reads.spawn(read_queue(queue, sweep, lanes_each));
                }
                Err(error) => round.unreadable.push((name.clone(), error)),
            }
        }
        let mut lost = None;
        while let Some(read) = reads.join_next().await {
            // A panic there is one here.
            let (name, sweep, numbers) = match read {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            };
            self.sweeps.insert(name.clone(), sweep);
            match numbers {
                Ok(numbers) => round.read.push(numbers),
                Err(error) if is_of_the_server(&error) => lost = Some(error),
                Err(error) => round.unreadable.push((name, error)),
            }
        }
        round.read.sort_by(|one, other| one.name.cmp(&other.name));
        lost.map_or(Ok(round), Err)
    }
}

/// Whether it is no queue's own fault.
pub(crate) fn is_of_the_server(error: &Error) -> bool {
    matches!(
        error,
        Error::Disconnected { .. } | Error::Refused(_) | Error::Closed | Error::Overloaded { .. }
    )
}

async fn read_queue(
    queue: Queue,
    mut sweep: LaneSweep,
    lanes_at_most: usize,
) -> (QueueName, LaneSweep, Result<Numbers, Error>) {
    let name = queue.name().clone();
    let numbers = read_numbers(&queue, &mut sweep, lanes_at_most).await;
    (name, sweep, numbers)
}

async fn read_numbers(
    queue: &Queue,
    sweep: &mut LaneSweep,
    lanes_at_most: usize,
) -> Result<Numbers, Error> {
    let vitals = queue.vitals().await?;
    let has_lanes = vitals.lanes_ready + vitals.lanes_paused + vitals.lanes_leased > 0;
    let last = sweep.reading();
    let lanes = if has_lanes || last.lanes > 0 || !last.whole {
        sweep.step(lanes_at_most).await?
    } else {
        last
    };
    let is_summed = !has_lanes || (lanes.whole && lanes.lanes < lanes_at_most as u64);
    Ok(Numbers { name: queue.name().clone(), at: Instant::now(), vitals, lanes, is_summed })
}
