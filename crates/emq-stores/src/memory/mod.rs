//! Rows in memory, behind one owner task.
//!
//! They are gone when the process is, so this backend is for tests, caches, and to try things out.
//! Within the process it keeps every promise that the others keep.
//!
//! ```
//! use emq_keys::{BrandedId, namespace};
//! use emq_stores::{Absorbed, Store, memory::Memory};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let totals: Store<u64> = Store::new(Memory::new(namespace!("TOT")));
//! let (total, job) = ("TOT0NgWEfAEJfs", "JOB0NgWEfAEJfs");
//! assert_eq!(totals.absorb(total, job, |sum| *sum += 12).await?, Absorbed::Applied);
//! assert_eq!(totals.absorb(total, job, |sum| *sum += 12).await?, Absorbed::Declined);
//! assert_eq!(totals.get(total).await?, Some(12));
//! # Ok(()) }
//! ```

mod owner;
mod rows;

use std::fmt;

use bytes::Bytes;
use emq_keys::{BrandedId, Namespace};
use tokio::sync::mpsc;

pub use self::owner::MemoryOwner;
use self::owner::Request;
use self::rows::Rows;
use crate::compaction::Progress;
use crate::effect::{Absorbed, Compacted, Contribution, Effect, JobName};
use crate::error::StoreError;
use crate::property::{Answer, PropertyStore};
use crate::reply::reply;

/// How many requests wait for the owner; further callers wait to be let in.
const QUEUE_BOUND: usize = 1024;

/// Rows of one kind, in memory. Cheap to clone; its clones are one store.
///
/// An effect runs on the owner's task: it should be quick, as all other requests wait for it.
#[derive(Clone)]
pub struct Memory {
    kind: Namespace,
    requests: mpsc::Sender<Request>,
}

impl Memory {
    /// An empty store, whose owner is a task that ends when the last clone is dropped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn new(kind: Namespace) -> Memory {
        let (memory, owner) = Memory::open(kind);
        tokio::spawn(owner.run());
        memory
    }

    /// An empty store, and its owner for a [supervisor](crate::supervisor) to run.
    #[must_use]
    pub fn open(kind: Namespace) -> (Memory, MemoryOwner) {
        let (requests, inbox) = mpsc::channel(QUEUE_BOUND);
        (Memory { kind, requests }, MemoryOwner::new(inbox))
    }

    /// Lets the owner do something to the rows.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Rows) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, awaited) = reply();
        let request = Request::new(work, reply);
        self.requests.send(request).await.map_err(|_| StoreError::Closed)?;
        awaited.answer().await
    }
}

impl PropertyStore for Memory {
    fn kind(&self) -> Namespace {
        self.kind
    }

    fn get(&self, id: BrandedId) -> Answer<'_, Option<Bytes>> {
        Box::pin(self.ask(move |rows| rows.row(id)))
    }

    fn put(&self, id: BrandedId, row: Bytes) -> Answer<'_, ()> {
        Box::pin(self.ask(move |rows| rows.put(id, row)))
    }

    fn page_desc(
        &self,
        limit: usize,
        before: Option<BrandedId>,
    ) -> Answer<'_, Vec<(BrandedId, Bytes)>> {
        Box::pin(self.ask(move |rows| rows.page_desc(limit, before)))
    }

    fn window(
        &self,
        lo: BrandedId,
        hi: BrandedId,
        limit: usize,
    ) -> Answer<'_, Vec<(BrandedId, Bytes)>> {
        Box::pin(self.ask(move |rows| rows.window(lo, hi, limit)))
    }

    fn absorb(&self, id: BrandedId, name: JobName, effect: Effect) -> Answer<'_, Absorbed> {
        Box::pin(async move { self.ask(move |rows| rows.absorb(id, name, effect)).await? })
    }

    fn absorbed(
        &self,
        id: BrandedId,
        limit: usize,
        after: Option<JobName>,
    ) -> Answer<'_, Vec<Contribution>> {
        Box::pin(self.ask(move |rows| rows.absorbed(id, limit, after)))
    }

    fn folded(&self, id: BrandedId) -> Answer<'_, u64> {
        Box::pin(self.ask(move |rows| rows.folded(id)))
    }

    /// Each step is a request of its own. The owner serves one request at a time, so an absorb
    /// comes either before the horizon moved, and its name is there to be forgotten, or after, and
    /// is refused: none can apply a name that was forgotten.
    fn compact(&self, horizon: BrandedId) -> Answer<'_, Compacted> {
        Box::pin(async move {
            let horizon = self.ask(move |rows| rows.move_horizon(horizon)).await?;
            let mut progress = Progress::default();
            loop {
                let (so_far, more) = self.ask(move |rows| rows.forget(horizon, progress)).await?;
                if !more {
                    return Ok(so_far.done);
                }
                progress = so_far;
            }
        })
    }

    fn horizon(&self) -> Answer<'_, Option<BrandedId>> {
        Box::pin(self.ask(|rows| rows.horizon()))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("kind", &self.kind).finish_non_exhaustive()
    }
}
