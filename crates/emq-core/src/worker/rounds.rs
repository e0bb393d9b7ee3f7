//! The worker's loop: one turn a round, and a park when there is nothing to do.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use emq_wire::ConnectionState;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep_until};

use super::attempt::judge;
use super::held::{Over, Table};
use super::inside::Inside;
use super::meters::Meters;
use super::note::{Note, Notes};
use super::park::{Parked, Parker};
use super::settle::{Untold, Verdict};
use super::status::Phase;
use super::turns::{TURNS_MAX, Turns};
use crate::error::Error;

/// The first and the longest pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// From so many new handlers on, the loop makes way for them. To do so wakes another thread of the
/// runtime, which costs more than few handlers gain.
const MANY: usize = 8;
/// How long a stopping worker tries to pass the wake on.
const NUDGE_WITHIN: Duration = Duration::from_secs(1);

pub(super) type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Rounds {
    pub(super) inside: Arc<Inside>,
    pub(super) table: Table,
    pub(super) turns: Turns,
    /// Verdicts that no turn carries yet.
    pub(super) untold: VecDeque<Untold>,
    pub(super) teller: Notes,
    notes: mpsc::UnboundedReceiver<Note>,
    parker: Option<Parker>,
    /// A park is under way.
    parked: bool,
    /// The number of the last turn.
    pub(super) last_turn: u64,
    /// There may be work to claim: a turn with a number above this one found none, if there is
    /// none.
    pub(super) hungry_since: Option<u64>,
    /// The last claims were all served, so there may be many more jobs.
    pub(super) plenty: bool,
    /// A turn is due though there may be nothing to claim: a wake has to be passed on.
    pub(super) passes_on: bool,
    pub(super) beat_at: Instant,
    /// When a job falls due or loses its lease, as far as is known.
    pub(super) due_at: Option<Instant>,
    /// How often in a row something was due and nothing was found to move.
    pub(super) idle_dues: u32,
    /// How often in a row a call failed.
    pub(super) failures: u32,
    /// The pause before the next call, after one that failed.
    pub(super) recovering: Option<Waiting>,
    /// The worker stops: the wake is passed on, unless that is done.
    leaving: Option<Waiting>,
    pub(super) draining: bool,
    handed_back: bool,
    alarm: Pin<Box<Sleep>>,
    pub(super) meters: Meters,
}

impl Rounds {
    pub(super) fn new(inside: Arc<Inside>, parker: Parker) -> Rounds {
        let now = Instant::now();
        let (teller, notes) = mpsc::unbounded_channel();
        let meters = Meters::new(inside.queue.name());
        Rounds {
            inside,
            table: Table::new(),
            turns: Turns::default(),
            untold: VecDeque::new(),
            teller,
            notes,
            parker: Some(parker),
            parked: false,
            last_turn: 0,
            hungry_since: Some(0),
            plenty: false,
            passes_on: false,
            beat_at: now,
            due_at: None,
            idle_dues: 0,
            failures: 0,
            recovering: None,
            leaving: None,
            draining: false,
            handed_back: false,
            alarm: Box::pin(sleep_until(now)),
            meters,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.hear();
            self.mind();
            self.depart().await;
            if self.is_over() {
                break;
            }
            self.rest();
            if self.wait().await.is_none() {
                break;
            }
        }
        self.finish();
    }

    /// Whether a stopping worker has nothing left to do.
    fn is_over(&self) -> bool {
        let settled = self.table.undecided() == 0 && self.turns.is_empty();
        self.draining && settled && self.leaving.is_none()
    }

    /// Takes what handlers said, without waiting.
    fn hear(&mut self) {
        while let Ok(note) = self.notes.try_recv() {
            self.heed(note);
        }
    }

    fn heed(&mut self, note: Note) {
        match note {
            Note::Ended(key, ended) => {
                if let Some(over) = self.table.ended(key, ended) {
                    self.judge(over);
                }
            }
            Note::Cancelled(key) => {
                self.table.cancelled(key, &self.inside.settings, Instant::now());
            }
        }
    }

    fn mind(&mut self) {
        for over in self.table.mind(&self.inside.settings, Instant::now()) {
            self.judge(over);
        }
    }

    fn judge(&mut self, over: Over) {
        let Over { key, context, ended, begun } = over;
        if let Some(begun) = begun {
            self.meters.ran(begun.elapsed());
        }
        let verdict = match judge(&self.inside, &context, ended) {
            Verdict::Release if begun.is_none() => Verdict::Unknown,
            verdict => verdict,
        };
        tracing::debug!(id = %context.hold.id, token = context.hold.token, ?verdict, "handled");
        self.tell(Untold { key, hold: context.hold.clone(), verdict });
    }

    /// Tells the server of a verdict with the next turn, unless it need not or can't hear of it.
    pub(super) fn tell(&mut self, untold: Untold) {
        let Untold { key, hold, verdict } = &untold;
        if self.inside.failure.get().is_some() {
            self.inside.abandoned(hold, "the worker has failed");
        } else if matches!(verdict, Verdict::Stale) {
            self.inside.decided(hold, verdict, emq_scripts::SettleVerdict::Stale);
        } else {
            return self.untold.push_back(untold);
        }
        self.table.decided(*key);
    }

    /// Parks when there is nothing to claim, and says what the worker does.
    fn rest(&mut self) {
        self.meters.tell(&self.inside.tally, self.table.undecided());
        if self.draining {
            return self.inside.tell_in_flight(self.table.undecided());
        }
        if self.may_park() {
            self.park();
        }
        let phase = match (&self.recovering, self.parked) {
            (Some(_), _) => Phase::Reconnecting,
            (None, true) if self.table.undecided() == 0 && self.turns.is_empty() => Phase::Parked,
            (None, _) => Phase::Running,
        };
        self.inside.enter(phase, self.table.undecided());
    }

    /// Whether there is nothing to claim, and a slot for what may come.
    fn may_park(&self) -> bool {
        let idle = self.recovering.is_none() && self.hungry_since.is_none();
        idle && !self.parked && self.turns.is_empty() && self.free() > 0
    }

    fn park(&mut self) {
        let heartbeat = self.inside.queue.bus().fenced().connection().config().heartbeat_interval();
        if let Some(parker) = &self.parker {
            parker.park(self.inside.settings.beat.min(heartbeat));
            self.parked = true;
            self.inside.tally.parks.one();
        }
    }

    /// Waits for something to happen, and takes it in. `None` when the worker's time is up.
    async fn wait(&mut self) -> Option<()> {
        self.set_alarm();
        let inside = Arc::clone(&self.inside);
        tokio::select! {
            biased;
            () = inside.ended.cancelled() => return None,
            () = inside.stopping.cancelled(), if !self.draining => self.leave(),
            () = inside.handing_back.cancelled(), if !self.handed_back => {
                self.handed_back = true;
                self.table.hand_back(&inside.settings, Instant::now());
            }
            Some(note) = self.notes.recv() => self.heed(note),
            landed = self.turns.landed() => {
                let begun = self.land(landed);
                if begun >= MANY || (begun > 0 && self.may_park()) {
                    // New handlers come first: they may end before another turn is looked at. Few
                    // are soon next anyway.
                    step_back().await;
                }
            }
            parked = ended(&mut self.parker), if self.parked => self.unparked(parked),
            () = over(&mut self.recovering) => self.recovered(),
            () = over(&mut self.leaving) => {}
            () = self.alarm.as_mut() => {}
        }
        Some(())
    }

    /// The alarm goes off when it was set before, or earlier than that when it has to: one that is
    /// too early costs less than setting it each time.
    fn set_alarm(&mut self) {
        let calls = [Some(self.beat_at), self.due_at].into_iter().flatten();
        let may = !self.draining && self.sends() && self.turns.len() < TURNS_MAX;
        let at = calls.filter(|_| may).chain(self.table.alarm_at()).min();
        let at = at.unwrap_or_else(|| Instant::now() + Duration::from_secs(3_600));
        if at < self.alarm.deadline() || self.alarm.is_elapsed() {
            self.alarm.as_mut().reset(at);
        }
    }

    fn unparked(&mut self, parked: Parked) {
        self.parked = false;
        match parked {
            Parked::Quiet => {}
            Parked::Woken => {
                self.inside.tally.wakes.one();
                self.hungry();
                // The token may be for somebody with a free hand.
                self.passes_on = self.free() == 0;
            }
            Parked::Lost(error) => self.trouble(&Error::of_wire(None, error)),
        }
    }

    /// There may be work that no turn has seen so far.
    pub(super) fn hungry(&mut self) {
        self.hungry_since = Some(self.last_turn);
    }
}

/// Trouble and the end.
impl Rounds {
    /// A call failed, for a while or for good.
    pub(super) fn trouble(&mut self, error: &Error) {
        match self.final_reason(error) {
            Some(reason) => self.fail(reason),
            None => self.recover(error),
        }
    }

    /// Sends nothing until it makes sense to call again. Handlers go on meanwhile.
    pub(super) fn recover(&mut self, error: &Error) {
        if self.recovering.is_some() {
            return;
        }
        let inside = Arc::clone(&self.inside);
        tracing::warn!(queue = %inside.queue.name(), %error, "the worker waits for the server");
        let pause = PAUSE.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX);
        self.failures += 1;
        self.recovering = Some(Box::pin(async move { inside.pause_until_ready(pause).await }));
    }

    fn recovered(&mut self) {
        if let Some(reason) = self.closed() {
            return self.fail(reason);
        }
        self.inside.tally.reconnects.one();
        // What was on its way may be lost: a wake, or the time of the next due job.
        self.hungry();
        self.plenty = false;
        self.beat_at = Instant::now();
    }

    /// The fence refused the server or the bus was closed: nothing can follow.
    fn fail(&mut self, error: Error) {
        if self.inside.failure.get().is_none() {
            tracing::error!(queue = %self.inside.queue.name(), %error, "the worker can't go on");
        }
        // The first reason stays.
        let _ = self.inside.failure.set(error);
        for untold in std::mem::take(&mut self.untold) {
            self.tell(untold);
        }
        if !self.draining {
            self.leave();
        }
        self.inside.enter(Phase::Failed, self.table.undecided());
    }

    /// Begins to stop: ends the park and passes the wake on, while handlers end.
    fn leave(&mut self) {
        self.draining = true;
        let inside = Arc::clone(&self.inside);
        if inside.failure.get().is_none() {
            inside.enter(Phase::Draining, self.table.undecided());
        }
        self.table.end_aside(Instant::now());
        let (parker, parked) = (self.parker.take(), self.parked);
        self.parked = false;
        self.leaving = Some(Box::pin(async move {
            if let Some(mut parker) = parker.filter(|_| parked) {
                parker.unblock().await;
            }
            if inside.failure.get().is_none() {
                // A token that can't be passed on costs a beat at most.
                let _ = tokio::time::timeout(NUDGE_WITHIN, inside.queue.nudge()).await;
            }
        }));
    }

    /// Counts what is given up, and drops the handlers that are left.
    fn finish(mut self) {
        for context in self.table.give_up() {
            self.inside.abandoned(&context.hold, "the worker's time is up");
        }
        self.inside.tell_in_flight(0);
        self.meters.tell(&self.inside.tally, 0);
        if self.inside.failure.get().is_some() {
            self.inside.enter(Phase::Failed, 0);
        }
    }

    /// Why no later call can succeed, when that is so.
    fn final_reason(&self, error: &Error) -> Option<Error> {
        match (self.closed(), error) {
            (Some(reason), _) => Some(reason),
            (None, Error::Refused(reason)) if reason.is_retryable() => None,
            (None, Error::Refused(_) | Error::Closed) => Some(error.clone()),
            (None, _) => None,
        }
    }

    /// Why the connection is over, when it is.
    fn closed(&self) -> Option<Error> {
        match &*self.inside.queue.bus().state().borrow() {
            ConnectionState::Closed => Some(Error::Closed),
            ConnectionState::Refused(error) => Some(Error::of_wire(None, error.clone())),
            _ => None,
        }
    }
}

/// Lets the tasks run that are ready now. Unlike a yield it leaves this one where another thread
/// finds it, should a handler block the thread that they share.
pub(super) async fn step_back() {
    let mut stepped = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The end of what is waited for; never, when there is nothing.
async fn over(waiting: &mut Option<Waiting>) {
    match waiting {
        Some(ending) => ending.await,
        None => std::future::pending().await,
    }
    *waiting = None;
}

async fn ended(parker: &mut Option<Parker>) -> Parked {
    match parker {
        Some(parker) => parker.ended().await,
        None => std::future::pending().await,
    }
}
