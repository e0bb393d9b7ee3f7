//! What travels from a caller to the task that owns the socket, and back.

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::codec::Reply;
use crate::error::WireError;

/// A submission on its way to the driver.
pub(crate) enum Request {
    /// Write these bytes, `at_once` or with what others add to the write, and answer the waiter.
    Call { bytes: Bytes, replies: usize, waiter: Waiter, at_once: bool },
    /// Flush what was accepted, answer everybody, and end.
    Close,
}

/// Who waits for the replies of a submission.
pub(crate) enum Waiter {
    One(oneshot::Sender<Result<Reply, WireError>>),
    Many(oneshot::Sender<Result<Vec<Reply>, WireError>>),
}

impl Waiter {
    /// Answers with an error. A caller that left is no reason to stop.
    pub(crate) fn fail(self, error: WireError) {
        match self {
            Self::One(caller) => drop(caller.send(Err(error))),
            Self::Many(caller) => drop(caller.send(Err(error))),
        }
    }
}

/// A place in the first-in first-out line of replies.
pub(crate) struct Slot {
    /// Where in the stream of written bytes the submission starts.
    pub(crate) start: u64,
    pub(crate) kind: SlotKind,
}

pub(crate) enum SlotKind {
    One(oneshot::Sender<Result<Reply, WireError>>),
    Many {
        missing: usize,
        got: Vec<Reply>,
        caller: oneshot::Sender<Result<Vec<Reply>, WireError>>,
    },
    /// The connector's own probe.
    Probe,
}

impl Slot {
    pub(crate) fn new(start: u64, replies: usize, waiter: Waiter) -> Self {
        let kind = match waiter {
            Waiter::One(caller) => SlotKind::One(caller),
            Waiter::Many(caller) => {
                SlotKind::Many { missing: replies, got: Vec::with_capacity(replies), caller }
            }
        };
        Self { start, kind }
    }

    /// How many replies still belong here.
    pub(crate) fn missing(&self) -> usize {
        match &self.kind {
            SlotKind::One(_) => 1,
            SlotKind::Many { missing, .. } => *missing,
            SlotKind::Probe => 0,
        }
    }

    pub(crate) fn fail(self, error: WireError) {
        match self.kind {
            SlotKind::One(caller) => drop(caller.send(Err(error))),
            SlotKind::Many { caller, .. } => drop(caller.send(Err(error))),
            SlotKind::Probe => {}
        }
    }
}
