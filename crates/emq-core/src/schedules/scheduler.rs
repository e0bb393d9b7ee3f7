//! The scheduler: sleeps until the next tick, decides it, and looks for changes on its beat.

use std::pin::pin;
use std::time::Duration;

use emq_wire::{Cmd, ConnectionState};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::clock::ServerClock;
use super::known::Known;
use super::status::{SchedulerPhase, SchedulerStatus, SchedulerTotals};
use crate::bus::Bus;
use crate::error::Error;
use crate::queue::misread;

/// How often it looks for changed definitions, unless said.
const BEAT_DEFAULT: Duration = Duration::from_secs(5);
/// The least time between two looks: definitions that change all the time are no reason to spin.
const LOOKS_APART: Duration = Duration::from_millis(5);
/// The least sleep: a clock that is read in milliseconds is up to one behind.
const SLEEP_LEAST: Duration = Duration::from_millis(1);
/// The first and the longest pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Admits the ticks of the schedules of some queues: [`Schedules::scheduler`].
///
/// Any number of schedulers may run for a queue, on any number of machines: each tick is decided
/// once, by whichever comes first, when the server's clock says that it is due. They need no
/// leader, and one more only makes it likelier that somebody is there. The clock of the machine has
/// no part in it.
///
/// Between ticks it sleeps; on each beat it asks once whether a definition has changed. It goes on
/// over any number of restarts of the server. Dropped, or killed, it leaves nothing behind.
///
/// [`Schedules::scheduler`]: super::Schedules::scheduler
#[must_use = "a scheduler does nothing until it runs"]
pub struct Scheduler {
    bus: Bus,
    known: Vec<Known>,
    beat: Duration,
    status: watch::Sender<SchedulerStatus>,
    totals: SchedulerTotals,
    clock: Option<ServerClock>,
    look_at: Instant,
    /// How often in a row a call failed.
    failures: u32,
}

impl Scheduler {
    pub(super) fn new(bus: Bus, known: Vec<Known>) -> Scheduler {
        Scheduler {
            bus,
            known,
            beat: BEAT_DEFAULT,
            status: watch::Sender::default(),
            totals: SchedulerTotals::default(),
            clock: None,
            look_at: Instant::now(),
            failures: 0,
        }
    }

    /// How often it looks for changed definitions: every 5 s unless said, at least 10 ms. A new
    /// schedule ticks, and one that was paused or removed stops, within a beat.
    pub fn beat(mut self, beat: Duration) -> Self {
        self.beat = beat.max(Duration::from_millis(10));
        self
    }

    /// Watches what it does.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<SchedulerStatus> {
        self.status.subscribe()
    }

    /// Runs until `shutdown` is over, and tells what it did. It stops at any moment without harm.
    ///
    /// # Errors
    /// Why it can't go on: the bus was closed, the fence refused the server for good, or the server
    /// doesn't let this user do what it has to. A server that is out of reach or full is waited for.
    pub async fn run(
        mut self,
        shutdown: impl Future<Output = ()>,
    ) -> Result<SchedulerTotals, Error> {
        let mut shutdown = pin!(shutdown);
        let outcome = loop {
            let round = async {
                match self.round().await {
                    Err(error) if error.is_retryable() => {
                        self.recover(&error).await;
                        Ok(())
                    }
                    round => round,
                }
            };
            tokio::select! {
                biased;
                () = &mut shutdown => break Ok(self.totals),
                round = round => if let Err(error) = round { break Err(error) },
            }
        };
        self.tell(SchedulerPhase::Stopped);
        outcome
    }

    /// Looks, when that is due; decides what is due; and when nothing is, sleeps.
    async fn round(&mut self) -> Result<(), Error> {
        let clock = match self.clock.filter(|_| Instant::now() < self.look_at) {
            Some(clock) => clock,
            None => self.look().await?,
        };
        let mut ticked = false;
        for known in &mut self.known {
            if let Some(heard) = known.tick(clock, &mut self.totals).await? {
                self.clock = Some(heard);
                ticked = true;
            }
            if known.is_in_doubt() {
                self.look_at = self.look_at.min(Instant::now() + LOOKS_APART);
            }
        }
        self.failures = 0;
        self.tell(SchedulerPhase::Running);
        if !ticked {
            let next_ms = self.known.iter().filter_map(Known::next_ms).min();
            let tick_at = next_ms.map(|next_ms| clock.instant_of(next_ms));
            let wake_at = tick_at.map_or(self.look_at, |at| at.min(self.look_at));
            sleep_until(wake_at.max(Instant::now() + SLEEP_LEAST)).await;
        }
        Ok(())
    }

    /// Reads the server's clock, and what has changed.
    async fn look(&mut self) -> Result<ServerClock, Error> {
        let revision = |known: &Known| Cmd::new("HGET").arg(known.timetable()).arg(":rev");
        let cmds = std::iter::once(Cmd::new("TIME")).chain(self.known.iter().map(revision));
        let replies = self.bus.fenced().connection().pipeline(cmds.collect()).await;
        let replies = replies.map_err(|error| Error::of_wire(None, error))?;
        let (time, revisions) = replies.split_first().expect("a reply for each command");
        let clock = ServerClock::of_time(time).ok_or_else(|| misread("TIME", time))?;
        self.totals.looks += 1;
        for (known, reply) in self.known.iter_mut().zip(revisions) {
            let revision = reply.as_bytes().map_or(&[][..], |bytes| bytes);
            if reply.as_error().is_some_and(|error| !error.is("WRONGTYPE")) {
                return Err(misread("HGET", reply));
            }
            if !known.is_stale(revision) {
                continue;
            }
            match known.read(revision).await {
                Ok(()) => self.totals.reads += 1,
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    // One queue's torn timetable stops no other queue.
                    tracing::warn!(timetable = known.timetable(), %error, "can't be read");
                    known.give_up(revision);
                }
            }
        }
        self.clock = Some(clock);
        self.look_at = Instant::now() + self.beat;
        Ok(clock)
    }

    /// Waits until it makes sense to go on. What was sent last may have been done: what stands next
    /// is read anew.
    async fn recover(&mut self, error: &Error) {
        tracing::warn!(%error, "the scheduler waits for the server");
        self.tell(SchedulerPhase::Reconnecting);
        let pause = PAUSE.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX);
        self.failures += 1;
        self.clock = None;
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        let mut state = self.bus.state();
        let settled = |state: &ConnectionState| {
            state.is_terminal() || matches!(state, ConnectionState::Ready)
        };
        // An error means that the connection is over, which the next call says better.
        let _ = state.wait_for(settled).await;
    }

    fn tell(&self, phase: SchedulerPhase) {
        let schedules = self.known.iter().map(Known::len).sum();
        let next = SchedulerStatus { phase, schedules, totals: self.totals };
        self.status.send_if_modified(|status| std::mem::replace(status, next) != next);
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler")
            .field("beat", &self.beat)
            .field("status", &*self.status.borrow())
            .finish_non_exhaustive()
    }
}
