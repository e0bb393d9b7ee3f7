//! The supervisor's loop: starts in order, restarts alone, stops in reverse.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use emq_core::Backoff;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::deadline::Deadlines;
use super::failure::{GaveUp, OwnerError, OwnerFailure};
use super::owner::{Owner, Restart};
use super::place::{Ended, Place, State, Step};
use super::status::{OwnerEnd, TreeReport, TreeStatus};
use super::tree::Killed;

/// The first and the longest pause between two starts of an owner.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// The most time at the end of a grace that is kept for an abort; at most a quarter of it is.
const ABORT_MAX: Duration = Duration::from_millis(100);

/// How many restarts are allowed, and within which time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) restarts: usize,
    pub(super) window: Duration,
}

/// An order to abort an owner.
pub(super) struct Kill {
    pub(super) name: Box<str>,
    pub(super) answer: oneshot::Sender<Killed>,
}

pub(super) struct Tending {
    rules: Rules,
    places: Vec<Place>,
    tasks: JoinSet<Result<(), OwnerError>>,
    place_of: HashMap<Id, usize>,
    /// The restarts of the window: when, and whose.
    recent: VecDeque<(Instant, usize)>,
    backoff: Backoff,
    /// An owner has said something.
    told: Arc<Notify>,
    deadlines: Deadlines,
    stop: CancellationToken,
    kills: mpsc::Receiver<Kill>,
    status: watch::Sender<TreeStatus>,
}

impl Tending {
    pub(super) fn new(
        owners: &[Owner],
        rules: Rules,
        stop: CancellationToken,
        kills: mpsc::Receiver<Kill>,
    ) -> Tending {
        let places: Vec<Place> = owners.iter().map(Place::new).collect();
        let status = watch::Sender::new(status(&places));
        Tending {
            rules,
            places,
            tasks: JoinSet::new(),
            place_of: HashMap::new(),
            recent: VecDeque::new(),
            backoff: Backoff::exponential(PAUSE.0).cap(PAUSE.1),
            told: Arc::new(Notify::new()),
            deadlines: Deadlines::start(),
            stop,
            kills,
            status,
        }
    }

    pub(super) fn status(&self) -> watch::Receiver<TreeStatus> {
        self.status.subscribe()
    }

    pub(super) async fn run(mut self) -> TreeReport {
        let gave_up = self.tend().await;
        if let Some(gave_up) = &gave_up {
            tracing::error!(owner = &*gave_up.owner, failure = %gave_up.failure, "the tree gives up");
        }
        let begun = Instant::now();
        for n in (0..self.places.len()).rev() {
            self.wind_down(n).await;
        }
        self.tell();
        let owners = self.places.iter().map(Place::report).collect();
        TreeReport { owners, took: begun.elapsed(), gave_up }
    }

    /// Until the tree shall stop (then without an error), has nobody left, or gives up.
    async fn tend(&mut self) -> Option<GaveUp> {
        loop {
            self.start_next();
            self.tell();
            if self.places.iter().all(|place| matches!(place.state, State::Ended)) {
                return None;
            }
            let due = self.places.iter().filter_map(Place::due).min();
            let gave_up = tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                Some(ended) = self.tasks.join_next_with_id() => {
                    let (id, ended) = by_id(ended);
                    self.ended(id, ended)
                }
                () = self.told.notified() => {
                    self.places.iter_mut().for_each(Place::look);
                    None
                }
                Some(kill) = self.kills.recv() => {
                    self.kill(kill);
                    None
                }
                () = until(&self.deadlines, due) => self.on_time(),
            };
            if gave_up.is_some() {
                return gave_up;
            }
        }
    }

    /// Starts the next owner, when all before it have been ready or are done.
    fn start_next(&mut self) {
        let waits = |place: &Place| matches!(place.state, State::Waiting);
        let Some(next) = self.places.iter().position(waits) else { return };
        let passed = |place: &Place| place.was_ready || matches!(place.state, State::Ended);
        if self.places[..next].iter().all(passed) {
            self.start(next);
        }
    }

    fn start(&mut self, n: usize) {
        let id = self.places[n].start(&mut self.tasks, &self.told);
        self.place_of.insert(id, n);
    }

    /// An owner's task has ended: the owner is restarted in a moment, or done, or one too many.
    fn ended(&mut self, id: Id, ended: Ended) -> Option<GaveUp> {
        let n = self.place_of.remove(&id)?;
        let place = &mut self.places[n];
        place.look();
        let failure = place.failure(ended);
        let is_done = matches!(failure, OwnerFailure::Ended);
        let goes_on = match place.owner.restart {
            Restart::Permanent => true,
            Restart::Transient => !is_done,
            Restart::Temporary => false,
        };
        place.state = State::Ended;
        if is_done && !goes_on {
            place.end = Some(OwnerEnd::Finished);
            return None;
        }
        place.last_failure = Some(failure.clone());
        place.end = Some(OwnerEnd::Failed(failure.clone()));
        if goes_on { self.restart(n, failure) } else { None }
    }

    /// Lets an owner that has failed pause before its next start, unless that is one too many.
    fn restart(&mut self, n: usize, failure: OwnerFailure) -> Option<GaveUp> {
        let now = Instant::now();
        self.recent.retain(|(at, _)| now.duration_since(*at) <= self.rules.window);
        if self.recent.len() >= self.rules.restarts {
            return Some(self.gave_up(n, failure));
        }
        self.recent.push_back((now, n));
        let attempt = self.recent.iter().filter(|(_, whose)| *whose == n).count();
        let pause = self.backoff.delay(attempt as u64);
        let place = &mut self.places[n];
        place.end = None;
        place.restarts += 1;
        place.state = State::Pausing { until: now + pause };
        tracing::warn!(owner = &*place.owner.name, %failure, ?pause, "restarting");
        None
    }

    fn gave_up(&self, n: usize, failure: OwnerFailure) -> GaveUp {
        let Rules { restarts, window } = self.rules;
        GaveUp { owner: Arc::clone(&self.places[n].owner.name), failure, restarts, window }
    }

    fn kill(&mut self, Kill { name, answer }: Kill) {
        let place = self.places.iter_mut().find(|place| *place.owner.name == *name);
        let killed = match place.map(|place| place.abort(false)) {
            Some(true) => Killed::Aborted,
            Some(false) => Killed::NotRunning,
            None => Killed::Unknown,
        };
        // Whoever asked may be gone.
        let _ = answer.send(killed);
    }

    /// Starts who has paused enough, aborts who is late, gives up on who can't be aborted.
    fn on_time(&mut self) -> Option<GaveUp> {
        let now = Instant::now();
        for n in 0..self.places.len() {
            let place = &mut self.places[n];
            if place.due().is_none_or(|due| due > now) {
                continue;
            }
            place.look();
            match &place.state {
                State::Pausing { .. } => self.start(n),
                State::Up(up) => match up.step {
                    Step::Starting { .. } => drop(place.abort(true)),
                    Step::Aborting { .. } => {
                        place.last_failure = Some(OwnerFailure::Stuck);
                        return Some(self.gave_up(n, OwnerFailure::Stuck));
                    }
                    Step::Running | Step::Stopping => {}
                },
                State::Waiting | State::Ended => {}
            }
        }
        None
    }

    /// Ends one owner within its grace. It is aborted a moment before the end of it.
    async fn wind_down(&mut self, n: usize) {
        let place = &mut self.places[n];
        let State::Up(up) = &mut place.state else {
            place.state = State::Ended;
            return;
        };
        up.step = Step::Stopping;
        up.stopping.cancel();
        let task = up.task.clone();
        let grace = place.owner.grace;
        let ends_at = Instant::now() + grace;
        self.tell();
        if !self.ends_by(n, ends_at - (grace / 4).min(ABORT_MAX)).await {
            task.abort();
            if self.ends_by(n, ends_at).await {
                self.places[n].end = Some(OwnerEnd::Aborted);
            } else {
                self.places[n].end = Some(OwnerEnd::Left);
            }
        }
        let place = &mut self.places[n];
        place.state = State::Ended;
        tracing::info!(owner = &*place.owner.name, end = ?place.end, "stopped");
    }

    /// Waits for the end of one owner's task, and notes those of the others.
    async fn ends_by(&mut self, n: usize, at: Instant) -> bool {
        loop {
            let ended = tokio::select! {
                biased;
                ended = self.tasks.join_next_with_id() => ended,
                () = self.deadlines.until(at) => None,
            };
            let Some(ended) = ended else { return false };
            let (id, ended) = by_id(ended);
            let Some(which) = self.place_of.remove(&id) else { continue };
            let place = &mut self.places[which];
            place.look();
            place.end = Some(match place.failure(ended) {
                OwnerFailure::Ended if which == n => OwnerEnd::Stopped,
                failure => {
                    place.last_failure = Some(failure.clone());
                    OwnerEnd::Failed(failure)
                }
            });
            if which == n {
                return true;
            }
            place.state = State::Ended;
        }
    }

    /// Says how things are, to those who watch.
    fn tell(&self) {
        self.status.send_replace(status(&self.places));
    }
}

fn status(places: &[Place]) -> TreeStatus {
    let ready = places.iter().all(|place| place.was_ready || place.end.is_some());
    TreeStatus { owners: places.iter().map(Place::status).collect(), ready }
}

fn by_id(ended: Result<(Id, Result<(), OwnerError>), tokio::task::JoinError>) -> (Id, Ended) {
    match ended {
        Ok((id, ended)) => (id, Ok(ended)),
        Err(error) => (error.id(), Err(error)),
    }
}

async fn until(deadlines: &Deadlines, due: Option<Instant>) {
    match due {
        Some(due) => deadlines.until(due).await,
        None => std::future::pending().await,
    }
}
