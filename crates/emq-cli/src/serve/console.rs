//! What the console's pages need, read within bounds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use emq_core::{Bus, Error, LaneStatus, Queue};
use emq_keys::{BrandedId, QueueName};
use tokio::sync::{Mutex, Semaphore};

use super::link::Link;
use super::pages::{self, LanePage, LetterPage, QueuePage};
use super::watcher::Watcher;
use crate::exit::chain;
use crate::watching::{Watched, is_of_the_server};

/// How many pages are read at once.
const READS: usize = 8;
/// How many lanes a page has.
const LANES_A_PAGE: usize = 100;
/// How many lanes can be paged through.
const LANES_LISTED: usize = 20_000;
/// How many names of lanes are read at once.
const WINDOW: usize = 500;
/// How long a list of lanes is good for, and of how many queues one is kept.
const LIST_HOLDS: Duration = Duration::from_secs(10);
const LISTS: usize = 16;
/// How many dead letters a page has.
const LETTERS_A_PAGE: usize = 50;
/// How many jobs in flight, and how many that wait, the page of a queue shows.
const JOBS_SHOWN: usize = 20;

/// What a page came to.
pub(super) enum Found {
    Page(String),
    /// It is at another path.
    There(String),
    Nothing(String),
    Malformed(String),
    OutOfReach(String),
    /// The server answers, and this can't be read.
    Broken(String),
}

/// The names of a queue's lanes, in order, as they were lately.
struct LaneList {
    since: Instant,
    names: Arc<Vec<BrandedId>>,
    /// Whether these are all.
    whole: bool,
}

/// Reads for pages.
pub(super) struct Console {
    link: Link,
    watcher: Arc<Watcher>,
    shows_payloads: bool,
    reads: Semaphore,
    lists: Mutex<HashMap<QueueName, LaneList>>,
}

impl Console {
    pub(super) fn new(link: Link, watcher: Arc<Watcher>, shows_payloads: bool) -> Console {
        let (reads, lists) = (Semaphore::new(READS), Mutex::default());
        Console { link, watcher, shows_payloads, reads, lists }
    }

    /// All queues.
    pub(super) async fn queues(&self) -> Found {
        match self.watcher.snapshot().await {
            Ok(snapshot) => Found::Page(pages::queues(&snapshot)),
            Err(why) => Found::OutOfReach(why),
        }
    }

    /// One queue, which may be one that isn't among those read.
    pub(super) async fn queue(&self, name: &str) -> Found {
        self.read(name, async |queue: &Queue| {
            let names = [queue.name().clone()];
            let mut round = Watched::new(queue.bus().clone()).read(&names, WINDOW).await?;
            if let Some((_, error)) = round.unreadable.pop() {
                return Err(error);
            }
            let Some(numbers) = round.read.pop().filter(|numbers| !numbers.vitals.is_empty())
            else {
                return Ok(Found::Nothing(format!("Nothing is in a queue {name}.")));
            };
            let waiting = queue.browse(JOBS_SHOWN).await?;
            let leased = queue.leased(JOBS_SHOWN).await?;
            let page = QueuePage { numbers: &numbers, waiting: &waiting, leased: &leased };
            Ok(Found::Page(pages::queue(&page)))
        })
        .await
    }

    /// A page of lanes, or one lane.
    pub(super) async fn lanes(&self, name: &str, page: usize, one: Option<&str>) -> Found {
        let one = match one.map(str::parse::<BrandedId>).transpose() {
            Ok(one) => one,
            Err(_) => return Found::Malformed("That is no lane's id.".to_owned()),
        };
        self.read(name, async |queue: &Queue| {
            let (names, whole) = match one {
                Some(lane) => (Arc::new(vec![lane]), true),
                None => self.lane_names(queue).await?,
            };
            let pages = names.len().div_ceil(LANES_A_PAGE).max(1);
            let page = page.min(pages);
            let first = (page - 1) * LANES_A_PAGE;
            let shown = &names[first..names.len().min(first + LANES_A_PAGE)];
            let lanes: Vec<LaneStatus> = queue.lane_statuses(shown).await?;
            let listed = names.len();
            let queue = queue.name();
            Ok(Found::Page(pages::lanes(&LanePage {
                queue,
                lanes: &lanes,
                page,
                pages,
                listed,
                whole,
            })))
        })
        .await
    }

    /// A page of dead letters, those before a given one.
    pub(super) async fn morgue(&self, name: &str, before: Option<&str>) -> Found {
        let before = match before.map(str::parse::<BrandedId>).transpose() {
            Ok(before) => before,
            Err(_) => return Found::Malformed("That is no job's id.".to_owned()),
        };
        self.read(name, async |queue: &Queue| {
            let morgue = queue.morgue();
            let depth = morgue.depth().await?;
            let mut ids = morgue.page(before, LETTERS_A_PAGE + 1).await?;
            let more = ids.len() > LETTERS_A_PAGE;
            ids.truncate(LETTERS_A_PAGE);
            let letters = queue.get_many(&ids).await?.into_iter().flatten().collect();
            let next = ids.last().copied().filter(|_| more);
            let (queue, is_first) = (queue.name(), before.is_none());
            Ok(Found::Page(pages::morgue(&LetterPage { queue, depth, letters, next, is_first })))
        })
        .await
    }

    /// From the form to the job's own page.
    pub(super) fn find(&self, name: &str, id: &str) -> Found {
        match (QueueName::new(name), id.trim_matches('+').parse::<BrandedId>()) {
            (Ok(name), Ok(id)) => Found::There(format!("/queues/{name}/jobs/{id}")),
            (Ok(_), Err(error)) => Found::Malformed(format!("That is no job's id: {error}.")),
            (Err(error), _) => Found::Malformed(format!("That is no queue's name: {error}.")),
        }
    }

    /// A job explained.
    pub(super) async fn job(&self, name: &str, id: &str) -> Found {
        let Ok(id) = id.parse::<BrandedId>() else {
            return Found::Malformed("That is no job's id.".to_owned());
        };
        self.read(name, async |queue: &Queue| match queue.explain(id).await? {
            Some(job) => Ok(Found::Page(pages::job(queue.name(), &job, self.shows_payloads))),
            None => Ok(Found::Nothing(format!(
                "{id} is not in {name}: it is done, was removed, or never was there."
            ))),
        })
        .await
    }

    /// Reads of a queue, so many pages at once.
    async fn read<F>(&self, name: &str, read: F) -> Found
    where
        F: AsyncFnOnce(&Queue) -> Result<Found, Error>,
    {
        let name = match QueueName::new(name) {
            Ok(name) => name,
            Err(error) => return Found::Malformed(format!("That is no queue's name: {error}.")),
        };
        // The semaphore is never closed.
        let _place = self.reads.acquire().await;
        let found = match self.link.bus() {
            Ok(bus) => read_on(&bus, &name, read).await,
            Err(why) => return Found::OutOfReach(why),
        };
        found.unwrap_or_else(|error| match is_of_the_server(&error) {
            true => Found::OutOfReach(self.link.note(error)),
            false => Found::Broken(chain(&error)),
        })
    }

    /// Names in an order that stays, so that pages can be turned while the ring turns.
    async fn lane_names(&self, queue: &Queue) -> Result<(Arc<Vec<BrandedId>>, bool), Error> {
        let mut lists = self.lists.lock().await;
        lists.retain(|_, list| list.since.elapsed() < LIST_HOLDS);
        if let Some(list) = lists.get(queue.name()) {
            return Ok((Arc::clone(&list.names), list.whole));
        }
        let (mut lanes, mut names, mut whole) = (queue.lanes(), Vec::new(), false);
        while names.len() < LANES_LISTED && !whole {
            let window = lanes.ids(WINDOW).await?;
            whole = window.is_empty();
            names.extend(window);
        }
        names.sort_unstable();
        let names = Arc::new(names);
        if lists.len() < LISTS {
            let (since, names) = (Instant::now(), Arc::clone(&names));
            lists.insert(queue.name().clone(), LaneList { since, names, whole });
        }
        Ok((names, whole))
    }
}

async fn read_on<F>(bus: &Bus, name: &QueueName, read: F) -> Result<Found, Error>
where
    F: AsyncFnOnce(&Queue) -> Result<Found, Error>,
{
    read(&bus.queue(name)?).await
}
