//! One attempt of one job: its handler's task, and what shall become of the job by its end.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::handler::Fate;
use super::inside::Inside;
use super::job::{CancelReason, Context};
use super::note::{Key, Note, Notes};
use super::route::{Trouble, Work, Working};
use super::settle::Verdict;
use crate::backoff::{Backoff, DELAY_MAX};

/// How a handler ended.
pub(super) enum Ended {
    Finished(Result<(), Trouble>),
    Panicked(String),
    /// It was dropped at an await.
    Dropped,
}

/// A handler's task. It is dropped, at its next await, with this value.
pub(super) struct Handling(JoinHandle<()>);

impl Handling {
    /// Runs a job's handler in a task of its own, which says when it is over.
    pub(super) fn start(work: &dyn Work, payload: Bytes, context: Arc<Context>) -> Handling {
        let hold = &context.hold;
        let span = tracing::info_span!(
            "job",
            queue = %context.queue.name(),
            kind = context.kind.as_deref().map(String::from_utf8_lossy).as_deref(),
            id = %hold.id,
            token = hold.token,
            lane = context.lane.map(tracing::field::display),
        );
        let report = Report { notes: context.notes.clone(), key: context.key, ended: None };
        let working = Caught(work.begin(payload, context));
        let handling = async move {
            let mut report = report;
            // The handler is gone, with all that it owned, before the report is.
            let ended = working.await;
            report.ended = Some(ended);
        };
        Handling(tokio::spawn(handling.instrument(span)))
    }

    /// Drops the handler at its next await.
    pub(super) fn abort(&self) {
        self.0.abort();
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells the loop of a handler's end, however it ends.
struct Report {
    notes: Notes,
    key: Key,
    ended: Option<Ended>,
}

impl Drop for Report {
    fn drop(&mut self) {
        let ended = self.ended.take().unwrap_or_else(|| match std::thread::panicking() {
            true => Ended::Panicked("while it was dropped".to_owned()),
            false => Ended::Dropped,
        });
        // Nobody listens when the worker is gone.
        let _ = self.notes.send(Note::Ended(self.key, ended));
    }
}

/// A handler whose panic is its own.
struct Caught(Working);

impl Future for Caught {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Ended> {
        let working = self.0.as_mut();
        match catch_unwind(AssertUnwindSafe(|| working.poll(cx))) {
            Ok(Poll::Ready(outcome)) => Poll::Ready(Ended::Finished(outcome)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Ended::Panicked(panic_words(&*panic))),
        }
    }
}

fn panic_words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without words").to_owned()
}

/// What shall become of a job whose handler ended so.
pub(super) fn judge(inside: &Inside, context: &Context, ended: Ended) -> Verdict {
    use CancelReason::{Asked, Deadline, Stale, Stopping, Timeout};
    if let Some(Stale | Deadline) = context.cancel.reason() {
        inside.tally.lost.one();
    }
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
