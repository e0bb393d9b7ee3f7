//! What a tree tells of itself while it runs, and when it has ended.

use std::sync::Arc;
use std::time::Duration;

use emq_core::StopReport;

use super::failure::{GaveUp, OwnerFailure};

/// What an owner is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnerPhase {
    /// It waits until those before it are ready.
    Waiting,
    /// It was started and hasn't said that it is ready.
    Starting,
    /// It does its work.
    Running,
    /// Its task was aborted and hasn't ended yet.
    Aborting,
    /// It failed and is started again in a moment.
    Restarting,
    /// It was told to end.
    Stopping,
    /// It has ended, and is not started again.
    Ended,
}

/// One owner at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OwnerStatus {
    /// Its name.
    pub name: Arc<str>,
    /// What it is doing.
    pub phase: OwnerPhase,
    /// How often it was restarted.
    pub restarts: u64,
    /// How it failed last.
    pub last_failure: Option<OwnerFailure>,
}

/// A tree at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TreeStatus {
    /// Its owners, in the order of their start.
    pub owners: Vec<OwnerStatus>,
    /// Whether each of them has been ready once.
    pub ready: bool,
}

impl TreeStatus {
    /// The owner of this name.
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<&OwnerStatus> {
        self.owners.iter().find(|owner| *owner.name == *name)
    }
}

/// How an owner ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OwnerEnd {
    /// It ended when it was told to.
    Stopped,
    /// It had ended by itself, as its policy lets it.
    Finished,
    /// It ended with a failure and was not restarted.
    Failed(OwnerFailure),
    /// It wasn't running when the tree stopped: not started yet, or between two starts.
    NotRunning,
    /// It did not end within its grace, and was aborted.
    Aborted,
    /// It did not even end then: it blocks its thread, and is left to itself.
    Left,
}

/// What became of one owner.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OwnerReport {
    /// Its name.
    pub name: Arc<str>,
    /// How it ended.
    pub end: OwnerEnd,
    /// How often it was restarted.
    pub restarts: u64,
    /// How its worker stopped, for an owner made by [`Owner::worker`](super::Owner::worker).
    pub worker: Option<StopReport>,
}

/// How a tree ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TreeReport {
    /// Its owners, in the order of their start.
    pub owners: Vec<OwnerReport>,
    /// How long the stop took.
    pub took: Duration,
    /// Why it ended, when nobody stopped it.
    pub gave_up: Option<GaveUp>,
}

impl TreeReport {
    /// The owner of this name.
    #[must_use]
    pub fn owner(&self, name: &str) -> Option<&OwnerReport> {
        self.owners.iter().find(|owner| *owner.name == *name)
    }

    /// Whether every owner ended by itself or when it was told to.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let clean = |owner: &OwnerReport| {
            matches!(owner.end, OwnerEnd::Stopped | OwnerEnd::Finished | OwnerEnd::NotRunning)
        };
        self.gave_up.is_none() && self.owners.iter().all(clean)
    }
}
