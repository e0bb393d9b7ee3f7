//! Reads the bus at most once a second, however many scrape and look.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emq_keys::QueueName;
use tokio::sync::{Mutex, watch};

use super::link::Link;
use crate::watching::{Numbers, Search, Searcher, Watched};

/// How long a reading is good for.
const HOLDS: Duration = Duration::from_secs(1);
/// How long a reading may take.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// How many lanes a reading looks at to add up what waits in them, over all queues.
const LANES_SWEPT: usize = 500;
/// How often the search for queues goes on; each time it looks at a few thousand keys.
const SEARCH_EVERY: Duration = Duration::from_millis(250);

/// What was read last, and the means to read again.
pub(super) struct Watcher {
    link: Link,
    queues_max: usize,
    search: watch::Receiver<Search>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watched: Option<Watched>,
    last: Option<(Instant, Reading)>,
    readings: u64,
}

/// A snapshot, or why there is none.
pub(super) type Reading = Result<Arc<Snapshot>, String>;

/// The bus at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) queues: Vec<Numbers>,
    /// Queues that can't be read, though the server answers.
    pub(super) unreadable: Vec<QueueName>,
    /// Further queues that were found and weren't read.
    pub(super) left_out: usize,
    /// Whether the whole keyspace was looked through for queues.
    pub(super) search_is_whole: bool,
    pub(super) took: Duration,
    /// How many readings there were so far, this one included.
    pub(super) readings: u64,
}

impl Watcher {
    pub(super) fn start(link: Link, names: Vec<QueueName>, queues_max: usize) -> Arc<Watcher> {
        let (found, search) = watch::channel(Search::default());
        tokio::spawn(search_on(link.clone(), names, found));
        Arc::new(Watcher { link, queues_max, search, state: Mutex::default() })
    }

    /// The last reading while it is good, else a new one; those who ask meanwhile wait for it.
    pub(super) async fn snapshot(&self) -> Reading {
        let mut state = self.state.lock().await;
        if let Some((at, reading)) = &state.last
            && at.elapsed() < HOLDS
        {
            return reading.clone();
        }
        let reading = match tokio::time::timeout(READ_WITHIN, self.read(&mut state)).await {
            Ok(reading) => reading,
            Err(_) => Err("the server doesn't answer".to_owned()),
        };
        state.last = Some((Instant::now(), reading.clone()));
        reading
    }

    async fn read(&self, state: &mut State) -> Reading {
        let bus = self.link.bus()?;
        let start = Instant::now();
        // With no queue to read, nothing else would ask the server.
        bus.server_time().await.map_err(|error| self.link.note(error))?;
        let search = self.search_result().await;
        let mut names = search.found;
        let left_out = names.len().saturating_sub(self.queues_max);
        names.truncate(self.queues_max);
        let watched = state.watched.get_or_insert_with(|| Watched::new(bus));
        watched.keep_only(&names);
        let round = watched.read(&names, LANES_SWEPT).await;
        let round = round.map_err(|error| self.link.note(error))?;
        state.readings += 1;
        Ok(Arc::new(Snapshot {
            queues: round.read,
            unreadable: round.unreadable.into_iter().map(|(name, _)| name).collect(),
            left_out,
            search_is_whole: search.whole,
            took: start.elapsed(),
            readings: state.readings,
        }))
    }

    /// The first reading waits for the first step of the search.
    async fn search_result(&self) -> Search {
        let mut search = self.search.clone();
        let begun = |search: &Search| search.whole || !search.found.is_empty();
        let first = tokio::time::timeout(HOLDS, search.wait_for(begun));
        match first.await {
            Ok(Ok(search)) => search.clone(),
            _ => self.search.borrow().clone(),
        }
    }
}

async fn search_on(mut link: Link, names: Vec<QueueName>, found: watch::Sender<Search>) {
    let Some(bus) = link.connected().await else { return };
    let mut searcher = Searcher::new(bus, names);
    let mut tick = tokio::time::interval(SEARCH_EVERY);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = found.closed() => return,
        }
        // A failure is told by the readings; the search goes on when the server is back.
        if let Ok(Some(search)) = searcher.look_on().await {
            found.send_replace(search);
        }
    }
}
