//! What a rival can do.

use std::ops::Range;

use serde_json::Value;

use crate::{Fault, Handler, Worker};

/// A rival at its defaults, on a queue of its own.
pub trait Rival: Send + Sync + Sized + 'static {
    /// What is measured: an object of texts.
    fn versions() -> Value;

    /// Why this rival has no such row, if it hasn't.
    fn lacks(row: &str) -> Option<&'static str>;

    /// Connects, and begins with nothing stored.
    ///
    /// # Errors
    /// What the rival, or the store, said.
    fn open(url: &str, queue: &str) -> impl Future<Output = Result<Self, Fault>> + Send;

    /// Enqueues job `i`.
    ///
    /// # Errors
    /// What the rival said.
    fn enqueue(&self, i: usize) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Enqueues these jobs by one bulk call.
    ///
    /// # Errors
    /// What the rival said.
    fn enqueue_bulk(&self, jobs: Range<usize>) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Starts a worker.
    ///
    /// # Errors
    /// What the rival said.
    fn work(
        &self,
        concurrency: usize,
        handler: Handler,
    ) -> impl Future<Output = Result<Worker, Fault>> + Send;

    /// How many of `enqueued` jobs the store has as done. It is asked about once a millisecond
    /// when all the effects have happened, so it must be cheap.
    ///
    /// # Errors
    /// What the store said.
    fn acknowledged(&self, enqueued: usize) -> impl Future<Output = Result<usize, Fault>> + Send;

    /// What the store holds, in bytes.
    ///
    /// # Errors
    /// What the store said.
    fn stored_bytes(&self) -> impl Future<Output = Result<u64, Fault>> + Send;

    /// Writes a business row and a job in each of `n` transactions, each second one rolled back.
    /// Answers the fields of the row.
    ///
    /// # Errors
    /// What the rival said.
    fn transactional(&self, _n: usize) -> impl Future<Output = Result<Value, Fault>> + Send {
        async { Err(Fault::Absent("no job in the caller's transaction".to_owned())) }
    }
}
