//! Reads the bus, round by round, within a bound that doesn't grow with the bus: only what is on
//! the screen is read, thirteen numbers a queue and one page of its detail.

mod detail;

use std::time::{Duration, Instant};

use emq_core::{Bus, Error};
use emq_keys::QueueName;
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;

use self::detail::Pages;
use super::reading::{Reading, Wanted};
use crate::exit::{chain, root};
use crate::watching::{Searcher, Watched, is_of_the_server};

/// How many lanes a round looks at to add up what waits in them, over all queues shown.
const LANES_SWEPT_A_ROUND: usize = 50;

/// Samples a bus for one screen.
pub(super) struct Sampler {
    bus: Bus,
    wanted: watch::Receiver<Wanted>,
    news: mpsc::Sender<Reading>,
    searcher: Searcher,
    watched: Watched,
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
        let watched = Watched::new(bus.clone());
        Sampler { bus, wanted, news, searcher, watched, pages: Pages::default() }
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
        self.watched.keep_only(&wanted.shown);
        self.read_queues(&wanted.shown).await?;
        self.read_detail(&wanted).await
    }

    /// The screen shows something else: what of it wasn't read yet is read at once.
    async fn turned(&mut self) -> Result<(), Error> {
        let wanted = self.wanted.borrow_and_update().clone();
        let is_fresh = |name: &&QueueName| !self.watched.knows(name);
        let fresh: Vec<QueueName> = wanted.shown.iter().filter(is_fresh).cloned().collect();
        self.read_queues(&fresh).await?;
        self.read_detail(&wanted).await
    }

    async fn read_queues(&mut self, names: &[QueueName]) -> Result<(), Error> {
        let round = self.watched.read(names, LANES_SWEPT_A_ROUND).await?;
        for numbers in round.read {
            self.tell(Reading::Queue(numbers)).await;
        }
        for (name, error) in round.unreadable {
            self.tell(Reading::Unreadable { queue: name, why: root(&error) }).await;
        }
        Ok(())
    }

    async fn read_detail(&mut self, wanted: &Wanted) -> Result<(), Error> {
        let Some((name, detail)) = &wanted.detail else { return Ok(()) };
        let queue = self.bus.queue(name)?;
        let reading = match self.pages.read(&queue, *detail).await {
            Ok(reading) => reading,
            Err(error) if is_of_the_server(&error) => return Err(error),
            Err(error) => Reading::Unreadable { queue: name.clone(), why: root(&error) },
        };
        self.tell(reading).await;
        Ok(())
    }

    /// That nobody listens is noticed at the end of the round.
    async fn tell(&self, reading: Reading) {
        let _ = self.news.send(reading).await;
    }
}

/// Whether every further call on the bus would say the same.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Closed | Error::Refused(_)) && !error.is_retryable()
}
