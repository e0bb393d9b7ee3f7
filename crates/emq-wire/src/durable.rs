//! Writes that are acknowledged as fsynced or replicated.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::codec::{Cmd, Encoded, Pipeline, Reply, ServerError};
use crate::config::Config;
use crate::connection::{Connection, Handshake, NoHandshake};
use crate::error::WireError;

/// How many calls may wait for their turn; the next one waits for room.
const QUEUE: usize = 16 * 1024;
/// A group is closed at this many bytes, so that one write and one wait stay bounded.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// What a durable call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableWait {
    /// The server's own append-only file is fsynced up to this write (`WAITAOF 1 0`).
    Fsynced {
        /// The bound of the wait.
        timeout: Duration,
    },
    /// This many replicas have the write (`WAIT n`).
    Replicated {
        /// How many.
        replicas: u32,
        /// The bound of the wait.
        timeout: Duration,
    },
}

/// What came of a durable call.
#[derive(Clone, Debug)]
pub struct Durable {
    /// The replies of the calls, in order.
    pub replies: Vec<Reply>,
    /// How many acknowledgements the wait saw, or the server's refusal to wait (no append-only
    /// file, say). Fewer than asked means: not confirmed within the bound.
    pub acknowledged: Result<Acknowledged, ServerError>,
}

/// The acknowledgements that a wait saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Local fsyncs: 0 or 1.
    pub local: i64,
    /// Replicas.
    pub replicas: i64,
}

impl DurableWait {
    fn command(self) -> Cmd {
        let millis = |t: Duration| i64::try_from(t.as_millis()).unwrap_or(i64::MAX).max(1);
        match self {
            Self::Fsynced { timeout } => Cmd::new("WAITAOF").int(1).int(0).int(millis(timeout)),
            Self::Replicated { replicas, timeout } => {
                Cmd::new("WAIT").int(i64::from(replicas)).int(millis(timeout))
            }
        }
    }

    fn timeout(self) -> Duration {
        match self {
            Self::Fsynced { timeout } | Self::Replicated { timeout, .. } => timeout,
        }
    }

    /// Whether one wait serves both calls.
    fn joins(self, other: Self) -> bool {
        match (self, other) {
            (Self::Fsynced { .. }, Self::Fsynced { .. }) => true,
            (Self::Replicated { replicas: a, .. }, Self::Replicated { replicas: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// A connection for acknowledged writes. `WAITAOF` and `WAIT` speak only of the writes of their
/// own connection, and park it: so the calls that wait for one share it. What queues up while a
/// wait is under way goes out together with the next one.
#[derive(Clone, Debug)]
pub struct DurableLane {
    calls: mpsc::Sender<Call>,
    connection: Connection,
}

struct Call {
    encoded: Encoded,
    wait: DurableWait,
    caller: oneshot::Sender<Result<Durable, WireError>>,
}

impl DurableLane {
    /// Connects a lane without a handshake.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn connect(config: Config) -> Result<Self, WireError> {
        Self::connect_with(config, Arc::new(NoHandshake)).await
    }

    /// Connects a lane; `handshake` runs on each of its sockets.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn connect_with(
        config: Config,
        handshake: Arc<dyn Handshake>,
    ) -> Result<Self, WireError> {
        let connection = Connection::connect_with(config, handshake).await?;
        let (calls, inbox) = mpsc::channel(QUEUE);
        tokio::spawn(serve(connection.clone(), inbox));
        Ok(Self { calls, connection })
    }

    /// Runs the calls and waits for the acknowledgement, sharing it with whoever waits too.
    ///
    /// # Errors
    /// See [`WireError`]. After `Disconnected` the calls may have run: send again only what is
    /// idempotent.
    pub async fn call(&self, calls: Pipeline, wait: DurableWait) -> Result<Durable, WireError> {
        let (caller, outcome) = oneshot::channel();
        let encoded = calls.encode();
        encoded.check()?;
        let call = Call { encoded, wait, caller };
        self.calls.send(call).await.map_err(|_| WireError::Closed)?;
        outcome.await.unwrap_or(Err(WireError::Closed))
    }

    /// The lane's connection, for its state and its counters.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// One group after the other: the first caller's wait decides who may join.
async fn serve(connection: Connection, mut inbox: mpsc::Receiver<Call>) {
    let mut held: Option<Call> = None;
    loop {
        let first = match held.take() {
            Some(call) => call,
            None => match inbox.recv().await {
                Some(call) => call,
                None => return connection.close().await,
            },
        };
        let mut bytes = first.encoded.bytes.len();
        let mut group = vec![first];
        while bytes < GROUP_BYTES {
            match inbox.try_recv() {
                Ok(call) if call.wait.joins(group[0].wait) => {
                    bytes += call.encoded.bytes.len();
                    group.push(call);
                }
                Ok(call) => {
                    held = Some(call);
                    break;
                }
                Err(_) => break,
            }
        }
        run(&connection, group).await;
    }
}

async fn run(connection: &Connection, group: Vec<Call>) {
    let Some(longest) = group.iter().map(|call| call.wait).max_by_key(|wait| wait.timeout()) else {
        return;
    };
    // The park must end before the heartbeat takes the peer for dead.
    let config = connection.config();
    let wait = match longest {
        DurableWait::Fsynced { timeout } => {
            DurableWait::Fsynced { timeout: timeout.min(config.heartbeat) }
        }
        DurableWait::Replicated { replicas, timeout } => {
            DurableWait::Replicated { replicas, timeout: timeout.min(config.heartbeat) }
        }
    };
    let joined = Encoded::join(group.iter().map(|call| &call.encoded));
    match connection.submit_reloading(joined, Some(&wait.command())).await {
        Err(error) => group.into_iter().for_each(|call| drop(call.caller.send(Err(error.clone())))),
        Ok(mut replies) => {
            let acknowledged = read_acknowledgement(replies.pop());
            let mut replies = replies.into_iter();
            for call in group {
                let own = replies.by_ref().take(call.encoded.replies).collect();
                let durable =
                    acknowledged.clone().map(|acknowledged| Durable { replies: own, acknowledged });
                let _ = call.caller.send(durable);
            }
        }
    }
}

fn read_acknowledgement(
    reply: Option<Reply>,
) -> Result<Result<Acknowledged, ServerError>, WireError> {
    match reply {
        Some(Reply::Error(error)) => Ok(Err(error)),
        Some(Reply::Int(replicas)) => Ok(Ok(Acknowledged { local: 0, replicas })),
        Some(Reply::Array(pair)) if pair.len() == 2 => Ok(Ok(Acknowledged {
            local: pair[0].as_int().unwrap_or(0),
            replicas: pair[1].as_int().unwrap_or(0),
        })),
        other => Err(WireError::Unexpected { step: "WAITAOF", found: format!("{other:?}") }),
    }
}
