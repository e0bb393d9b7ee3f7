//! What is read of the bus, on its way from the one who samples to the model.

use std::time::Instant;

use emq_core::{LaneStatus, SweptLanes, Timed, Vitals};
use emq_keys::{BrandedId, QueueName};

/// One piece of news.
#[derive(Clone, Debug)]
pub(super) enum Reading {
    /// How far the search for queues has come.
    Search(Search),
    /// A queue's numbers.
    Queue {
        name: QueueName,
        at: Instant,
        vitals: Vitals,
        lanes: SweptLanes,
        /// Whether `lanes` was added up within this round.
        is_summed: bool,
    },
    /// A page of the lanes of a queue.
    Lanes { queue: QueueName, page: usize, lanes: Vec<LaneStatus>, more: bool },
    /// The leases of a queue that end first.
    Leases { queue: QueueName, at: Instant, leases: Vec<Timed> },
    /// A page of the morgue of a queue.
    Morgue { queue: QueueName, page: usize, letters: Vec<DeadLetter>, more: bool },
    /// A round of reading came to its end.
    Answered { at: Instant },
    /// A round of reading failed.
    Failed { why: String },
}

/// The queues that the search has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Search {
    pub(super) found: Vec<QueueName>,
    /// Whether the whole keyspace was looked through at least once.
    pub(super) whole: bool,
}

/// A dead letter without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeadLetter {
    pub(super) id: BrandedId,
    pub(super) attempts: u64,
    pub(super) kind: Option<String>,
    pub(super) lane: Option<BrandedId>,
    pub(super) error: Option<String>,
}

/// What the model wants to be read. Nothing that isn't shown is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The queues whose rows are on the screen.
    pub(super) shown: Vec<QueueName>,
    /// The queue whose pane is on the screen, and what of it.
    pub(super) detail: Option<(QueueName, Detail)>,
}

/// A pane's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Lanes { page: usize, rows: usize },
    Leases,
    Morgue { page: usize, rows: usize },
}
