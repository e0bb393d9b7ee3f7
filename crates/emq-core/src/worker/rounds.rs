//! The worker's loop: claim, park, beat.

use std::sync::Arc;
use std::time::Duration;

use emq_scripts::{Claim, Claimed};
use emq_wire::{ConnectionState, WireError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::attempt::{Taken, attempt, hand_back};
use super::inside::Inside;
use super::park::{Parked, Parker};
use super::status::Phase;
use crate::error::Error;

/// How many jobs one call of promote or reap moves at most.
const STEP: u32 = 200;
/// The most claims in one submission.
const CLAIMS_MAX: usize = 64;
/// A busy worker looks at the schedule this often.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The first and the longest pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a stopping worker tries to pass the wake on.
const NUDGE_WITHIN: Duration = Duration::from_secs(1);
/// Nothing that is due is looked for sooner than this.
const DUE_LEAST: Duration = Duration::from_millis(1);

pub(super) struct Rounds {
    inside: Arc<Inside>,
    parker: Parker,
    attempts: JoinSet<()>,
    /// There may be work to claim.
    hungry: bool,
    /// A park is under way.
    parked: bool,
    /// How many claims the next submission makes: one after a miss, twice as many after hits.
    claims: usize,
    beat_at: Instant,
    /// When a job falls due or loses its lease, as far as is known.
    due_at: Option<Instant>,
    looked_at: Option<Instant>,
    /// How often in a row something was due and nothing was found to move.
    idle_dues: u32,
    /// How often in a row a call failed.
    failures: u32,
}

impl Rounds {
    pub(super) fn new(inside: Arc<Inside>, parker: Parker) -> Rounds {
        Rounds {
            inside,
            parker,
            attempts: JoinSet::new(),
            hungry: true,
            parked: false,
            claims: 1,
            beat_at: Instant::now(),
            due_at: None,
            looked_at: None,
            idle_dues: 0,
            failures: 0,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.inside.stopping.is_cancelled() {
            match self.round().await {
                Ok(()) => {}
                Err(error) => match self.final_reason(&error) {
                    Some(reason) => return self.fail(reason).await,
                    None => self.recover(&error).await,
                },
            }
        }
        self.drain().await;
    }

    /// One round: claim if there may be work, else park and wait for something to happen.
    async fn round(&mut self) -> Result<(), Error> {
        while self.attempts.try_join_next().is_some() {}
        let now = Instant::now();
        if self.beat_at <= now {
            self.beat().await?;
        } else if self.due_at.is_some_and(|due_at| due_at <= now) {
            self.fall_due().await?;
        }
        let free = self.inside.slots.free();
        if self.hungry && free > 0 {
            self.claim(free).await?;
            // A worker that found nothing looks when it parks.
            let busy = self.hungry && self.looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
            return if busy { self.look().await } else { Ok(()) };
        }
        if free > 0 && !self.parked {
            self.park();
            self.look().await?;
        }
        let idle = self.parked && self.inside.slots.held() == 0;
        self.inside.enter(if idle { Phase::Parked } else { Phase::Running });
        let alarm_at = self.due_at.map_or(self.beat_at, |due_at| due_at.min(self.beat_at));
        let inside = Arc::clone(&self.inside);
        tokio::select! {
            biased;
            () = inside.stopping.cancelled() => Ok(()),
            parked = self.parker.ended(), if self.parked => self.unparked(parked).await,
            () = inside.slots.freed() => Ok(()),
            // The next round starts with what is due.
            () = sleep_until(alarm_at) => Ok(()),
        }
    }

    /// Claims what the free slots can take: one job at first, and more while there are hits.
    async fn claim(&mut self, free: usize) -> Result<(), Error> {
        let inside = Arc::clone(&self.inside);
        if !matches!(*inside.queue.bus().state().borrow(), ConnectionState::Ready) {
            // The call would wait for the connection, and then claim, perhaps after a stop.
            return Err(Error::of_wire(None, WireError::NotReady));
        }
        let count = self.claims.min(free).min(CLAIMS_MAX);
        let tickets: Vec<Arc<str>> = (0..count).map(|_| inside.tickets.next()).collect();
        let lease = inside.settings.lease;
        let calls: Vec<Claim<'_>> =
            tickets.iter().map(|ticket| Claim { lease, ticket: Some(ticket) }).collect();
        let sent = Instant::now();
        // Not dropped when the worker stops: what the reply brings is handed back.
        let answers = tokio::select! {
            biased;
            answers = inside.queue.call_all(&calls) => answers.map_err(Error::of_queue)?,
            () = inside.ended.cancelled() => return Ok(()),
        };
        let mut missed = false;
        let mut trouble = None;
        for (answer, ticket) in answers.into_iter().zip(&tickets) {
            match answer {
                Ok(Some(claimed)) => self.begin(claimed, Arc::clone(ticket), sent),
                Ok(None) => missed = true,
                Err(error) => trouble = Some(Error::of_queue(error)),
            }
        }
        if let Some(error) = trouble {
            return Err(error);
        }
        self.failures = 0;
        self.hungry = !missed;
        self.claims = if missed { 1 } else { (self.claims * 2).min(CLAIMS_MAX) };
        Ok(())
    }

    fn begin(&mut self, claimed: Claimed, ticket: Arc<str>, sent: Instant) {
        let taken = Taken { claimed, ticket, sent };
        let inside = &self.inside;
        // Only this loop takes places, and it claimed no more than were free.
        let Some((slot, berth)) = inside.slots.take() else { return };
        inside.tally.claimed.one();
        if inside.stopping.is_cancelled() {
            drop(slot);
            self.attempts.spawn(hand_back(Arc::clone(inside), taken, berth));
        } else {
            self.attempts.spawn(attempt(Arc::clone(inside), taken, slot, berth));
        }
        inside.count_in_flight();
    }

    fn park(&mut self) {
        let heartbeat = self.inside.queue.bus().fenced().connection().config().heartbeat_interval();
        self.parker.park(self.inside.settings.beat.min(heartbeat));
        self.parked = true;
        self.inside.tally.parks.one();
    }

    async fn unparked(&mut self, parked: Parked) -> Result<(), Error> {
        self.parked = false;
        match parked {
            Parked::Quiet => Ok(()),
            Parked::Woken => {
                self.inside.tally.wakes.one();
                self.hungry = true;
                if self.inside.slots.free() > 0 {
                    return Ok(());
                }
                // The token was for somebody with a free hand.
                self.unless_stopping(self.inside.queue.nudge()).await.map(drop)
            }
            Parked::Lost(error) => Err(Error::of_wire(None, error)),
        }
    }

    /// Looks after the queue unasked, and claims, should a wake have been lost.
    async fn beat(&mut self) -> Result<(), Error> {
        let moved = self.keep_time().await?;
        self.failures = 0;
        self.hungry = true;
        // A full step means that there is more to move.
        let pause = if moved < u64::from(STEP) { self.inside.settings.beat } else { DUE_LEAST };
        self.beat_at = Instant::now() + pause;
        self.look().await
    }

    /// Moves what fell due or lost its lease.
    async fn fall_due(&mut self) -> Result<(), Error> {
        if self.keep_time().await? > 0 {
            self.idle_dues = 0;
            self.hungry = true;
        } else {
            // The clocks may differ by a little, or somebody else was faster.
            self.idle_dues += 1;
        }
        self.look().await
    }

    /// Promotes and reaps once; answers how many jobs the larger of the two steps moved.
    async fn keep_time(&mut self) -> Result<u64, Error> {
        let inside = Arc::clone(&self.inside);
        let (queue, lost_cap) = (&inside.queue, inside.settings.lost_cap);
        let both = async {
            let (promoted, reaped) = tokio::join!(queue.promote(STEP), queue.reap(STEP, lost_cap));
            Ok((promoted?, reaped?))
        };
        let Some((promoted, reaped)) = self.unless_stopping(both).await? else { return Ok(0) };
        let tally = &inside.tally;
        tally.promoted.add(promoted);
        tally.returned.add(reaped.returned);
        tally.buried.add(reaped.buried);
        Ok(promoted.max(reaped.returned + reaped.buried))
    }

    /// Asks when the next job falls due or loses its lease, and sets the alarm for it.
    async fn look(&mut self) -> Result<(), Error> {
        let inside = Arc::clone(&self.inside);
        let Some(horizon) = self.unless_stopping(inside.queue.horizon()).await? else {
            return Ok(());
        };
        let now = Instant::now();
        self.looked_at = Some(now);
        let least = DUE_LEAST.saturating_mul(1 << self.idle_dues.min(10));
        self.due_at = horizon.next().and_then(|due_in| now.checked_add(due_in.max(least)));
        Ok(())
    }

    /// Runs a call whose reply nobody needs once the worker stops; `None` when it does.
    async fn unless_stopping<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        tokio::select! {
            answer = call => answer.map(Some),
            () = self.inside.stopping.cancelled() => Ok(None),
        }
    }
}

/// Trouble and the end.
impl Rounds {
    /// Waits until it makes sense to call again. Handlers go on meanwhile.
    async fn recover(&mut self, error: &Error) {
        let inside = Arc::clone(&self.inside);
        tracing::warn!(queue = %inside.queue.name(), %error, "the worker waits for the server");
        inside.enter(Phase::Reconnecting);
        let pause = PAUSE.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX);
        self.failures += 1;
        tokio::select! {
            () = inside.pause_until_ready(pause) => inside.tally.reconnects.one(),
            () = inside.stopping.cancelled() => return,
        }
        // What was on its way may be lost: a wake, or a look.
        self.hungry = true;
        self.claims = 1;
        self.beat_at = Instant::now();
        inside.enter(Phase::Running);
    }

    /// The fence refused the server or the bus was closed: nothing can follow.
    async fn fail(self, error: Error) {
        let inside = Arc::clone(&self.inside);
        tracing::error!(queue = %inside.queue.name(), %error, "the worker can't go on");
        // The first reason stays.
        let _ = inside.failure.set(error);
        self.drain().await;
        inside.enter(Phase::Failed);
    }

    /// Waits for the attempts, ends the park and passes the wake on.
    async fn drain(mut self) {
        let inside = Arc::clone(&self.inside);
        inside.enter(if inside.failure.get().is_some() { Phase::Failed } else { Phase::Draining });
        let pass_on = async {
            if self.parked {
                self.parker.unblock().await;
            }
            if inside.failure.get().is_none() {
                // A token that can't be passed on costs a beat at most.
                let _ = tokio::time::timeout(NUDGE_WITHIN, inside.queue.nudge()).await;
            }
        };
        let finish = async { while self.attempts.join_next().await.is_some() {} };
        tokio::select! {
            _ = async { tokio::join!(pass_on, finish) } => {}
            () = inside.ended.cancelled() => {}
        }
    }

    /// Why no later call can succeed, when that is so.
    fn final_reason(&self, error: &Error) -> Option<Error> {
        match &*self.inside.queue.bus().state().borrow() {
            ConnectionState::Closed => return Some(Error::Closed),
            ConnectionState::Refused(error) => return Some(Error::of_wire(None, error.clone())),
            _ => {}
        }
        match error {
            Error::Refused(reason) if reason.is_retryable() => None,
            Error::Refused(_) | Error::Closed => Some(error.clone()),
            _ => None,
        }
    }
}
