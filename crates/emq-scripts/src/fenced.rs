//! A connection that has passed the fence.

use std::fmt;
use std::sync::Arc;

use emq_keys::QueueKeys;
use emq_wire::{BlockingLane, Cmd, Config, Connection, DurableLane, Pipeline, Reply, WireError};
use tokio::sync::broadcast;

use crate::bundle::Bundle;
use crate::call::ScriptCall;
use crate::calls::{NodeLease, NodeLeased};
use crate::fence::{Duty, Engine, Fence, FenceEvent, FenceFailure};
use crate::name::ScriptName;
use crate::refusal::CallError;

/// What a caller may ask of the fence.
#[derive(Clone, Debug)]
#[must_use]
pub struct FenceOptions {
    allow_compatible: bool,
    bundle: Arc<Bundle>,
}

impl Default for FenceOptions {
    /// Valkey only, and the bundle that was built in.
    fn default() -> Self {
        Self { allow_compatible: false, bundle: Bundle::embedded() }
    }
}

impl FenceOptions {
    /// Lets in a server that speaks Valkey's language too (Redis 7.0 or newer). A verb that such a
    /// server lacks is refused by type.
    pub fn allow_compatible(mut self, yes: bool) -> Self {
        self.allow_compatible = yes;
        self
    }

    /// Another bundle than the one built in.
    #[doc(hidden)]
    pub fn bundle(mut self, bundle: Arc<Bundle>) -> Self {
        self.bundle = bundle;
        self
    }
}

/// A connection to a server that speaks this wire version. Clones share it.
///
/// The fence stands again on every socket that replaces a lost one. When it refuses there, the
/// connection is over: each later call answers [`CallError::Wire`] with the same reason, which
/// [`CallError::fence`] finds.
#[derive(Clone)]
pub struct Fenced {
    connection: Connection,
    fence: Arc<Fence>,
}

impl Fenced {
    /// Connects and passes the fence.
    ///
    /// # Errors
    /// [`FenceFailure::Fence`] when the server answered and is the wrong one;
    /// [`FenceFailure::Wire`] when it wasn't reached or isn't ready.
    pub async fn connect(config: Config, options: FenceOptions) -> Result<Fenced, FenceFailure> {
        let fence = Fence::new(options.bundle, options.allow_compatible);
        let duty = Arc::new(Duty::Shared(Arc::clone(&fence)));
        let connection = Connection::connect_with(config, duty).await?;
        Ok(Fenced { connection, fence })
    }

    /// Makes one call on a queue.
    ///
    /// # Errors
    /// See [`CallError`]. After [`WireError::Disconnected`] the script may have run.
    pub async fn call<C: ScriptCall>(
        &self,
        keys: &QueueKeys,
        call: &C,
    ) -> Result<C::Reply, CallError> {
        call.decode(self.connection.command(self.command(keys, call)).await?)
    }

    /// Makes several calls on a queue as one submission. Each has its own outcome, in order.
    ///
    /// # Errors
    /// When the submission as a whole has no reply.
    pub async fn call_all<C: ScriptCall>(
        &self,
        keys: &QueueKeys,
        calls: &[C],
    ) -> Result<Vec<Result<C::Reply, CallError>>, CallError> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let pipeline: Pipeline = calls.iter().map(|call| self.command(keys, call)).collect();
        let replies = self.connection.pipeline(pipeline).await?;
        Ok(calls.iter().zip(replies).map(|(call, reply)| call.decode(reply)).collect())
    }

    /// The command of a call, for a lane of the caller's own; [`ScriptCall::decode`] reads the
    /// reply.
    #[must_use]
    pub fn command<C: ScriptCall>(&self, keys: &QueueKeys, call: &C) -> Cmd {
        call.encode(self.bundle().script(C::SCRIPT), keys)
    }

    /// Takes or renews a minting node.
    ///
    /// # Errors
    /// Refused with [`crate::RefusalClass::State`] when there is none to have; see [`CallError`].
    pub async fn node_lease(&self, call: &NodeLease<'_>) -> Result<NodeLeased, CallError> {
        let cmd = call.encode(self.bundle().script(ScriptName::NodeLease));
        let reply: Reply = self.connection.command(cmd).await?;
        call.decode(reply)
    }

    /// The shared connection, for plain reads.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// A connection of one's own to park on, behind the same fence.
    ///
    /// # Errors
    /// As [`Fenced::connect`]; one attempt is made.
    pub async fn blocking_lane(&self) -> Result<BlockingLane, WireError> {
        BlockingLane::connect_with(self.connection.config().clone(), self.lane()).await
    }

    /// A connection of one's own for acknowledged writes, behind the same fence.
    ///
    /// # Errors
    /// As [`Fenced::connect`].
    pub async fn durable_lane(&self) -> Result<DurableLane, WireError> {
        DurableLane::connect_with(self.connection.config().clone(), self.lane()).await
    }

    /// The scripts.
    #[must_use]
    pub fn bundle(&self) -> &Bundle {
        self.fence.bundle()
    }

    /// The server, as the last passage saw it.
    ///
    /// # Panics
    /// Never: a value of this type exists only after a passage.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.fence.seen().expect("the fence was passed").engine
    }

    /// The server's clock minus ours in milliseconds, as measured at the last passage; off by half
    /// a round trip at most. It has no effect on leases and delays, which are all the server's.
    #[must_use]
    pub fn clock_skew_ms(&self) -> Option<i64> {
        self.fence.seen().map(|seen| seen.clock_skew_ms)
    }

    /// What the fence sees from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<FenceEvent> {
        self.fence.events()
    }

    fn lane(&self) -> Arc<Duty> {
        Arc::new(Duty::Lane(Arc::clone(&self.fence)))
    }
}

impl fmt::Debug for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fenced").field("connection", &self.connection).finish_non_exhaustive()
    }
}
