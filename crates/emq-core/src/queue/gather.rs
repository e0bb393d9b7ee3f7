//! Single enqueues of many tasks, gathered into calls of many.
//!
//! Who enqueues while nobody else does sends a call of his own, at once. While others are under
//! way, the jobs of all tasks that are ready to run now go together: the server admits a batch for
//! much less than it takes to admit its jobs one by one. Nobody waits for a job that isn't there
//! yet. The call leaves when the tasks that are ready have run, as the connection's own writes do.
//!
//! A caller sees none of this. His verdict is his own, and a batch that is refused as a whole is
//! forgotten: each of its jobs is then sent in a call of its own, which tells what is true of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use emq_scripts::{Admitted, CallError, EnqueueMany, ManyItem, Verdict};
use emq_wire::WireError;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::meters::Admissions;
use super::{NewJob, Queue, many};
use crate::bus::Bus;
use crate::error::Error;
use crate::outcome::Enqueued;

/// The most jobs of one call: a hundred hold the server for less than a millisecond.
const JOBS_MAX: usize = 100;

/// What a job's caller is told; `None` sends him on to make the call himself.
type Answer = Option<Result<Verdict, CallError>>;

/// A job on its way into a batch.
struct Waiting {
    queue: Queue,
    job: NewJob,
    answer: oneshot::Sender<Answer>,
}

/// The single enqueues of a bus.
#[derive(Default)]
pub(crate) struct Gatherer {
    under_way: AtomicUsize,
    /// The next batch. It is taken by a task that the first of it spawned.
    waiting: Mutex<Vec<Waiting>>,
}

/// One enqueue is under way for as long as this is there.
pub(super) struct UnderWay<'a> {
    count: &'a AtomicUsize,
    /// No other was when it began.
    pub(super) alone: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gatherer {
    pub(super) fn begin(&self) -> UnderWay<'_> {
        let alone = self.under_way.fetch_add(1, Ordering::Relaxed) == 0;
        UnderWay { count: &self.under_way, alone }
    }

    /// Adds a job to the next batch. Answers whether it is the first of it.
    fn add(&self, waiting: Waiting) -> bool {
        let mut batch = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        batch.push(waiting);
        batch.len() == 1
    }

    fn take(&self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Queue {
    /// Enqueues a job for now together with those of other tasks. `None`: the caller has to make
    /// the call himself, and nothing has been sent yet.
    pub(super) async fn gathered(&self, job: NewJob) -> Option<Result<Enqueued, Error>> {
        let runtime = Handle::try_current().ok()?;
        let id = job.id();
        let (answer, answered) = oneshot::channel();
        if self.bus().0.gatherer.add(Waiting { queue: self.clone(), job, answer }) {
            runtime.spawn(send_next(self.bus().clone()));
        }
        let verdict = match answered.await {
            Ok(answer) => answer?,
            // The runtime of whoever sends it is gone: it may have been sent.
            Err(_) => return Some(Err(Error::of_wire(Some(id), lost()))),
        };
        Some(match verdict {
            Ok(Verdict::Admitted) => Ok(Enqueued::of(id, Admitted::Admitted, true)),
            Ok(Verdict::Duplicate) => Ok(Enqueued::of(id, Admitted::Duplicate, true)),
            Ok(Verdict::Held(by)) => Ok(Enqueued::Held { by }),
            Ok(Verdict::Kind) => Err(Error::Kind { id }),
            Err(error) => Err(Error::of_job(id, error)),
        })
    }
}

fn lost() -> WireError {
    WireError::Disconnected { written: true }
}

/// Sends the next batch when the tasks that are ready have had their turn.
async fn send_next(bus: Bus) {
    tokio::task::yield_now().await;
    let mut batch = bus.0.gatherer.take();
    batch.sort_by(|a, b| a.queue.name().cmp(b.queue.name()));
    while !batch.is_empty() {
        let rest = batch.split_off(first_call(&batch));
        let call = std::mem::replace(&mut batch, rest);
        if batch.is_empty() {
            return send(call).await;
        }
        tokio::spawn(send(call));
    }
}

/// How many jobs the next call carries: of one queue, and within the bounds of a call.
fn first_call(batch: &[Waiting]) -> usize {
    let queue = batch[0].queue.name();
    let same = batch.iter().take_while(|waiting| waiting.queue.name() == queue);
    many::fit(same.map(|waiting| waiting.job.payload().len()), JOBS_MAX)
}

async fn send(call: Vec<Waiting>) {
    let [first, _, ..] = &*call else {
        return call.into_iter().for_each(|alone| tell(alone.answer, None));
    };
    let queue = first.queue.clone();
    let items: Vec<ManyItem<'_>> = call.iter().map(|one| many::item(&one.job, 0)).collect();
    let outcome = queue.call(&EnqueueMany { items: &items, durable: false }).await;
    drop(items);
    match outcome {
        Ok(verdicts) => {
            Admissions::of_list(&verdicts).tell(queue.name());
            for (one, verdict) in call.into_iter().zip(verdicts) {
                tell(one.answer, Some(Ok(verdict)));
            }
        }
        Err(CallError::Wire(error)) => {
            for one in call {
                tell(one.answer, Some(Err(CallError::Wire(error.clone()))));
            }
        }
        // One of them, or the server's state, is to blame; nothing is written.
        Err(_) => call.into_iter().for_each(|one| tell(one.answer, None)),
    }
}

fn tell(answer: oneshot::Sender<Answer>, what: Answer) {
    // A caller who gave up isn't there to hear it.
    let _ = answer.send(what);
}
