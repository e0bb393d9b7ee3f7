//! What handlers tell the loop.

use tokio::sync::mpsc;

use super::attempt::Ended;

/// Where the loop keeps a job that it holds.
pub(super) type Key = usize;

/// A word to the loop. There are at most two a job, so that the channel is bounded by what the
/// worker holds.
pub(super) enum Note {
    /// A handler is gone, and its slot is free.
    Ended(Key, Ended),
    /// A job was cancelled from its handler's side.
    Cancelled(Key),
}

pub(super) type Notes = mpsc::UnboundedSender<Note>;
