//! What is read of the bus, on its way from the one who samples to the model.

use std::time::{Duration, Instant};

use emq_core::{JobRecord, LaneStatus, Timed};
use emq_keys::{BrandedId, QueueName};

use crate::watching::{Numbers, Search};

/// One piece of news.
#[derive(Clone, Debug)]
pub(super) enum Reading {
    /// How far the search for queues has come.
    Search(Search),
    /// A queue's numbers.
    Queue(Numbers),
    /// A queue that can't be read, though the server answers.
    Unreadable { queue: QueueName, why: String },
    /// A page of the lanes of a queue.
    Lanes { queue: QueueName, page: usize, lanes: Vec<LaneRow>, more: bool },
    /// The leases of a queue that end first.
    Leases { queue: QueueName, at: Instant, leases: Vec<Held> },
    /// A page of the morgue of a queue.
    Morgue { queue: QueueName, page: usize, letters: Vec<DeadLetter>, more: bool },
    /// A round of reading came to its end.
    Answered { at: Instant },
    /// A round of reading failed.
    Failed { why: String },
}

/// A lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneRow {
    pub(super) id: BrandedId,
    pub(super) depth: u64,
    pub(super) leases: u64,
    pub(super) ceiling: Option<u32>,
    pub(super) weight: u32,
    pub(super) paused: bool,
}

impl From<LaneStatus> for LaneRow {
    fn from(lane: LaneStatus) -> LaneRow {
        let LaneStatus { id, depth, leases, ceiling, weight, paused, .. } = lane;
        LaneRow { id, depth, leases, ceiling, weight, paused }
    }
}

/// A job under a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: BrandedId,
    /// How long its lease lasts yet.
    pub(super) left: Duration,
    /// The ticket that it was claimed by, `<incarnation of the worker>.<number of the claim>`.
    pub(super) ticket: Option<String>,
    pub(super) lane: Option<BrandedId>,
}

impl Held {
    pub(super) fn worker(&self) -> Option<&str> {
        let ticket = self.ticket.as_deref()?;
        Some(ticket.rsplit_once('.').map_or(ticket, |(worker, _)| worker))
    }

    pub(super) fn claim(&self) -> Option<u64> {
        self.ticket.as_deref()?.rsplit_once('.')?.1.parse().ok()
    }
}

impl From<Timed> for Held {
    fn from(job: Timed) -> Held {
        Held { id: job.id, left: job.left, ticket: job.holder, lane: job.lane }
    }
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

impl From<JobRecord> for DeadLetter {
    fn from(record: JobRecord) -> DeadLetter {
        DeadLetter {
            id: record.id,
            attempts: record.attempts,
            kind: record.kind,
            lane: record.group,
            error: record.last_error,
        }
    }
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
