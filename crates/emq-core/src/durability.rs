//! How far a write must have gone before an enqueue is acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use emq_scripts::Fenced;
use emq_wire::{
    Acknowledged, Cmd, Connection, Durable, DurableLane, DurableWait, Pipeline, Reply, ServerError,
};
use tokio::sync::{Mutex, OnceCell};

use crate::error::{Error, NotDurable};

/// How far a write must have gone before an enqueue is acknowledged.
///
/// With `appendfsync always` a [`Durability::Fsynced`] enqueue takes one sync of the disk, which
/// all those that wait at the same time share; with `everysec` it takes up to a second or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The server has it in memory.
    #[default]
    Volatile,
    /// The server has it on its disk.
    Fsynced,
    /// This many replicas have it in memory.
    Replicated(u32),
}

impl Durability {
    /// Whether a duplicate shall write too, so that there is a write to wait for.
    pub(crate) fn waits(self) -> bool {
        self != Self::Volatile
    }

    fn wait(self, timeout: Duration) -> Option<DurableWait> {
        match self {
            Self::Volatile => None,
            Self::Fsynced => Some(DurableWait::Fsynced { timeout }),
            Self::Replicated(replicas) => Some(DurableWait::Replicated { replicas, timeout }),
        }
    }

    fn reached(self, acknowledged: Acknowledged) -> bool {
        match self {
            Self::Volatile => true,
            Self::Fsynced => acknowledged.local >= 1,
            Self::Replicated(replicas) => acknowledged.replicas >= i64::from(replicas),
        }
    }
}

/// The bus's way to acknowledged writes: opened by the first who needs it.
#[derive(Default)]
pub(crate) struct DurablePath {
    lane: OnceCell<DurableLane>,
    /// The lane's count of connects at which its server was last found able to sync; 0 before.
    able_at: AtomicU64,
    /// Held by the one who asks.
    asking: Mutex<()>,
}

/// One reply and whether its write is as durable as asked.
pub(crate) struct DurableReply {
    pub(crate) reply: Reply,
    /// Or why the server refused to wait for what it had run already.
    pub(crate) confirmed: Result<bool, NotDurable>,
}

impl DurablePath {
    /// Sends one call over the lane and waits for its acknowledgement.
    pub(crate) async fn call(
        &self,
        fenced: &Fenced,
        cmd: Cmd,
        durability: Durability,
        within: Duration,
    ) -> Result<DurableReply, Error> {
        let lane = self.lane(fenced).await?;
        if durability == Durability::Fsynced {
            self.check_able(lane.connection()).await?;
        }
        let Some(wait) = durability.wait(within) else {
            let reply = fenced.connection().command(cmd).await;
            let reply = reply.map_err(|error| Error::of_wire(None, error))?;
            return Ok(DurableReply { reply, confirmed: Ok(true) });
        };
        let pipeline: Pipeline = [cmd].into_iter().collect();
        let Durable { mut replies, acknowledged } =
            lane.call(pipeline, wait).await.map_err(|error| Error::of_wire(None, error))?;
        let reply = replies.pop().unwrap_or(Reply::Nil);
        let confirmed = match acknowledged {
            Ok(acknowledged) => Ok(durability.reached(acknowledged)),
            // The call itself was refused: nothing was written that could be waited for.
            Err(_) if reply.as_error().is_some() => Ok(false),
            Err(error) => Err(why_not(&error)),
        };
        Ok(DurableReply { reply, confirmed })
    }

    /// Whether the server can sync: asked once per connection.
    pub(crate) async fn check(&self, fenced: &Fenced) -> Result<(), Error> {
        self.check_able(self.lane(fenced).await?.connection()).await
    }

    pub(crate) async fn close(&self) {
        if let Some(lane) = self.lane.get() {
            lane.connection().close().await;
        }
    }

    async fn lane(&self, fenced: &Fenced) -> Result<&DurableLane, Error> {
        let open = || async { fenced.durable_lane().await };
        self.lane.get_or_try_init(open).await.map_err(|error| Error::of_wire(None, error))
    }

    /// Asks the server whether it syncs at all, once per connection. What it doesn't let us read
    /// is taken as able: the wait itself has the last word.
    async fn check_able(&self, connection: &Connection) -> Result<(), Error> {
        let connects = || connection.counters().reconnects + 1;
        if self.able_at.load(Ordering::Relaxed) == connects() {
            return Ok(());
        }
        let _asking = self.asking.lock().await;
        let connects = connects();
        if self.able_at.load(Ordering::Relaxed) == connects {
            return Ok(());
        }
        let mut asked = Pipeline::new();
        asked.push(Cmd::new("INFO").arg("persistence"));
        asked.push(Cmd::new("CONFIG").arg("GET").arg("appendfsync"));
        let replies =
            connection.pipeline(asked).await.map_err(|error| Error::of_wire(None, error))?;
        if let Some(reason) = unable(&replies) {
            return Err(Error::NotDurable { id: None, reason, written: false });
        }
        self.able_at.store(connects, Ordering::Relaxed);
        Ok(())
    }
}

/// What `INFO persistence` and `CONFIG GET appendfsync` tell against syncing.
fn unable(replies: &[Reply]) -> Option<NotDurable> {
    let info = replies.first().and_then(Reply::as_bytes).map(|info| String::from_utf8_lossy(info));
    if info.is_some_and(|info| info.lines().any(|line| line.trim() == "aof_enabled:0")) {
        return Some(NotDurable::NoAppendOnlyFile);
    }
    let policy = match replies.get(1) {
        Some(Reply::Map(pairs)) => pairs.first().map(|(_, policy)| policy),
        other => other.and_then(Reply::as_array).and_then(|pair| pair.get(1)),
    };
    let never = policy.and_then(Reply::as_bytes).is_some_and(|policy| policy.as_ref() == b"no");
    never.then_some(NotDurable::NeverSynced)
}

/// Reads the server's refusal to wait: a user who may not wait is as one who can't.
fn why_not(error: &ServerError) -> NotDurable {
    if error.is("NOPERM") || error.message().contains("unknown command") {
        NotDurable::NoWait
    } else {
        NotDurable::NoAppendOnlyFile
    }
}
