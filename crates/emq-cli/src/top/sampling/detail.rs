//! The pane's content: one page of it, and the marks by which the next pages are found.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use emq_core::{Error, Lanes, Queue};
use emq_keys::{BrandedId, QueueName};

use crate::top::reading::{DeadLetter, Detail, Held, LaneRow, Reading};

/// How many leases are looked at to tell who holds what.
const LEASES_READ: usize = 50;
/// How many lanes can be paged through.
const LANES_LISTED: usize = 10_000;
/// How many names of lanes are read at once.
const WINDOW: usize = 500;
/// How long the first page keeps to its list of lanes: the ring turns all the time, and rows that
/// jump can't be pointed at.
const LIST_HOLDS: Duration = Duration::from_secs(10);
/// How many dead letters are remembered as marks of pages, and with what killed them.
const LETTERS_KEPT: usize = 10_000;

/// The pages of the queue that is looked at.
#[derive(Default)]
pub(super) struct Pages {
    of: Option<QueueName>,
    lanes: Option<Listing>,
    letters: Letters,
}

/// The names of lanes, read as far as somebody looked.
struct Listing {
    lanes: Lanes,
    names: Vec<BrandedId>,
    ended: bool,
    since: Instant,
}

#[derive(Default)]
struct Letters {
    /// How many rows a page had when the marks were made.
    rows: usize,
    /// The last letter of each page.
    marks: Vec<BrandedId>,
    /// A dead letter doesn't change while it lies there.
    known: HashMap<BrandedId, DeadLetter>,
}

impl Pages {
    pub(super) async fn read(&mut self, queue: &Queue, detail: Detail) -> Result<Reading, Error> {
        if self.of.as_ref() != Some(queue.name()) {
            *self = Pages { of: Some(queue.name().clone()), ..Pages::default() };
        }
        match detail {
            Detail::Lanes { page, rows } => self.lanes(queue, page, rows).await,
            Detail::Leases => {
                let leases = queue.leased(LEASES_READ).await?.into_iter().map(Held::from).collect();
                Ok(Reading::Leases { queue: queue.name().clone(), at: Instant::now(), leases })
            }
            Detail::Morgue { page, rows } => self.letters.page(queue, page, rows).await,
        }
    }

    /// The first page lists anew now and then, so that lanes that came since are found.
    async fn lanes(&mut self, queue: &Queue, page: usize, rows: usize) -> Result<Reading, Error> {
        let (first, end) = (page * rows, (page + 1) * rows);
        let is_stale = |listing: &Listing| listing.since.elapsed() >= LIST_HOLDS;
        if page == 0 && self.lanes.as_ref().is_some_and(is_stale) {
            self.lanes = None;
        }
        let listing = self.lanes.get_or_insert_with(|| Listing::new(queue));
        // One more tells whether there is another page.
        listing.read_to(end + 1).await?;
        let names = &listing.names;
        let shown = &names[first.min(names.len())..end.min(names.len())];
        let lanes = queue.lane_statuses(shown).await?.into_iter().map(LaneRow::from).collect();
        let more = names.len() > end;
        Ok(Reading::Lanes { queue: queue.name().clone(), page, lanes, more })
    }
}

impl Listing {
    fn new(queue: &Queue) -> Listing {
        Listing { lanes: queue.lanes(), names: Vec::new(), ended: false, since: Instant::now() }
    }

    async fn read_to(&mut self, count: usize) -> Result<(), Error> {
        let count = count.min(LANES_LISTED);
        while self.names.len() < count && !self.ended {
            let mut names = self.lanes.ids(WINDOW).await?;
            self.ended = names.is_empty();
            // Within a window in an order that stays.
            names.sort_unstable();
            self.names.extend(names);
        }
        if self.ended && self.names.len() <= WINDOW {
            // A lane that leaves the ring for the paused ones keeps its row.
            self.names.sort_unstable();
        }
        Ok(())
    }
}

impl Letters {
    async fn page(&mut self, queue: &Queue, page: usize, rows: usize) -> Result<Reading, Error> {
        if self.rows != rows {
            *self = Letters { rows, ..Letters::default() };
        }
        // Pages are turned one by one, so that the mark before this one was made.
        let page = page.min(self.marks.len());
        let before = page.checked_sub(1).map(|previous| self.marks[previous]);
        let mut ids = queue.morgue().page(before, rows + 1).await?;
        let more = ids.len() > rows;
        ids.truncate(rows);
        self.marks.truncate(page);
        if let Some(last) = ids.last().filter(|_| self.marks.len() < LETTERS_KEPT) {
            self.marks.push(*last);
        }
        let letters = self.letters(queue, &ids).await?;
        Ok(Reading::Morgue { queue: queue.name().clone(), page, letters, more })
    }

    /// Rows are read once.
    async fn letters(
        &mut self,
        queue: &Queue,
        ids: &[BrandedId],
    ) -> Result<Vec<DeadLetter>, Error> {
        if self.known.len() > LETTERS_KEPT {
            self.known.clear();
        }
        let unknown: Vec<BrandedId> =
            ids.iter().filter(|id| !self.known.contains_key(*id)).copied().collect();
        for record in queue.get_many(&unknown).await?.into_iter().flatten() {
            self.known.insert(record.id, DeadLetter::from(record));
        }
        Ok(ids.iter().filter_map(|id| self.known.get(id).cloned()).collect())
    }
}
