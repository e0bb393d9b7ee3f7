//! The one task that touches the rows.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{Mutex, mpsc};

use super::rows::Rows;
use crate::reply::Reply;

/// What a handle asks for.
pub(super) struct Request(Box<dyn FnOnce(&mut Rows) + Send>);

impl Request {
    /// Work on the rows whose answer, or panic, goes to the caller.
    pub(super) fn new<T: Send + 'static>(
        work: impl FnOnce(&mut Rows) -> T + Send + 'static,
        reply: Reply<T>,
    ) -> Request {
        Request(Box::new(move |rows| {
            if reply.is_awaited() {
                // Rows change only after an effect has answered, so a panic leaves them whole.
                reply.send(catch_unwind(AssertUnwindSafe(|| work(rows))));
            }
        }))
    }
}

/// Owns the rows of a [`Memory`](super::Memory): they change only while its
/// [`run`](MemoryOwner::run) is polled.
///
/// Its clones are one owner. When the task that runs it is killed, the rows and the requests that
/// wait stay with the clones, and the next `run` goes on with them; so a supervisor keeps one and
/// runs a clone. When the last clone is gone, handles are answered
/// [`Closed`](crate::StoreError::Closed).
///
/// ```
/// use emq_keys::namespace;
/// use emq_stores::{Store, memory::Memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (memory, owner) = Memory::open(namespace!("ORD"));
/// let orders: Store<String> = Store::new(memory);
/// let first = tokio::spawn(owner.clone().run());
/// orders.put("ORD0NgWEfAEJfs", &"filled".to_owned()).await?;
/// first.abort();
///
/// tokio::spawn(owner.run()); // takes up where the first one was killed
/// assert_eq!(orders.get("ORD0NgWEfAEJfs").await?.as_deref(), Some("filled"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct MemoryOwner(Arc<Mutex<Estate>>);

/// What a restarted owner takes up.
struct Estate {
    rows: Rows,
    inbox: mpsc::Receiver<Request>,
}

impl MemoryOwner {
    pub(super) fn new(inbox: mpsc::Receiver<Request>) -> MemoryOwner {
        MemoryOwner(Arc::new(Mutex::new(Estate { rows: Rows::default(), inbox })))
    }

    /// Serves the handles until the last of them is dropped. Of several that run, one serves and
    /// the others wait. Dropping it between two requests, the only time when it can be, loses
    /// nothing.
    pub async fn run(self) {
        let mut estate = self.0.lock().await;
        let Estate { rows, inbox } = &mut *estate;
        while let Some(Request(work)) = inbox.recv().await {
            work(rows);
        }
    }
}

impl fmt::Debug for MemoryOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryOwner").finish_non_exhaustive()
    }
}
