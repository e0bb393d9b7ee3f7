//! Settling: what shall become of a job, and what the server says to it.

use std::time::Duration;

use emq_scripts::{Settle, SettleOutcome, SettleVerdict};

use super::inside::Inside;
use super::note::Key;
use crate::lease::Hold;

/// What shall become of a job.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Its handler did it.
    Done,
    /// An operator called it off while it ran.
    Cancelled,
    /// It failed and runs again after the delay, or is dead at the cap.
    Retry { error: String, delay: Duration },
    /// It failed for good.
    Dead { error: String },
    /// It is handed back unfinished.
    Release,
    /// It is handed back for somebody else, since nobody here knows its kind.
    Unknown,
    /// It isn't ours any more.
    Stale,
}

/// A verdict that the server is yet to hear of, or to answer. It is sent until it is answered: a
/// repeated one changes nothing, and answers that it was decided.
#[derive(Debug)]
pub(super) struct Untold {
    pub(super) key: Key,
    pub(super) hold: Hold,
    pub(super) verdict: Verdict,
}

impl Untold {
    /// What tells the server.
    pub(super) fn settle(&self) -> Settle<'_> {
        let outcome = match &self.verdict {
            Verdict::Done | Verdict::Cancelled => SettleOutcome::Complete,
            Verdict::Retry { error, delay } => {
                SettleOutcome::Retry { delay: *delay, error, force_dead: false }
            }
            Verdict::Dead { error } => {
                SettleOutcome::Retry { delay: Duration::ZERO, error, force_dead: true }
            }
            // A stale one is decided without the server; should one get here, this harms nobody.
            Verdict::Release | Verdict::Unknown | Verdict::Stale => SettleOutcome::Release,
        };
        let Hold { id, token, .. } = self.hold;
        Settle { id, token, ticket: self.hold.ticket(), outcome }
    }

    /// Neighbours of one outcome under one ticket travel together.
    pub(super) fn bundle(&self) -> (u8, Option<&str>) {
        let outcome = match self.verdict {
            Verdict::Done | Verdict::Cancelled => 0,
            Verdict::Retry { .. } | Verdict::Dead { .. } => 1,
            Verdict::Release | Verdict::Unknown | Verdict::Stale => 2,
        };
        (outcome, self.hold.ticket())
    }
}

impl Inside {
    /// Counts what became of a job.
    pub(super) fn decided(&self, hold: &Hold, verdict: &Verdict, answer: SettleVerdict) {
        let tally = &self.tally;
        let Hold { id, token, .. } = *hold;
        let count = match (verdict, answer) {
            (Verdict::Done, SettleVerdict::Done) => &tally.done,
            (Verdict::Cancelled, SettleVerdict::Done) => &tally.cancelled,
            (Verdict::Release | Verdict::Unknown, SettleVerdict::Done) => &tally.released,
            (Verdict::Retry { .. }, SettleVerdict::Scheduled) => &tally.retried,
            (Verdict::Retry { error, .. } | Verdict::Dead { error }, SettleVerdict::Dead) => {
                tracing::warn!(queue = %self.queue.name(), %id, token, error, "a job is dead");
                &tally.dead
            }
            _ => {
                tracing::warn!(
                    queue = %self.queue.name(), %id, token, ?verdict,
                    "the job was decided elsewhere"
                );
                &tally.stale
            }
        };
        count.one();
    }

    /// Counts a job that is left to the end of its lease.
    pub(super) fn abandoned(&self, hold: &Hold, why: &str) {
        let Hold { id, token, .. } = *hold;
        tracing::warn!(
            queue = %self.queue.name(), %id, token, why, "a job is left to the end of its lease"
        );
        self.tally.abandoned.one();
    }
}
