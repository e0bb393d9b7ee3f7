//! What the parts of a worker share, and how they are started.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::handler::{Fate, Handler, JobError, with_causes};
use super::job::{Context, Job};
use super::park::Parker;
use super::rounds::Rounds;
use super::slots::Slots;
use super::status::{Phase, Tally, WorkerStatus};
use super::stop::Running;
use super::{Settings, Worker};
use crate::error::Error;
use crate::payload::Codec;
use crate::queue::{Queue, TypedQueue};
use crate::ticket::Tickets;

/// What the loop, the attempts and the handle of one worker share.
pub(super) struct Inside {
    pub(super) queue: Queue,
    pub(super) settings: Settings,
    pub(super) work: Box<dyn Work>,
    pub(super) tickets: Tickets,
    pub(super) slots: Slots,
    pub(super) tally: Tally,
    pub(super) status: watch::Sender<WorkerStatus>,
    pub(super) failure: OnceLock<Error>,
    /// The worker stops: nothing more is claimed.
    pub(super) stopping: CancellationToken,
    /// The grace is over: what still runs is handed back.
    pub(super) handing_back: CancellationToken,
    /// Time is up: what isn't settled is left to its lease.
    pub(super) ended: CancellationToken,
}

/// How a handler failed, unless it panicked or was dropped. The words of its error are taken in
/// its own task, since they may panic too.
pub(super) enum Trouble {
    Failed { fate: Fate, words: String },
    Undecodable { words: String },
}

impl From<JobError> for Trouble {
    fn from(error: JobError) -> Trouble {
        Trouble::Failed { fate: error.fate, words: error.words() }
    }
}

pub(super) type Working = Pin<Box<dyn Future<Output = Result<(), Trouble>> + Send>>;

/// A handler with its codec, without their types.
pub(super) trait Work: Send + Sync {
    fn begin(&self, payload: Bytes, context: Arc<Context>) -> Working;
}

struct Typed<T, C, H> {
    handler: Arc<H>,
    payload: PhantomData<fn() -> (T, C)>,
}

impl<T: Send + 'static, C: Codec<T>, H: Handler<T>> Work for Typed<T, C, H> {
    fn begin(&self, payload: Bytes, context: Arc<Context>) -> Working {
        let handler = Arc::clone(&self.handler);
        // Decoding runs in here too: a codec that panics is the job's failure, not the worker's.
        Box::pin(async move {
            let value = C::decode(&payload)
                .map_err(|error| Trouble::Undecodable { words: with_causes(&error) })?;
            drop(payload);
            Ok(handler.run(Job::new(value, context)).await?)
        })
    }
}

impl Inside {
    /// Says what the worker does, to those who watch.
    pub(super) fn enter(&self, phase: Phase) {
        self.status.send_if_modified(|status| {
            if status.phase != phase {
                tracing::debug!(queue = %self.queue.name(), ?phase, "worker");
            }
            let next = WorkerStatus { phase, in_flight: self.slots.held() };
            std::mem::replace(status, next) != next
        });
    }

    /// Says how many jobs are held, to those who watch.
    pub(super) fn count_in_flight(&self) {
        self.status.send_if_modified(|status| {
            let next = WorkerStatus { in_flight: self.slots.held(), ..*status };
            std::mem::replace(status, next) != next
        });
    }
}

pub(super) fn start<T, C, H>(queue: &TypedQueue<T, C>, settings: Settings, handler: H) -> Worker
where
    T: Send + 'static,
    C: Codec<T>,
    H: Handler<T>,
{
    let queue = queue.queue().clone();
    let work = Typed::<T, C, H> { handler: Arc::new(handler), payload: PhantomData };
    let status = WorkerStatus { phase: Phase::Starting, in_flight: 0 };
    let inside = Arc::new(Inside {
        slots: Slots::new(settings.concurrency),
        tickets: Tickets::fresh(),
        work: Box::new(work),
        tally: Tally::default(),
        status: watch::Sender::new(status),
        failure: OnceLock::new(),
        stopping: CancellationToken::new(),
        handing_back: CancellationToken::new(),
        ended: CancellationToken::new(),
        queue,
        settings,
    });
    let parker = Parker::start(&inside);
    let rounds = tokio::spawn(Rounds::new(Arc::clone(&inside), parker).run());
    Worker { inside, running: Running::new(rounds) }
}
