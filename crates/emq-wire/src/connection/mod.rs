//! A connection that many tasks share: cheap handles in front, one task that owns the socket.

mod backoff;
mod boot;
mod bound;
mod core;
mod driver;
mod line;
mod link;
mod reload;
mod request;
mod serve;
mod socket;

use std::fmt;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use self::backoff::pause;
pub(crate) use self::boot::{BootError, NoHandshake, boot};
pub use self::boot::{Handshake, HandshakeError, HandshakeFuture};
pub(crate) use self::bound::Bound;
use self::core::{Core, Entry};
use self::driver::Driver;
pub use self::link::BootLink;
use self::reload::Loader;
use self::request::{Request, Waiter};
use crate::codec::{Cmd, Encoded, Pipeline, Reply};
use crate::config::Config;
use crate::counters::Counters;
use crate::error::WireError;
use crate::script::Script;

/// Where a connection is in its life.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionState {
    /// Coming up for the first time.
    Connecting,
    /// In service.
    Ready,
    /// Lost, and coming up again.
    Reconnecting {
        /// Which attempt is next or under way, 0 at the very loss. A connection that is lost again
        /// before it held for a while counts on.
        attempt: u32,
    },
    /// Refused for good by the server or by the handshake: every call answers this error.
    Refused(WireError),
    /// Closed by its owner.
    Closed,
}

/// A pipelined connection. Clones share the socket; what many tasks submit at once leaves in one
/// write, and each gets its own replies.
///
/// ```no_run
/// # async fn demo() -> Result<(), emq_wire::WireError> {
/// use emq_wire::{Cmd, Connection};
/// let connection = Connection::connect("valkey://127.0.0.1:6379".parse()?).await?;
/// let reply = connection.command(Cmd::new("INCR").arg("n")).await?;
/// assert_eq!(reply.as_int(), Some(1));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Connection(Arc<Handle>);

struct Handle {
    core: Arc<Core>,
    requests: mpsc::UnboundedSender<Request>,
    loader: Loader,
}

impl Connection {
    /// Connects without a handshake.
    ///
    /// # Errors
    /// As [`Connection::connect_with`].
    pub async fn connect(config: Config) -> Result<Self, WireError> {
        Self::connect_with(config, Arc::new(NoHandshake)).await
    }

    /// Connects and runs `handshake` on this and on every later socket before anything else.
    ///
    /// # Errors
    /// A misconfiguration or a refusal at once; [`WireError::Connect`] or the last passing
    /// refusal once the configured initial wait is over. Must run inside a tokio runtime.
    pub async fn connect_with(
        config: Config,
        handshake: Arc<dyn Handshake>,
    ) -> Result<Self, WireError> {
        config.validate()?;
        let wait = config.reconnect.initial_wait;
        let core = Arc::new(Core::new(config));
        let (requests, inbox) = mpsc::unbounded_channel();
        tokio::spawn(Driver::new(Arc::clone(&core), handshake, inbox).run());
        let connection = Self(Arc::new(Handle { core, requests, loader: Loader::default() }));
        connection.wait_ready(wait.max(connection.config().connect_timeout)).await.map_err(
            |error| match error {
                WireError::NotReady => connection.last_error().unwrap_or(WireError::NotReady),
                other => other,
            },
        )?;
        Ok(connection)
    }

    /// Sends one command. A server error is a value, [`Reply::Error`]; a call made with
    /// [`Script::call`] loads its script when the server doesn't know it.
    ///
    /// # Errors
    /// See [`WireError`]; nothing is ever sent again on its own after a loss.
    pub async fn command(&self, cmd: Cmd) -> Result<Reply, WireError> {
        let encoded = cmd.encode();
        encoded.check()?;
        if encoded.scripts.is_empty() {
            return self.submit_one(encoded, Entry::Caller).await;
        }
        self.call_script(encoded).await
    }

    /// Sends several commands as one submission and answers their replies in order. Of scripts,
    /// only the calls that the server didn't know are loaded and sent again.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn pipeline(&self, pipeline: Pipeline) -> Result<Vec<Reply>, WireError> {
        let encoded = pipeline.encode();
        encoded.check()?;
        Ok(self.submit_reloading(encoded, None).await?.replies)
    }

    /// Calls a script by its digest.
    ///
    /// # Errors
    /// See [`WireError`]; [`WireError::ScriptLost`] when the server forgets it at once again.
    pub async fn eval<K, A>(
        &self,
        script: &Script,
        keys: &[K],
        args: &[A],
    ) -> Result<Reply, WireError>
    where
        K: AsRef<[u8]>,
        A: AsRef<[u8]>,
    {
        let mut cmd = script.call(keys.len(), 64);
        keys.iter().for_each(|key| cmd.push(key));
        args.iter().for_each(|arg| cmd.push(arg));
        self.command(cmd).await
    }

    /// Ends the parked call of another connection early; `false` when it wasn't parked.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn unblock(&self, client_id: i64) -> Result<bool, WireError> {
        let cmd = Cmd::new("CLIENT").arg("UNBLOCK").int(client_id);
        match self.command(cmd).await? {
            Reply::Int(n) => Ok(n == 1),
            Reply::Error(source) => Err(WireError::Server { step: "CLIENT UNBLOCK", source }),
            other => {
                Err(WireError::Unexpected { step: "CLIENT UNBLOCK", found: format!("{other:?}") })
            }
        }
    }

    /// Watches where the connection is in its life.
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.0.core.state.subscribe()
    }

    /// Whether the connection is in service right now.
    pub fn is_ready(&self) -> bool {
        self.0.core.ready.load(Ordering::Acquire)
    }

    /// Reads the counters.
    pub fn counters(&self) -> Counters {
        self.0.core.tally.read()
    }

    /// What the connection was told.
    pub fn config(&self) -> &Config {
        &self.0.core.config
    }

    /// How many replies are awaited.
    pub fn in_flight(&self) -> usize {
        self.0.core.commands.used()
    }

    /// Takes the reader of push frames; `None` when somebody has it already. Frames that find
    /// its room full are counted and dropped.
    pub fn pushes(&self) -> Option<mpsc::Receiver<Reply>> {
        self.0.core.push_reader.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops accepting, flushes what was accepted and waits for its replies, no longer than a
    /// silent peer is borne with: a heartbeat and its answer's bound. Who still waits then, and
    /// whoever calls later, is answered [`WireError::Closed`].
    pub async fn close(&self) {
        let mut state = self.state();
        if self.0.requests.send(Request::Close).is_err() {
            return;
        }
        let ended = state.wait_for(ConnectionState::is_terminal);
        let _ = ended.await;
    }
}

impl ConnectionState {
    /// Whether nothing follows.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Closed)
    }
}

/// Submission: the bounds, the queue, the wait.
impl Connection {
    async fn submit_one(&self, encoded: Encoded, entry: Entry) -> Result<Reply, WireError> {
        let (caller, reply) = oneshot::channel();
        self.enqueue(encoded, Waiter::One(caller), entry).await?;
        self.bounded(reply).await
    }

    async fn submit_many(&self, encoded: Encoded, entry: Entry) -> Result<Vec<Reply>, WireError> {
        if encoded.replies == 0 {
            return Ok(Vec::new());
        }
        let (caller, replies) = oneshot::channel();
        self.enqueue(encoded, Waiter::Many(caller), entry).await?;
        self.bounded(replies).await
    }

    async fn enqueue(
        &self,
        encoded: Encoded,
        waiter: Waiter,
        entry: Entry,
    ) -> Result<(), WireError> {
        let core = &self.0.core;
        if !self.is_ready() {
            self.wait_ready(core.config.reconnect.call_wait).await?;
        }
        let Encoded { bytes, replies, scripts, at_once, .. } = encoded;
        core.admit(replies, bytes.len(), entry).await?;
        self.0.requests.send(Request::Call { bytes, replies, waiter, at_once }).map_err(
            |refused| {
                if let Request::Call { bytes, replies, .. } = refused.0 {
                    core.commands.give(replies);
                    core.bytes.give(bytes.len());
                }
                self.terminal_error()
            },
        )?;
        core.tally.commands.add(replies);
        if replies > 1 {
            core.tally.pipelines.add(1);
        }
        if !scripts.is_empty() {
            core.tally.evalsha_calls.add(scripts.len());
        }
        Ok(())
    }

    pub(crate) fn count_overload(&self) {
        self.0.core.tally.overloads.add(1);
    }

    async fn bounded<T>(
        &self,
        reply: oneshot::Receiver<Result<T, WireError>>,
    ) -> Result<T, WireError> {
        let received = match self.0.core.config.response_timeout {
            None => reply.await,
            Some(after) => tokio::time::timeout(after, reply)
                .await
                .map_err(|_| WireError::Timeout { after })?,
        };
        // The driver answers before it drops a slot, unless its runtime is going down.
        received.unwrap_or(Err(WireError::Closed))
    }

    /// Waits for service, at most `bound`.
    async fn wait_ready(&self, bound: std::time::Duration) -> Result<(), WireError> {
        let mut state = self.state();
        let settled = |s: &ConnectionState| s.is_terminal() || matches!(s, ConnectionState::Ready);
        match tokio::time::timeout(bound, state.wait_for(settled)).await {
            Err(_) => Err(WireError::NotReady),
            Ok(reached) => match reached.as_deref() {
                Ok(ConnectionState::Ready) => Ok(()),
                Ok(ConnectionState::Refused(error)) => Err(error.clone()),
                _ => Err(WireError::Closed),
            },
        }
    }

    fn terminal_error(&self) -> WireError {
        match &*self.0.core.state.borrow() {
            ConnectionState::Refused(error) => error.clone(),
            _ => WireError::Closed,
        }
    }

    fn last_error(&self) -> Option<WireError> {
        self.0.core.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("address", &self.config().address().to_string())
            .field("state", &*self.0.core.state.borrow())
            .finish_non_exhaustive()
    }
}
