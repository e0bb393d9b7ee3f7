//! Watching a handler: its lease is extended, and it is cancelled when the job isn't its any more.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use emq_scripts::{CallError, Extend, Extended};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::attempt::ended_of;
use super::inside::{Inside, Trouble};
use super::job::{CancelReason, Context};

/// How long a dropped handler is waited for: one that blocks its thread isn't waited for longer.
const DROP_WITHIN: Duration = Duration::from_millis(50);
/// The grace of a handler that was told before that the worker stops.
const STOPPING_GRACE: Duration = Duration::from_millis(25);
/// The longest grace of a handler whose job somebody else may be working.
const STALE_GRACE: Duration = Duration::from_millis(100);
/// The longest pause before a failed extension is tried again.
const EXTEND_AGAIN_MAX: Duration = Duration::from_millis(250);

/// How a handler ended.
pub(super) enum Ended {
    Finished(Result<(), Trouble>),
    Panicked(String),
    /// It was dropped at an await, or blocks its thread still.
    Dropped,
}

/// A handler's task. It is dropped with this value.
pub(super) struct Handling(JoinHandle<Result<(), Trouble>>);

impl Handling {
    pub(super) fn start(
        working: impl Future<Output = Result<(), Trouble>> + Send + 'static,
    ) -> Handling {
        Handling(tokio::spawn(working))
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Extension = Pin<Box<dyn Future<Output = Result<Extended, CallError>> + Send>>;

/// The times that matter to one attempt, on the monotonic clock.
struct Term {
    /// The moment before the claim, or the last acknowledged extension, was sent.
    from: Instant,
    lease: Duration,
    /// How long before the lease's end the handler is cancelled.
    margin: Duration,
    extend_at: Instant,
    timeout_at: Option<Instant>,
    /// When a cancelled handler is dropped.
    drop_at: Option<Instant>,
}

impl Term {
    fn new(inside: &Inside, sent: Instant) -> Term {
        let lease = inside.settings.lease;
        Term {
            from: sent,
            lease,
            margin: (lease / 8).clamp(Duration::from_millis(2), Duration::from_secs(2)),
            extend_at: sent + lease / 3,
            timeout_at: inside.settings.timeout.and_then(|t| Instant::now().checked_add(t)),
            drop_at: None,
        }
    }

    /// The local deadline: from here on another worker may soon have the job.
    fn deadline(&self) -> Instant {
        self.from + self.lease - self.margin
    }

    /// The next moment at which something is to be done.
    fn next(&self, cancelled: Option<CancelReason>, extending: bool) -> Instant {
        let extend_at = (keeps(cancelled) && !extending).then_some(self.extend_at);
        let uncancelled = |at: Option<Instant>| at.filter(|_| cancelled.is_none());
        [extend_at, self.drop_at, uncancelled(self.timeout_at)]
            .into_iter()
            .flatten()
            .chain(uncancelled(Some(self.deadline())))
            .min()
            // Only a handler that is neither dropped nor extended gets here; it is looked at
            // when its lease ends.
            .unwrap_or_else(|| self.from + self.lease)
    }

    fn acknowledged(&mut self, sent: Instant) {
        self.from = sent;
        self.extend_at = sent + self.lease / 3;
    }

    fn again(&mut self) {
        let pause = (self.lease / 12).min(EXTEND_AGAIN_MAX);
        self.extend_at = Instant::now() + pause;
    }

    /// When a handler that was cancelled now is dropped: within its lease.
    fn grace_ends(&self, reason: Option<CancelReason>, grace: Duration) -> Instant {
        let grace = match reason {
            Some(CancelReason::Stopping) => grace.min(STOPPING_GRACE),
            Some(CancelReason::Stale) => grace.min(STALE_GRACE),
            _ => grace,
        };
        (Instant::now() + grace).min(self.from + self.lease - self.margin / 2)
    }
}

/// Whether the lease of a handler that was cancelled so is still kept.
fn keeps(cancelled: Option<CancelReason>) -> bool {
    !matches!(cancelled, Some(CancelReason::Stale | CancelReason::Deadline))
}

/// Watches a handler until it ends or is dropped.
pub(super) async fn supervise(
    inside: &Arc<Inside>,
    context: &Arc<Context>,
    mut handling: Handling,
    sent: Instant,
) -> Ended {
    let cancel = &context.cancel;
    let mut term = Term::new(inside, sent);
    let mut extension: Option<(Instant, Extension)> = None;
    let alarm = sleep_until(term.next(None, false));
    tokio::pin!(alarm);
    loop {
        let next = term.next(cancel.reason(), extension.is_some());
        if alarm.deadline() != next {
            alarm.as_mut().reset(next);
        }
        tokio::select! {
            biased;
            joined = &mut handling.0 => return ended_of(joined),
            (sent, answer) = answered(&mut extension) => {
                extension = None;
                heed(inside, context, &mut term, sent, answer);
            }
            () = cancel.fired(), if term.drop_at.is_none() => {
                let grace = inside.settings.cancel_grace;
                term.drop_at = Some(term.grace_ends(cancel.reason(), grace));
            }
            () = inside.handing_back.cancelled(), if cancel.reason().is_none() => {
                cancel.fire(CancelReason::Stopping);
            }
            () = alarm.as_mut() => {
                let now = Instant::now();
                if term.drop_at.is_some_and(|at| at <= now) {
                    return dropped(handling).await;
                }
                if cancel.reason().is_none() {
                    if term.deadline() <= now {
                        cancel.fire(CancelReason::Deadline);
                    } else if term.timeout_at.is_some_and(|at| at <= now) {
                        cancel.fire(CancelReason::Timeout);
                    }
                }
                if extension.is_none() && term.extend_at <= now && keeps(cancel.reason()) {
                    extension = Some((now, extend(inside, context)));
                }
            }
        }
    }
}

fn extend(inside: &Arc<Inside>, context: &Arc<Context>) -> Extension {
    let (inside, context) = (Arc::clone(inside), Arc::clone(context));
    Box::pin(async move {
        let hold = &context.hold;
        let lease = inside.settings.lease;
        let call = Extend { id: hold.id, token: hold.token, ticket: hold.ticket(), lease };
        inside.queue.call(&call).await
    })
}

/// The answer of the extension under way; never, when there is none.
async fn answered(
    extension: &mut Option<(Instant, Extension)>,
) -> (Instant, Result<Extended, CallError>) {
    match extension {
        Some((sent, answer)) => (*sent, answer.await),
        None => std::future::pending().await,
    }
}

fn heed(
    inside: &Inside,
    context: &Context,
    term: &mut Term,
    sent: Instant,
    answer: Result<Extended, CallError>,
) {
    match answer {
        Ok(held) => {
            term.acknowledged(sent);
            inside.tally.extended.one();
            if held == Extended::CancelAsked {
                context.cancel.fire(CancelReason::Asked);
            }
        }
        Err(error) if error.is_stale() => context.cancel.fire(CancelReason::Stale),
        Err(error) => {
            tracing::debug!(%error, "the lease was not extended; trying again");
            term.again();
        }
    }
}

/// Drops a handler at its next await.
async fn dropped(mut handling: Handling) -> Ended {
    handling.0.abort();
    match timeout(DROP_WITHIN, &mut handling.0).await {
        Ok(joined) => ended_of(joined),
        Err(_) => Ended::Dropped,
    }
}
