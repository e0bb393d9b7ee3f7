//! A tree of owners, described and running.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::failure::{GaveUp, OwnerFailure, TreeError};
use super::owner::Owner;
use super::status::{TreeReport, TreeStatus};
use super::tend::{Kill, Rules, Tending};

/// How many restarts are allowed, and within which time, unless it is told otherwise.
const RESTARTS_DEFAULT: usize = 5;
const WINDOW_DEFAULT: Duration = Duration::from_secs(10);
/// The most restarts that can be allowed: each is remembered for the window.
const RESTARTS_MAX: usize = 10_000;

/// Describes a tree of owners: one that fails is restarted alone.
#[derive(Clone, Debug)]
pub struct Supervisor {
    owners: Vec<Owner>,
    rules: Rules,
}

impl Default for Supervisor {
    fn default() -> Self {
        Supervisor::new()
    }
}

impl Supervisor {
    /// Without owners yet.
    #[must_use]
    pub fn new() -> Supervisor {
        let rules = Rules { restarts: RESTARTS_DEFAULT, window: WINDOW_DEFAULT };
        Supervisor { owners: Vec::new(), rules }
    }

    /// Adds an owner. It is started when those before it are ready, and stopped before them.
    #[must_use]
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owners.push(owner);
        self
    }

    /// How many restarts, of all owners together, are allowed within a window: 5 within 10 s by
    /// default. With one more the tree stops, since what fails so often isn't cured by a restart.
    #[must_use]
    pub fn intensity(mut self, restarts: usize, window: Duration) -> Self {
        self.rules = Rules { restarts: restarts.min(RESTARTS_MAX), window };
        self
    }

    /// Starts the owners one after the other, in tasks of this runtime. It answers at once;
    /// [`Tree::ready`] waits for them. The same description may be started many times.
    ///
    /// # Errors
    /// Two owners have one name, or there is none.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) -> Result<Tree, TreeError> {
        if self.owners.is_empty() {
            return Err(TreeError::NoOwner);
        }
        for (n, owner) in self.owners.iter().enumerate() {
            if self.owners[..n].iter().any(|other| other.name == owner.name) {
                return Err(TreeError::SameName(Arc::clone(&owner.name)));
            }
        }
        let stop = CancellationToken::new();
        let (kill, kills) = mpsc::channel(1);
        let tending = Tending::new(&self.owners, self.rules, stop.clone(), kills);
        let status = tending.status();
        let (outcome, ended) = watch::channel(None);
        let task = tokio::spawn(async move {
            let report = tending.run().await;
            outcome.send_replace(Some(report));
        });
        Ok(Tree { status, stop, kill, ended, task: Task(task), rules: self.rules })
    }

    /// The longest time that a stop may take: the sum of the graces.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.owners.iter().map(|owner| owner.grace).sum()
    }
}

/// What [`Tree::kill`] met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killed {
    /// The owner's task was aborted.
    Aborted,
    /// It wasn't running.
    NotRunning,
    /// There is no owner of this name.
    Unknown,
}

/// A tree that runs.
///
/// Dropping it without [`Tree::stop`] is like a crash of its process: every owner is aborted where
/// it stands.
#[must_use = "a tree ends when it is dropped"]
pub struct Tree {
    status: watch::Receiver<TreeStatus>,
    stop: CancellationToken,
    kill: mpsc::Sender<Kill>,
    ended: watch::Receiver<Option<TreeReport>>,
    task: Task,
    rules: Rules,
}

/// The supervisor's task, ended with this value.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Tree {
    /// Watches what its owners do.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<TreeStatus> {
        self.status.clone()
    }

    /// Waits until every owner has been ready once.
    ///
    /// # Errors
    /// The tree gave up before.
    pub async fn ready(&self) -> Result<(), GaveUp> {
        let mut status = self.status.clone();
        tokio::select! {
            biased;
            Ok(_) = status.wait_for(|status| status.ready) => Ok(()),
            ended = self.ended() => ended,
        }
    }

    /// Aborts an owner's task as a crash would, for tests and drills: it is dropped at its next
    /// await, and restarted. It returns when the abort was ordered.
    pub async fn kill(&self, name: &str) -> Killed {
        let (answer, killed) = oneshot::channel();
        if self.kill.send(Kill { name: name.into(), answer }).await.is_err() {
            return Killed::NotRunning;
        }
        killed.await.unwrap_or(Killed::NotRunning)
    }

    /// Waits until the tree has ended: all its owners have ended for good, or it gave up.
    ///
    /// # Errors
    /// It gave up: the error names the owner, and its last failure is the source.
    pub async fn ended(&self) -> Result<(), GaveUp> {
        self.report().await.gave_up.map_or(Ok(()), Err)
    }

    /// Stops the owners, the last one first, and each before the one in front of it is told. It
    /// returns within the sum of the graces, also when an owner ignores its token (it is aborted)
    /// or blocks its thread (it is left, if the runtime has another thread for the rest).
    pub async fn stop(self) -> TreeReport {
        self.stop.cancel();
        self.report().await
    }

    async fn report(&self) -> TreeReport {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(report)) => report.clone(),
            // The task went with its runtime, and took its owners along.
            _ => TreeReport {
                owners: Vec::new(),
                took: Duration::ZERO,
                gave_up: Some(GaveUp {
                    owner: "the supervisor".into(),
                    failure: OwnerFailure::Killed,
                    restarts: self.rules.restarts,
                    window: self.rules.window,
                }),
            },
        }
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("status", &*self.status.borrow())
            .field("running", &!self.task.0.is_finished())
            .finish_non_exhaustive()
    }
}
