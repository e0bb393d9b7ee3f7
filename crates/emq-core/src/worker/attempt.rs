//! One attempt of one job, from its claim to its settlement.

use std::any::Any;
use std::sync::Arc;

use emq_scripts::Claimed;
use tokio::task::JoinError;
use tokio::time::Instant;
use tracing::Instrument;

use super::handler::{Fate, JobError, with_causes};
use super::inside::{Inside, Trouble};
use super::job::{Cancel, CancelReason, Context};
use super::settle::Verdict;
use super::slots::Place;
use super::supervise::{Ended, Handling, supervise};
use crate::lease::Hold;

/// A job that was just claimed.
pub(super) struct Taken {
    pub(super) claimed: Claimed,
    pub(super) ticket: Arc<str>,
    /// The moment before its claim was sent, from which its lease counts here.
    pub(super) sent: Instant,
}

/// Works a job and settles it.
pub(super) async fn attempt(inside: Arc<Inside>, taken: Taken, slot: Place, berth: Place) {
    let Taken { claimed, ticket, sent } = taken;
    let hold = Hold { id: claimed.id, token: claimed.token, ticket: Some(ticket) };
    let queue = inside.queue.clone();
    let span = tracing::info_span!("job", queue = %queue.name(), id = %hold.id, token = hold.token);
    let context = Arc::new(Context {
        queue,
        hold,
        checkpoint: claimed.checkpoint,
        cancel: Cancel::default(),
        stopping: inside.stopping.clone(),
    });
    let working = inside.work.begin(claimed.payload, Arc::clone(&context));
    // The slot goes with the handler: it is free when the handler is gone, however it goes.
    let working = async move {
        let _slot = slot;
        working.await
    };
    let handling = Handling::start(working.instrument(span.clone()));
    let settled = async {
        let ended = supervise(&inside, &context, handling, sent).await;
        let verdict = judge(&inside, &context, ended);
        tracing::debug!(?verdict, "handled");
        inside.settle(&context.hold, verdict).await;
    };
    settled.instrument(span).await;
    drop(berth);
    inside.count_in_flight();
}

/// Hands back a job that was claimed while the worker was told to stop.
pub(super) async fn hand_back(inside: Arc<Inside>, taken: Taken, berth: Place) {
    let Taken { claimed, ticket, .. } = taken;
    let hold = Hold { id: claimed.id, token: claimed.token, ticket: Some(ticket) };
    inside.settle(&hold, Verdict::Release).await;
    drop(berth);
    inside.count_in_flight();
}

/// What shall become of a job whose handler ended so.
fn judge(inside: &Inside, context: &Context, ended: Ended) -> Verdict {
    let reason = context.cancel.reason();
    let timed_out = || {
        inside.tally.timed_out.one();
        let after = inside.settings.timeout.unwrap_or_default();
        format!("timed out after {after:?}")
    };
    match (ended, reason) {
        (Ended::Finished(Ok(())), _) => Verdict::Done,
        (_, Some(CancelReason::Asked)) => Verdict::Cancelled,
        (_, Some(CancelReason::Stale)) => Verdict::Stale,
        (Ended::Finished(Err(Trouble::Undecodable(error))), _) => {
            inside.tally.undecodable.one();
            Verdict::Dead { error: with_causes(&error) }
        }
        (Ended::Panicked(words), _) => {
            inside.tally.panicked.one();
            again(inside, context, format!("panicked: {words}"))
        }
        (Ended::Finished(Err(Trouble::Failed(error))), Some(CancelReason::Timeout)) => {
            again(inside, context, format!("{}: {}", timed_out(), error.words()))
        }
        (Ended::Dropped, Some(CancelReason::Timeout)) => again(inside, context, timed_out()),
        (Ended::Finished(Err(Trouble::Failed(_))), Some(CancelReason::Stopping)) => {
            Verdict::Release
        }
        (Ended::Finished(Err(Trouble::Failed(error))), _) => by_fate(inside, context, &error),
        (Ended::Dropped, _) => Verdict::Release,
    }
}

fn by_fate(inside: &Inside, context: &Context, error: &JobError) -> Verdict {
    match error.fate {
        Fate::Retry => again(inside, context, error.words()),
        Fate::RetryAfter(delay) => Verdict::Retry { error: error.words(), delay },
        Fate::Dead => Verdict::Dead { error: error.words() },
        Fate::Release => Verdict::Release,
    }
}

fn again(inside: &Inside, context: &Context, error: String) -> Verdict {
    let delay = inside.settings.backoff.delay(context.hold.token);
    Verdict::Retry { error, delay }
}

/// How a handler's task ended.
pub(super) fn ended_of(joined: Result<Result<(), Trouble>, JoinError>) -> Ended {
    match joined {
        Ok(outcome) => Ended::Finished(outcome),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => Ended::Panicked(panic_words(&*panic)),
            Err(_) => Ended::Dropped,
        },
    }
}

fn panic_words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without words").to_owned()
}
