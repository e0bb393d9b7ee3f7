//! Writes that are acknowledged as fsynced or replicated.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::blocking::{GRACE, park};
use crate::codec::{Cmd, Encoded, Pipeline, Reply, ServerError};
use crate::config::Config;
use crate::connection::{Bound, Connection, Handshake, NoHandshake};
use crate::error::WireError;

/// Room for the wait command itself beside the calls of a group.
const WAIT_BYTES: usize = 128;
/// A group is closed at this many bytes, so that one write and one wait stay bounded.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// What a durable call waits for, and how long at most. The bound is kept between a millisecond and
/// the configured heartbeat. Calls that share a wait wait for the longest of their bounds.
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
        // Never zero, which would be for ever.
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

    fn within(mut self, heartbeat: Duration) -> Self {
        let (Self::Fsynced { timeout } | Self::Replicated { timeout, .. }) = &mut self;
        *timeout = park(*timeout, heartbeat);
        self
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
///
/// The bounds of the configuration hold for all calls that aren't answered yet, queued ones
/// included.
#[derive(Clone, Debug)]
pub struct DurableLane {
    calls: mpsc::UnboundedSender<Call>,
    connection: Connection,
    bounds: Arc<Bounds>,
}

#[derive(Debug)]
struct Bounds {
    commands: Bound,
    bytes: Bound,
}

struct Call {
    encoded: Encoded,
    wait: DurableWait,
    caller: oneshot::Sender<Result<Durable, WireError>>,
    held: Held,
}

/// The room of a call, which goes back when the call is answered or forgotten.
#[derive(Debug)]
struct Held {
    bounds: Arc<Bounds>,
    commands: usize,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.bounds.commands.give(self.commands);
        self.bounds.bytes.give(self.bytes);
    }
}

impl Call {
    fn answer(self, outcome: Result<Durable, WireError>) {
        // First the room: a caller that calls again at once must find it.
        drop(self.held);
        let _ = self.caller.send(outcome);
    }
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
        config.validate()?;
        let bounds = Bounds {
            commands: Bound::new(config.max_in_flight, "commands"),
            bytes: Bound::new(config.max_queued_bytes, "queued bytes"),
        };
        let connection = Connection::connect_with(parkable(config), handshake).await?;
        let (calls, inbox) = mpsc::unbounded_channel();
        tokio::spawn(serve(connection.clone(), inbox));
        Ok(Self { calls, connection, bounds: Arc::new(bounds) })
    }

    /// Runs the calls and waits for the acknowledgement, sharing it with whoever waits too.
    ///
    /// # Errors
    /// See [`WireError`]. After `Disconnected` the calls may have run: send again only what is
    /// idempotent.
    pub async fn call(&self, calls: Pipeline, wait: DurableWait) -> Result<Durable, WireError> {
        let encoded = calls.encode();
        encoded.check()?;
        let held = self.admit(encoded.replies, encoded.bytes.len()).await?;
        let (caller, outcome) = oneshot::channel();
        let call = Call { encoded, wait, caller, held };
        self.calls.send(call).map_err(|_| WireError::Closed)?;
        outcome.await.unwrap_or(Err(WireError::Closed))
    }

    async fn admit(&self, commands: usize, bytes: usize) -> Result<Held, WireError> {
        let overload = self.connection.config().overload;
        let both = async {
            let first = self.bounds.commands.take(commands, overload).await?;
            self.bounds.bytes.take(bytes, overload).await?.keep();
            first.keep();
            Ok(Held { bounds: Arc::clone(&self.bounds), commands, bytes })
        };
        both.await.inspect_err(|_| self.connection.count_overload())
    }

    /// The lane's connection, for its state and its counters.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// What a connection is told that a wait parks for up to a heartbeat, and a little late: a probe
/// may stand behind it, and so may a caller's bound. A whole group and its wait fit in flight.
fn parkable(mut config: Config) -> Config {
    let park = config.heartbeat.saturating_add(GRACE);
    config.heartbeat_timeout = config.heartbeat_timeout.saturating_add(park);
    config.response_timeout = config.response_timeout.map(|bound| bound.saturating_add(park));
    config.max_in_flight = config.max_in_flight.saturating_add(1);
    config.max_queued_bytes = config.max_queued_bytes.saturating_add(WAIT_BYTES);
    config
}

/// One group after the other: the first caller's wait decides who may join.
async fn serve(connection: Connection, mut inbox: mpsc::UnboundedReceiver<Call>) {
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
    let wait = longest.within(connection.config().heartbeat).command();
    let joined = Encoded::join(group.iter().map(|call| &call.encoded));
    let outcome = connection.submit_reloading(joined, Some(&wait)).await;
    let acknowledged = outcome
        .and_then(|outcome| Ok((outcome.replies.into_iter(), least_acknowledged(outcome.tails)?)));
    match acknowledged {
        Err(error) => group.into_iter().for_each(|call| call.answer(Err(error.clone()))),
        Ok((mut replies, acknowledged)) => {
            for call in group {
                let replies = replies.by_ref().take(call.encoded.replies).collect();
                call.answer(Ok(Durable { replies, acknowledged: acknowledged.clone() }));
            }
        }
    }
}

/// What holds for all calls of a group. One that was sent again is spoken for by the last wait
/// alone, and the others, should the connection have been made again between, by the first.
fn least_acknowledged(waits: Vec<Reply>) -> Result<Result<Acknowledged, ServerError>, WireError> {
    let mut least: Option<Acknowledged> = None;
    for reply in waits {
        let one = match reply {
            Reply::Error(error) => return Ok(Err(error)),
            Reply::Int(replicas) => Acknowledged { local: 0, replicas },
            Reply::Array(pair) if pair.len() == 2 => Acknowledged {
                local: pair[0].as_int().unwrap_or(0),
                replicas: pair[1].as_int().unwrap_or(0),
            },
            other => {
                let found = format!("{other:?}").chars().take(200).collect();
                return Err(WireError::Unexpected { step: "the wait", found });
            }
        };
        let so_far = least.unwrap_or(one);
        least = Some(Acknowledged {
            local: so_far.local.min(one.local),
            replicas: so_far.replicas.min(one.replicas),
        });
    }
    least.map(Ok).ok_or(WireError::Unexpected { step: "the wait", found: "nothing".into() })
}
