//! Reads the bus, round by round, within a bound that doesn't grow with the bus: only what is on
//! the screen is read, thirteen numbers a queue and one page of its detail.

mod detail;
mod search;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use emq_core::{Bus, Error, LaneSweep, Queue};
use emq_keys::QueueName;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use self::detail::Pages;
use self::search::Searcher;
use super::reading::{Reading, Wanted};
use crate::exit::chain;

/// How many lanes a round looks at to add up what waits in them, over all queues shown.
const LANES_SWEPT_A_ROUND: usize = 50;

/// Samples a bus for one screen.
pub(super) struct Sampler {
    bus: Bus,
    wanted: watch::Receiver<Wanted>,
    news: mpsc::Sender<Reading>,
    searcher: Searcher,
    sweeps: HashMap<QueueName, LaneSweep>,
    pages: Pages,
}

impl Sampler {
    /// `names` are the queues to show; with none of them they are searched for.
    pub(super) fn new(
        bus: Bus,
        names: Vec<QueueName>,
        wanted: watch::Receiver<Wanted>,
        news: mpsc::Sender<Reading>,
    ) -> Sampler {
        let searcher = Searcher::new(bus.clone(), names);
        let (sweeps, pages) = (HashMap::new(), Pages::default());
        Sampler { bus, wanted, news, searcher, sweeps, pages }
    }

    /// Reads a round at each interval, and the pane at once when another one is wanted. Ends when
    /// nobody listens any more, or with the error of a bus that is of no use for good.
    pub(super) async fn run(mut self, every: Duration) -> Result<(), Error> {
        let mut rounds = tokio::time::interval(every);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let whole = tokio::select! {
                _ = rounds.tick() => true,
                changed = self.wanted.changed() => match changed {
                    Ok(()) => false,
                    Err(_) => return Ok(()),
                },
            };
            let outcome = if whole { self.round().await } else { self.turned().await };
            let told = match outcome {
                Ok(()) => Reading::Answered { at: Instant::now() },
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => Reading::Failed { why: chain(&error) },
            };
            if self.news.send(told).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn round(&mut self) -> Result<(), Error> {
        if let Some(search) = self.searcher.look_on().await? {
            self.tell(Reading::Search(search)).await;
        }
        let wanted = self.wanted.borrow_and_update().clone();
        self.sweeps.retain(|name, _| wanted.shown.contains(name));
        self.read_queues(&wanted.shown).await?;
        self.read_detail(&wanted).await
    }

    /// The screen shows something else: what of it wasn't read yet is read at once.
    async fn turned(&mut self) -> Result<(), Error> {
        let wanted = self.wanted.borrow_and_update().clone();
        let fresh: Vec<QueueName> =
            wanted.shown.iter().filter(|name| !self.sweeps.contains_key(*name)).cloned().collect();
        self.read_queues(&fresh).await?;
        self.read_detail(&wanted).await
    }

    /// All at once, so that the round trips overlap.
    async fn read_queues(&mut self, names: &[QueueName]) -> Result<(), Error> {
        let mut reads = JoinSet::new();
        let lanes_each = LANES_SWEPT_A_ROUND.div_ceil(names.len().max(1));
        for name in names {
            let queue = self.bus.queue(name)?;
            let sweep = self.sweeps.remove(name).unwrap_or_else(|| queue.sweep_lanes());
            reads.spawn(read_queue(queue, sweep, lanes_each));
        }
        let mut failed = None;
        while let Some(read) = reads.join_next().await {
            // A panic there is one here.
            let (name, sweep, reading) = match read {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            };
            self.sweeps.insert(name, sweep);
            match reading {
                Ok(reading) => self.tell(reading).await,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn read_detail(&mut self, wanted: &Wanted) -> Result<(), Error> {
        let Some((name, detail)) = &wanted.detail else { return Ok(()) };
        let queue = self.bus.queue(name)?;
        let reading = self.pages.read(&queue, *detail).await?;
        self.tell(reading).await;
        Ok(())
    }

    /// That nobody listens is noticed at the end of the round.
    async fn tell(&self, reading: Reading) {
        let _ = self.news.send(reading).await;
    }
}

async fn read_queue(
    queue: Queue,
    mut sweep: LaneSweep,
    lanes_at_most: usize,
) -> (QueueName, LaneSweep, Result<Reading, Error>) {
    let name = queue.name().clone();
    let vitals = match queue.vitals().await {
        Ok(vitals) => vitals,
        Err(error) => return (name, sweep, Err(error)),
    };
    let has_lanes = vitals.lanes_ready + vitals.lanes_paused + vitals.lanes_leased > 0;
    let had_lanes = sweep.reading().lanes > 0;
    let lanes = if has_lanes || had_lanes || !sweep.reading().whole {
        match sweep.step(lanes_at_most).await {
            Ok(lanes) => lanes,
            Err(error) => return (name, sweep, Err(error)),
        }
    } else {
        sweep.reading()
    };
    let is_summed = !has_lanes || (lanes.whole && lanes.lanes < lanes_at_most as u64);
    let at = Instant::now();
    let reading = Reading::Queue { name: name.clone(), at, vitals, lanes, is_summed };
    (name, sweep, Ok(reading))
}

/// Whether every further call on the bus would say the same.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Closed | Error::Refused(_)) && !error.is_retryable()
}
