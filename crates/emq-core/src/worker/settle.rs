//! Settling: an outcome is told to the server until it is decided.

use std::time::Duration;

use emq_scripts::{CallError, Complete, Completed, Release, Retried, Retry, ScriptCall};
use emq_wire::ConnectionState;

use super::inside::Inside;
use crate::lease::Hold;

/// The first and the longest pause before a settlement is sent again.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

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
    /// It isn't ours any more.
    Stale,
}

/// Why an outcome couldn't be told.
enum Untold {
    /// Decided elsewhere.
    Stale,
    /// The worker's time is up, or the server refuses the call as such.
    Abandoned(Option<CallError>),
}

impl Inside {
    /// Settles a job. The job's berth is held until this returns: what waits for a server that is
    /// out of reach is bounded by the worker's concurrency.
    pub(super) async fn settle(&self, hold: &Hold, verdict: Verdict) {
        let tally = &self.tally;
        let Hold { id, token, .. } = *hold;
        let ticket = hold.ticket();
        let told = match &verdict {
            Verdict::Stale => Err(Untold::Stale),
            Verdict::Done | Verdict::Cancelled => {
                let call = Complete { id, token, ticket };
                self.tell(&call).await.and_then(|completed| match completed {
                    Completed::Done if matches!(verdict, Verdict::Done) => Ok(&tally.done),
                    Completed::Done => Ok(&tally.cancelled),
                    Completed::NoRow => Err(Untold::Stale),
                })
            }
            Verdict::Retry { error, delay } => self.tell_failure(hold, error, Some(*delay)).await,
            Verdict::Dead { error } => self.tell_failure(hold, error, None).await,
            Verdict::Release => {
                let call = Release { id, token, ticket };
                self.tell(&call).await.map(|()| &tally.released)
            }
        };
        match told {
            Ok(count) => count.one(),
            Err(Untold::Stale) => {
                tracing::warn!(%id, token, ?verdict, "the job was decided elsewhere");
                tally.stale.one();
            }
            Err(Untold::Abandoned(error)) => {
                let error = error.map(tracing::field::display);
                tracing::warn!(%id, token, ?verdict, error, "left to the end of its lease");
                tally.abandoned.one();
            }
        }
    }

    /// `delay` is `None` for "dead now".
    async fn tell_failure(
        &self,
        hold: &Hold,
        error: &str,
        delay: Option<Duration>,
    ) -> Result<&super::status::Count, Untold> {
        let call = Retry {
            id: hold.id,
            token: hold.token,
            ticket: hold.ticket(),
            delay: delay.unwrap_or_default(),
            max_attempts: self.settings.max_attempts,
            error,
            force_dead: delay.is_none(),
        };
        match self.tell(&call).await? {
            Retried::Scheduled => Ok(&self.tally.retried),
            Retried::Dead => {
                tracing::warn!(id = %hold.id, error, "a job is dead");
                Ok(&self.tally.dead)
            }
            Retried::NoRow => Err(Untold::Stale),
        }
    }

    /// Sends a call until it is answered. A repeated settlement changes nothing: when the first
    /// one arrived and its reply was lost, this one answers that it was decided.
    async fn tell<C: ScriptCall>(&self, call: &C) -> Result<C::Reply, Untold> {
        let mut pause = PAUSE;
        loop {
            let answer = tokio::select! {
                biased;
                answer = self.queue.call(call) => answer,
                () = self.ended.cancelled() => return Err(Untold::Abandoned(None)),
            };
            match answer {
                Ok(reply) => return Ok(reply),
                Err(error) if error.is_stale() => return Err(Untold::Stale),
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, script = %C::SCRIPT, "sent again once possible");
                }
                Err(error) => return Err(Untold::Abandoned(Some(error))),
            }
            tokio::select! {
                () = self.pause_until_ready(pause) => {}
                () = self.ended.cancelled() => return Err(Untold::Abandoned(None)),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits for some part of `pause` at random, then for the connection to be in service.
    pub(super) async fn pause_until_ready(&self, pause: Duration) {
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        let mut state = self.queue.bus().state();
        let settled = |state: &ConnectionState| {
            state.is_terminal() || matches!(state, ConnectionState::Ready)
        };
        // An error means that the connection is over, which the next call says better.
        let _ = state.wait_for(settled).await;
    }
}
