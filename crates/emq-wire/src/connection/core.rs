//! What the handles of a connection and its driver share.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, watch};

use super::ConnectionState;
use super::bound::Bound;
use crate::codec::Reply;
use crate::config::{Config, Overload};
use crate::counters::Tally;
use crate::error::WireError;

/// How many push frames wait for a reader before the next ones are only counted.
pub(super) const PUSH_ROOM: usize = 1024;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) tally: Tally,
    pub(crate) state: watch::Sender<ConnectionState>,
    /// The state `Ready`, readable without a lock.
    pub(crate) ready: AtomicBool,
    pub(crate) commands: Bound,
    pub(crate) bytes: Bound,
    pub(crate) pushes: mpsc::Sender<Reply>,
    pub(crate) push_reader: Mutex<Option<mpsc::Receiver<Reply>>>,
    /// Why the last attempt to come up failed, for the caller that gives up waiting.
    pub(crate) last_error: Mutex<Option<WireError>>,
}

/// How a submission takes its room.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// Refused or waiting, as configured.
    Caller,
    /// The second attempt of something already admitted: it waits rather than being refused.
    Again,
    /// The connector's own few commands: they take room without asking.
    Own,
}

impl Core {
    pub(crate) fn new(config: Config) -> Self {
        let (pushes, push_reader) = mpsc::channel(PUSH_ROOM);
        Self {
            commands: Bound::new(config.max_in_flight, "commands"),
            bytes: Bound::new(config.max_queued_bytes, "queued bytes"),
            tally: Tally::default(),
            state: watch::Sender::new(ConnectionState::Connecting),
            ready: AtomicBool::new(false),
            pushes,
            push_reader: Mutex::new(Some(push_reader)),
            last_error: Mutex::new(None),
            config,
        }
    }

    pub(crate) fn enter(&self, state: ConnectionState) {
        tracing::debug!(address = %self.config.address, ?state, "connection state");
        self.ready.store(matches!(state, ConnectionState::Ready), Ordering::Release);
        self.state.send_replace(state);
    }

    /// Takes room for a submission, or says which bound it would pass. A caller that gives up
    /// meanwhile keeps none.
    pub(crate) async fn admit(
        &self,
        replies: usize,
        bytes: usize,
        entry: Entry,
    ) -> Result<(), WireError> {
        let overload = match entry {
            Entry::Caller => self.config.overload,
            Entry::Again => Overload::Wait,
            Entry::Own => {
                self.commands.claim(replies);
                self.bytes.claim(bytes);
                return Ok(());
            }
        };
        let both = async {
            let commands = self.commands.take(replies, overload).await?;
            self.bytes.take(bytes, overload).await?.keep();
            commands.keep();
            Ok(())
        };
        both.await.inspect_err(|_| self.tally.overloads.add(1))
    }

    /// Counts a push frame and passes it on. A reader that doesn't keep up loses frames, never
    /// memory.
    pub(crate) fn push(&self, frame: Reply) {
        self.tally.pushes.add(1);
        let _ = self.pushes.try_send(frame);
    }
}
