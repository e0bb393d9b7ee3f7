//! What a store's owner answers to a caller.

use std::panic::resume_unwind;
use std::thread;

use tokio::sync::oneshot;

use crate::error::StoreError;

/// Where an owner's answer goes. An effect that panicked is the panic of the caller that brought
/// it: the owner lives on.
pub(crate) struct Reply<T>(oneshot::Sender<thread::Result<T>>);

/// Where a caller waits for it.
pub(crate) struct Awaited<T>(oneshot::Receiver<thread::Result<T>>);

/// The two ends of one answer.
pub(crate) fn reply<T>() -> (Reply<T>, Awaited<T>) {
    let (sender, receiver) = oneshot::channel();
    (Reply(sender), Awaited(receiver))
}

impl<T> Reply<T> {
    /// Whether the caller still waits. Nothing needs to be done for one that doesn't.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.0.is_closed()
    }

    /// Answers. A caller that went away doesn't hear it.
    pub(crate) fn send(self, answer: thread::Result<T>) {
        let _ = self.0.send(answer);
    }
}

impl<T> Awaited<T> {
    /// The answer.
    pub(crate) async fn answer(self) -> Result<T, StoreError> {
        match self.0.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(panic)) => resume_unwind(panic),
            // The request was dropped unread, so nothing was done.
            Err(_) => Err(StoreError::Closed),
        }
    }
}
