//! The settings of a bus.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use emq_keys::NodeId;
use emq_scripts::{FenceEvent, FenceOptions, Fenced};
use emq_wire::Config;
use tokio::sync::broadcast;

use super::mint::{Mint, keep_node};
use super::{Bus, BusEvent, Shared};
use crate::durability::DurablePath;
use crate::error::Error;
use crate::payload::PAYLOAD_CAP_DEFAULT;
use crate::queue::Gatherer;
use crate::ticket::Tickets;

/// The variable that fixes the node.
const NODE_VARIABLE: &str = "EMQ_NODE";
const NODE_LEASE_DEFAULT: Duration = Duration::from_secs(60);
const DURABLE_WITHIN_DEFAULT: Duration = Duration::from_secs(5);
/// How many events wait for a slow receiver before it misses the oldest.
const EVENTS: usize = 32;

/// The settings of a [`Bus`].
///
/// ```no_run
/// # async fn example() -> Result<(), emq_core::Error> {
/// use emq_core::Bus;
/// let bus = Bus::builder("valkey://127.0.0.1")?
///     .payload_cap(16 * 1024)
///     .configure(|config| config.max_in_flight(1_000))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct BusBuilder {
    config: Config,
    fence: FenceOptions,
    node: Option<NodeId>,
    node_lease: Duration,
    payload_cap: usize,
    durable_within: Duration,
}

impl BusBuilder {
    /// The defaults for a URL.
    ///
    /// # Errors
    /// [`Error::Config`] for a URL of no use.
    pub fn from_url(url: &str) -> Result<BusBuilder, Error> {
        Ok(BusBuilder::from_config(url.parse()?))
    }

    /// The defaults for a connection configured elsewhere.
    pub fn from_config(config: Config) -> BusBuilder {
        BusBuilder {
            config,
            fence: FenceOptions::default(),
            node: None,
            node_lease: NODE_LEASE_DEFAULT,
            payload_cap: PAYLOAD_CAP_DEFAULT,
            durable_within: DURABLE_WITHIN_DEFAULT,
        }
    }

    /// Changes the connection's configuration.
    pub fn configure(mut self, change: impl FnOnce(Config) -> Config) -> Self {
        self.config = change(self.config);
        self
    }

    /// Lets in a server that speaks Valkey's language too; see
    /// [`FenceOptions::allow_compatible`].
    pub fn allow_compatible(mut self, yes: bool) -> Self {
        self.fence = self.fence.allow_compatible(yes);
        self
    }

    /// The fence's options whole, which is how tests bring a bundle of their own.
    #[doc(hidden)]
    pub fn fence(mut self, options: FenceOptions) -> Self {
        self.fence = options;
        self
    }

    /// Mints on this node, which the caller holds alone, instead of leasing one. The environment
    /// variable `EMQ_NODE` does the same; what is said here goes before it.
    pub fn node(mut self, node: NodeId) -> Self {
        self.node = Some(node);
        self
    }

    /// How long a node is leased for (60 s unless said); it is renewed every quarter of that.
    pub fn node_lease(mut self, lease: Duration) -> Self {
        self.node_lease = lease;
        self
    }

    /// The largest payload that is sent, in bytes (64 KiB unless said).
    pub fn payload_cap(mut self, bytes: usize) -> Self {
        self.payload_cap = bytes;
        self
    }

    /// How long a durable enqueue waits for its acknowledgement (5 s unless said), at most the
    /// connection's heartbeat.
    pub fn durable_within(mut self, timeout: Duration) -> Self {
        self.durable_within = timeout;
        self
    }

    /// Connects and passes the fence. Must run inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Node`] for an `EMQ_NODE` of no use; else as [`Bus::connect`].
    pub async fn connect(self) -> Result<Bus, Error> {
        let node = match self.node {
            Some(node) => Some(node),
            None => node_of_environment()?,
        };
        let fenced = Fenced::connect(self.config, self.fence).await?;
        let (events, _) = broadcast::channel(EVENTS);
        let mint = match node {
            Some(node) => Mint::fixed(node),
            None => Mint::leased(self.node_lease, events.clone())?,
        };
        let heard = fenced.events();
        let shared = Arc::new(Shared {
            fenced,
            mint,
            durable: DurablePath::default(),
            durable_within: self.durable_within,
            payload_cap: self.payload_cap,
            tickets: Tickets::fresh(),
            gatherer: Gatherer::default(),
            events: events.clone(),
        });
        tokio::spawn(keep_node(Arc::downgrade(&shared)));
        tokio::spawn(tell(heard, events, Arc::downgrade(&shared)));
        Ok(Bus(shared))
    }
}

fn node_of_environment() -> Result<Option<NodeId>, Error> {
    match env::var(NODE_VARIABLE) {
        Ok(text) if !text.trim().is_empty() => Ok(Some(text.trim().parse()?)),
        _ => Ok(None),
    }
}

/// Passes the fence's events on, for as long as the bus lives.
async fn tell(
    mut heard: broadcast::Receiver<FenceEvent>,
    events: broadcast::Sender<BusEvent>,
    shared: std::sync::Weak<Shared>,
) {
    loop {
        match heard.recv().await {
            Ok(FenceEvent::KeyspaceReset { .. }) => {
                if let Some(shared) = shared.upgrade() {
                    shared.mint.doubt();
                }
                // Nobody may be listening.
                let _ = events.send(BusEvent::KeyspaceReset);
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}
