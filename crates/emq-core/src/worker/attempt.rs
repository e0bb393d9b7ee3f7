//! One attempt of one job, from its claim to its settlement.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use emq_scripts::Claimed;
use tokio::task::JoinError;
use tokio::time::Instant;
use tracing::Instrument;

use super::handler::Fate;
use super::inside::{Inside, Trouble};
use super::job::{Cancel, CancelReason, Context};
use super::settle::Verdict;
use super::slots::Place;
use super::supervise::{Ended, Handling, supervise};
use crate::backoff::{Backoff, DELAY_MAX};
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
    use CancelReason::{Asked, Stale, Stopping, Timeout};
    let again = |error| Verdict::Retry { error, delay: backoff(inside, context.hold.token) };
    match (ended, context.cancel.reason()) {
        (Ended::Finished(Ok(())), _) => Verdict::Done,
        (_, Some(Asked)) => Verdict::Cancelled,
        (_, Some(Stale)) => Verdict::Stale,
        (Ended::Finished(Err(Trouble::Undecodable { words })), _) => {
            inside.tally.undecodable.one();
            Verdict::Dead { error: words }
        }
        (Ended::Panicked(words), _) => {
            inside.tally.panicked.one();
            again(format!("panicked: {words}"))
        }
        (Ended::Finished(Err(Trouble::Failed { words, .. })), Some(Timeout)) => {
            again(format!("{}: {words}", timed_out(inside)))
        }
        (Ended::Dropped, Some(Timeout)) => again(timed_out(inside)),
        (Ended::Finished(Err(Trouble::Failed { .. })), Some(Stopping)) => Verdict::Release,
        (Ended::Finished(Err(Trouble::Failed { fate, words: error })), _) => match fate {
            Fate::Retry => again(error),
            Fate::RetryAfter(delay) => Verdict::Retry { error, delay: delay.min(DELAY_MAX) },
            Fate::Dead => Verdict::Dead { error },
            Fate::Release => Verdict::Release,
        },
        (Ended::Dropped, _) => Verdict::Release,
    }
}

fn timed_out(inside: &Inside) -> String {
    inside.tally.timed_out.one();
    format!("timed out after {:?}", inside.settings.timeout.unwrap_or_default())
}

/// The worker's backoff; its default where a custom one panics.
fn backoff(inside: &Inside, attempt: u64) -> Duration {
    let own = AssertUnwindSafe(|| inside.settings.backoff.delay(attempt));
    catch_unwind(own).unwrap_or_else(|_| {
        tracing::error!("the custom backoff panicked; the default one is used");
        Backoff::default().delay(attempt)
    })
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
