//! The jobs that a worker holds, from their claim until the server has decided them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use emq_scripts::ExtendVerdict;
use tokio::time::Instant;

use super::attempt::{Ended, Handling};
use super::builder::Settings;
use super::job::{CancelReason, Context};
use super::note::Key;
use super::term::Term;
use crate::lease::Hold;

/// How long a dropped handler is waited for: one that blocks its thread isn't waited for longer.
const DROP_WITHIN: Duration = Duration::from_millis(50);

/// Where a job is between its claim and its decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its handler runs.
    Running,
    /// Its handler was dropped, and is waited for until then.
    Dropping(Instant),
    /// No handler here knows its kind; it is held aside until then.
    Aside(Instant),
    /// Its verdict is on its way.
    Judged,
    /// It is decided; only its handler, which blocks a thread, is still there.
    Decided,
}

/// A job that is held.
struct Held {
    context: Arc<Context>,
    handling: Option<Handling>,
    stage: Stage,
    term: Term,
    /// Its extension is asked for, or on its way.
    extending: bool,
}

impl Held {
    /// Whether its lease is to be extended by then.
    fn extends(&self, by: Instant) -> bool {
        let lives = matches!(self.stage, Stage::Running | Stage::Aside(_));
        lives && !self.extending && self.term.extends(by, self.context.cancel.reason())
    }

    /// When it has to be looked at next.
    fn next(&self) -> Option<Instant> {
        match self.stage {
            Stage::Running => self.term.next(self.context.cancel.reason(), self.extending),
            Stage::Dropping(until) => Some(until),
            Stage::Aside(until) => {
                let term = self.term.next(self.context.cancel.reason(), self.extending);
                Some(term.map_or(until, |at| at.min(until)))
            }
            Stage::Judged | Stage::Decided => None,
        }
    }
}

/// A job whose time here is over, and how.
pub(super) struct Over {
    pub(super) key: Key,
    pub(super) context: Arc<Context>,
    pub(super) ended: Ended,
    /// When its handler was started; `None` without one.
    pub(super) begun: Option<Instant>,
}

/// An extension that is asked for.
#[derive(Debug)]
pub(super) struct Extending {
    key: Key,
    pub(super) hold: Hold,
}

/// The jobs that are held. Places are used again, so that memory is bounded by the most that were
/// held at once.
pub(super) struct Table {
    places: Vec<Option<Held>>,
    vacant: Vec<Key>,
    handlers: usize,
    undecided: usize,
    /// No job has to be looked at before.
    alarm_at: Option<Instant>,
    /// The jobs whose lease the next turn extends.
    asks: VecDeque<Key>,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            places: Vec::new(),
            vacant: Vec::new(),
            handlers: 0,
            undecided: 0,
            alarm_at: None,
            asks: VecDeque::new(),
        }
    }

    /// How many handlers there are.
    pub(super) fn handlers(&self) -> usize {
        self.handlers
    }

    /// How many jobs are held that the server has not decided.
    pub(super) fn undecided(&self) -> usize {
        self.undecided
    }

    /// When the next job has to be looked at, or earlier.
    pub(super) fn alarm_at(&self) -> Option<Instant> {
        self.alarm_at
    }

    /// The place that the next job gets.
    pub(super) fn next_key(&mut self) -> Key {
        match self.vacant.last() {
            Some(key) => *key,
            None => {
                self.places.push(None);
                self.vacant.push(self.places.len() - 1);
                self.places.len() - 1
            }
        }
    }

    /// A job whose handler was started.
    pub(super) fn run(&mut self, context: Arc<Context>, handling: Handling, term: Term) {
        self.handlers += 1;
        self.put(Held {
            context,
            handling: Some(handling),
            stage: Stage::Running,
            term,
            extending: false,
        });
    }

    /// A job that is held aside for a while, without a handler.
    pub(super) fn set_aside(&mut self, context: Arc<Context>, until: Instant, term: Term) {
        let stage = Stage::Aside(until);
        self.put(Held { context, handling: None, stage, term, extending: false });
    }

    /// A job that is handed back as it came.
    pub(super) fn judged(&mut self, context: Arc<Context>, term: Term) {
        self.put(Held { context, handling: None, stage: Stage::Judged, term, extending: false });
    }

    fn put(&mut self, held: Held) {
        let key = self.next_key();
        self.vacant.pop();
        self.wake_by(held.next());
        self.undecided += 1;
        self.places[key] = Some(held);
    }

    /// A handler is gone. Answers with its job unless that was judged before.
    pub(super) fn ended(&mut self, key: Key, ended: Ended) -> Option<Over> {
        let held = self.places.get_mut(key)?.as_mut()?;
        if held.handling.take().is_some() {
            self.handlers -= 1;
        }
        match held.stage {
            Stage::Running | Stage::Dropping(_) => {
                held.stage = Stage::Judged;
                let begun = Some(held.term.begun());
                Some(Over { key, context: Arc::clone(&held.context), ended, begun })
            }
            Stage::Decided => {
                self.vacate(key);
                None
            }
            Stage::Aside(_) | Stage::Judged => None,
        }
    }

    /// A job was cancelled from its handler's side.
    pub(super) fn cancelled(&mut self, key: Key, settings: &Settings, now: Instant) {
        let Some(held) = self.places.get_mut(key).and_then(Option::as_mut) else { return };
        if let (Some(reason), Stage::Running) = (held.context.cancel.reason(), held.stage) {
            held.term.cancelled(reason, settings.cancel_grace, now);
            let next = held.next();
            self.wake_by(next);
        }
    }

    /// The server has decided a job, or it is given up.
    pub(super) fn decided(&mut self, key: Key) {
        let Some(held) = self.places.get_mut(key).and_then(Option::as_mut) else { return };
        self.undecided -= 1;
        held.stage = Stage::Decided;
        if held.handling.is_none() {
            self.vacate(key);
        }
    }

    fn vacate(&mut self, key: Key) {
        self.places[key] = None;
        self.vacant.push(key);
    }

    fn wake_by(&mut self, at: Option<Instant>) {
        self.alarm_at = match (self.alarm_at, at) {
            (Some(alarm_at), Some(at)) => Some(alarm_at.min(at)),
            (alarm_at, at) => alarm_at.or(at),
        };
    }

    /// Cancels handlers, drops them and gives up on them as their times have come. Answers with
    /// the jobs whose time here is over.
    pub(super) fn mind(&mut self, settings: &Settings, now: Instant) -> Vec<Over> {
        let mut over = Vec::new();
        if self.alarm_at.is_none_or(|at| at > now) {
            return over;
        }
        self.alarm_at = None;
        self.ask_to_extend(settings, now);
        for key in 0..self.places.len() {
            let Some(held) = &mut self.places[key] else { continue };
            let context = &held.context;
            if held.stage == Stage::Running {
                if let (None, Some(reason)) = (context.cancel.reason(), held.term.over(now)) {
                    context.cancel.fire(reason);
                    held.term.cancelled(reason, settings.cancel_grace, now);
                }
                if held.term.drops(now) {
                    held.handling.as_ref().inspect(|handling| handling.abort());
                    held.stage = Stage::Dropping(now + DROP_WITHIN);
                }
            }
            let done = match held.stage {
                Stage::Dropping(until) => until <= now,
                Stage::Aside(until) => until <= now || held.term.over(now).is_some(),
                Stage::Running | Stage::Judged | Stage::Decided => false,
            };
            if done {
                held.stage = Stage::Judged;
                let begun = held.handling.is_some().then(|| held.term.begun());
                let context = Arc::clone(context);
                over.push(Over { key, context, ended: Ended::Dropped, begun });
            }
            let next = held.next();
            self.wake_by(next);
        }
        over
    }

    /// Asks for the extension of the leases that are due, and of those that will be soon.
    fn ask_to_extend(&mut self, settings: &Settings, now: Instant) {
        if !self.places.iter().flatten().any(|held| held.extends(now)) {
            return;
        }
        let by = now + Term::slack(settings.lease);
        for (key, held) in self.places.iter_mut().enumerate() {
            if let Some(held) = held.as_mut().filter(|held| held.extends(by)) {
                held.extending = true;
                self.asks.push_back(key);
            }
        }
    }

    /// Whether leases wait for a turn to extend them.
    pub(super) fn asks(&self) -> bool {
        !self.asks.is_empty()
    }

    /// The leases that a turn extends, at most so many.
    pub(super) fn take_extensions(&mut self, most: usize) -> Vec<Extending> {
        let mut list = Vec::new();
        while list.len() < most {
            let Some(key) = self.asks.pop_front() else { break };
            let held = self.places.get(key).and_then(Option::as_ref);
            let lives = |held: &&Held| matches!(held.stage, Stage::Running | Stage::Aside(_));
            if let Some(held) = held.filter(lives).filter(|held| held.extending) {
                list.push(Extending { key, hold: held.context.hold.clone() });
            }
        }
        list
    }

    /// What the server said to an extension that was sent at a moment; `None` for nothing.
    pub(super) fn extended(
        &mut self,
        one: &Extending,
        answer: Option<ExtendVerdict>,
        settings: &Settings,
        (sent, now): (Instant, Instant),
    ) {
        let Some(held) = self.places.get_mut(one.key).and_then(Option::as_mut) else { return };
        if held.context.hold != one.hold {
            return;
        }
        held.extending = false;
        let cancel = match answer {
            Some(ExtendVerdict::Held) => None,
            Some(ExtendVerdict::CancelAsked) => Some(CancelReason::Asked),
            Some(ExtendVerdict::Stale) => Some(CancelReason::Stale),
            None => {
                held.term.again(now);
                None
            }
        };
        if matches!(answer, Some(ExtendVerdict::Held | ExtendVerdict::CancelAsked)) {
            held.term.extended(sent);
        }
        if let Some(reason) = cancel.filter(|_| held.stage == Stage::Running) {
            held.context.cancel.fire(reason);
            held.term.cancelled(reason, settings.cancel_grace, now);
        }
        if let Some(reason) = cancel.filter(|_| matches!(held.stage, Stage::Aside(_))) {
            held.context.cancel.fire(reason);
            held.stage = Stage::Aside(now);
        }
        let next = held.next();
        self.wake_by(next);
    }

    /// Ends what is held aside now.
    pub(super) fn end_aside(&mut self, now: Instant) {
        for held in self.places.iter_mut().flatten() {
            if matches!(held.stage, Stage::Aside(_)) {
                held.stage = Stage::Aside(now);
                self.alarm_at = Some(now);
            }
        }
    }

    /// Tells all handlers that their time is over.
    pub(super) fn hand_back(&mut self, settings: &Settings, now: Instant) {
        for held in self.places.iter_mut().flatten() {
            if held.stage == Stage::Running && held.context.cancel.reason().is_none() {
                held.context.cancel.fire(CancelReason::Stopping);
                held.term.cancelled(CancelReason::Stopping, settings.cancel_grace, now);
                self.alarm_at = Some(now);
            }
        }
    }

    /// The jobs that the server has not decided, to count them as given up.
    pub(super) fn give_up(&mut self) -> Vec<Arc<Context>> {
        self.undecided = 0;
        let undecided = |held: &Held| held.stage != Stage::Decided;
        let held = self.places.drain(..).flatten().filter(undecided);
        let given_up = held.map(|held| held.context).collect();
        self.vacant.clear();
        self.asks.clear();
        given_up
    }
}
