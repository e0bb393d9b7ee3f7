//! What the screen is about: no terminal and no server in here.

mod keys;
mod queue_view;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use emq_keys::{BrandedId, QueueName};

pub(super) use self::keys::{Act, Reaction};
pub(super) use self::queue_view::QueueView;
use super::reading::{DeadLetter, Detail, Held, LaneRow, Reading, Wanted};
use super::workers::Crew;
use crate::watching::Search;
use crate::watching::text::cut_name;

/// How much of a queue's name a notice has room for.
const NAME: usize = 24;
/// How long a notice stands.
const NOTICE_STANDS: Duration = Duration::from_secs(6);

/// The state of the view.
#[derive(Debug)]
pub(super) struct Model {
    /// The server's address, without a password.
    pub(super) server: String,
    pub(super) link: Link,
    pub(super) search: Search,
    pub(super) queues: BTreeMap<QueueName, QueueView>,
    /// Which of the found queues is selected.
    pub(super) selected: usize,
    /// The found queue in the first row.
    pub(super) top: usize,
    pub(super) focus: Focus,
    pub(super) pane: Pane,
    pub(super) lanes: Page<LaneRow>,
    pub(super) letters: Page<DeadLetter>,
    pub(super) crew: Crew,
    /// Which row of the pane is selected.
    pub(super) row: usize,
    /// Which page of the pane is wanted.
    pub(super) page: usize,
    pub(super) mode: Mode,
    pub(super) notice: Option<Notice>,
    pub(super) rows: Rows,
}

/// How the connection does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Nothing was read so far.
    Fresh,
    /// The last round of reading came to its end.
    Up { at: Instant },
    /// The connection is lost, or reading failed.
    Down { since: Instant, why: String },
}

/// Where the arrow keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    Queues,
    Pane,
}

/// What the lower half shows of the selected queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Lanes,
    Workers,
    Morgue,
}

/// A page of rows, as far as it was read.
#[derive(Debug)]
pub(super) struct Page<T> {
    pub(super) rows: Vec<T>,
    pub(super) more: bool,
    pub(super) read: bool,
}

/// What the keys mean now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Watch,
    Help,
    /// A number is asked for.
    Ask {
        what: Asked,
        queue: QueueName,
        lane: BrandedId,
        typed: String,
    },
    /// Yes or no.
    Confirm(Act),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Ceiling,
    Weight,
}

/// A line that stands for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) text: String,
    pub(super) is_bad: bool,
    pub(super) at: Instant,
}

/// How many rows the screen has for each half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) queues: usize,
    pub(super) pane: usize,
}

impl Rows {
    /// Of a screen's height, five lines are for headings and keys.
    pub(super) fn of(height: u16) -> Rows {
        let body = usize::from(height).saturating_sub(5).max(2);
        let queues = (body * 2 / 5).max(1);
        Rows { queues, pane: body - queues }
    }
}

impl<T> Default for Page<T> {
    fn default() -> Page<T> {
        Page { rows: Vec::new(), more: false, read: false }
    }
}

impl Model {
    pub(super) fn new(server: String, height: u16) -> Model {
        Model {
            server,
            link: Link::Fresh,
            search: Search::default(),
            queues: BTreeMap::new(),
            selected: 0,
            top: 0,
            focus: Focus::Queues,
            pane: Pane::Lanes,
            lanes: Page::default(),
            letters: Page::default(),
            crew: Crew::default(),
            row: 0,
            page: 0,
            mode: Mode::Watch,
            notice: None,
            rows: Rows::of(height),
        }
    }

    /// The queues whose rows are on the screen.
    pub(super) fn shown(&self) -> &[QueueName] {
        let found = &self.search.found;
        let end = (self.top + self.rows.queues).min(found.len());
        &found[self.top.min(end)..end]
    }

    /// The queue whose pane is on the screen.
    pub(super) fn queue(&self) -> Option<&QueueName> {
        self.search.found.get(self.selected)
    }

    pub(super) fn wanted(&self) -> Wanted {
        let rows = self.rows.pane;
        let detail = match self.pane {
            Pane::Lanes => Detail::Lanes { page: self.page, rows },
            Pane::Workers => Detail::Leases,
            Pane::Morgue => Detail::Morgue { page: self.page, rows },
        };
        let detail = self.queue().cloned().map(|queue| (queue, detail));
        Wanted { shown: self.shown().to_vec(), detail }
    }

    /// Takes in what was read.
    pub(super) fn take(&mut self, reading: Reading) {
        match reading {
            Reading::Search(search) => self.found(search),
            Reading::Queue(numbers) => {
                self.queues.entry(numbers.name.clone()).or_default().note(&numbers);
            }
            Reading::Lanes { queue, page, lanes, more } => {
                if self.is_shown(&queue, Pane::Lanes, page) {
                    let chosen = self.lanes.rows.get(self.row).map(|lane| lane.id);
                    self.lanes = Page { rows: lanes, more, read: true };
                    let at = self.lanes.rows.iter().position(|lane| Some(lane.id) == chosen);
                    self.keep_row(at, self.lanes.rows.len());
                }
            }
            Reading::Leases { queue, at, leases } => {
                if self.is_shown(&queue, Pane::Workers, self.page) {
                    self.see_leases(at, &leases);
                }
            }
            Reading::Morgue { queue, page, letters, more } => {
                if self.is_shown(&queue, Pane::Morgue, page) {
                    let chosen = self.letters.rows.get(self.row).map(|letter| letter.id);
                    self.letters = Page { rows: letters, more, read: true };
                    let at = self.letters.rows.iter().position(|one| Some(one.id) == chosen);
                    self.keep_row(at, self.letters.rows.len());
                }
            }
            Reading::Unreadable { queue, why } => {
                self.queues.remove(&queue);
                self.say(format!("{}: {why}", cut_name(queue.as_str(), NAME)), true);
            }
            Reading::Answered { at } => self.link = Link::Up { at },
            Reading::Failed { why } => self.lost(why),
        }
    }

    /// The connection is down, since now unless it was before.
    pub(super) fn lost(&mut self, why: String) {
        match &mut self.link {
            Link::Down { why: last, .. } => *last = why,
            link => *link = Link::Down { since: Instant::now(), why },
        }
    }

    pub(super) fn say(&mut self, text: impl Into<String>, is_bad: bool) {
        self.notice = Some(Notice { text: text.into(), is_bad, at: Instant::now() });
    }

    /// What is over at this time goes.
    pub(super) fn pass(&mut self, now: Instant) {
        let over = |notice: &Notice| now.saturating_duration_since(notice.at) >= NOTICE_STANDS;
        if self.notice.as_ref().is_some_and(over) {
            self.notice = None;
        }
    }

    pub(super) fn resize(&mut self, height: u16) {
        self.rows = Rows::of(height);
        self.page = 0;
        self.row = 0;
        self.keep_in_view();
    }

    /// The selection stays on its queue, wherever that moves.
    fn found(&mut self, search: Search) {
        let chosen = self.queue().cloned();
        self.search = search;
        self.queues.retain(|name, _| self.search.found.binary_search(name).is_ok());
        let place = chosen.as_ref().and_then(|name| self.search.found.binary_search(name).ok());
        match place {
            Some(place) => self.selected = place,
            None => {
                self.selected = self.selected.min(self.search.found.len().saturating_sub(1));
                self.turn_to(self.pane);
            }
        }
        self.keep_in_view();
    }

    fn see_leases(&mut self, at: Instant, leases: &[Held]) {
        self.crew.note(at, leases);
        self.keep_row(Some(self.row), self.crew.workers().len());
    }

    fn is_shown(&self, queue: &QueueName, pane: Pane, page: usize) -> bool {
        self.queue() == Some(queue) && self.pane == pane && self.page == page
    }

    fn keep_row(&mut self, at: Option<usize>, rows: usize) {
        self.row = at.unwrap_or(self.row).min(rows.saturating_sub(1));
    }

    fn select(&mut self, place: usize) {
        let place = place.min(self.search.found.len().saturating_sub(1));
        if place != self.selected {
            self.selected = place;
            self.keep_in_view();
            self.turn_to(self.pane);
        }
    }

    fn keep_in_view(&mut self) {
        if self.selected < self.top {
            self.top = self.selected;
        }
        if self.selected >= self.top + self.rows.queues {
            self.top = self.selected + 1 - self.rows.queues;
        }
    }

    /// Another pane, or the pane of another queue: nothing is known of it yet.
    fn turn_to(&mut self, pane: Pane) {
        self.pane = pane;
        (self.page, self.row) = (0, 0);
        self.lanes = Page::default();
        self.letters = Page::default();
        self.crew = Crew::default();
    }
}
