//! The bus: one fenced connection, the queues behind it, and the node that ids are minted on.

mod builder;
mod clock;
mod event;
mod mint;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use emq_keys::{BrandedId, Namespace, NodeId, QueueKeys, QueueName};
use emq_scripts::{Engine, Fenced};
use emq_wire::{ConnectionState, Counters};
use tokio::sync::{broadcast, watch};

pub use self::builder::BusBuilder;
pub use self::event::BusEvent;
use self::mint::Mint;
pub use self::mint::MintingError;
use crate::durability::DurablePath;
use crate::error::Error;
use crate::queue::{Gatherer, Queue};
use crate::ticket::Tickets;

/// A connection to a deployment. Cheap to clone; clones share everything.
///
/// ```no_run
/// # async fn example() -> Result<(), emq_core::Error> {
/// use emq_core::{Bus, Enqueued};
///
/// let bus = Bus::connect("valkey://127.0.0.1").await?;
/// let orders = bus.queue("orders")?;
/// match orders.enqueue(r#"{"order":"ORD0NgWEfAEJfs"}"#).await? {
///     Enqueued::Admitted(id) => println!("{id} waits"),
///     other => println!("{other:?}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Bus(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) fenced: Fenced,
    pub(crate) mint: Mint,
    pub(crate) durable: DurablePath,
    pub(crate) durable_within: Duration,
    pub(crate) payload_cap: usize,
    pub(crate) tickets: Tickets,
    pub(crate) gatherer: Gatherer,
    events: broadcast::Sender<BusEvent>,
}

impl Bus {
    /// Connects with the defaults: see [`BusBuilder`].
    ///
    /// # Errors
    /// [`Error::Config`] for a URL of no use, [`Error::Refused`] when the fence refuses the
    /// server, [`Error::Disconnected`] when it isn't reached.
    pub async fn connect(url: &str) -> Result<Bus, Error> {
        BusBuilder::from_url(url)?.connect().await
    }

    /// Starts from a URL and the defaults.
    ///
    /// # Errors
    /// [`Error::Config`] for a URL of no use.
    pub fn builder(url: &str) -> Result<BusBuilder, Error> {
        BusBuilder::from_url(url)
    }

    /// A queue by name. Nothing is sent: a queue is there as soon as a job is.
    ///
    /// # Errors
    /// [`Error::QueueName`] says what is wrong with the name.
    pub fn queue(&self, name: impl AsRef<str>) -> Result<Queue, Error> {
        Ok(Queue::new(self.clone(), QueueKeys::new(QueueName::new(name)?)))
    }

    /// A fresh id. The first call takes a node for this bus; see [`BusBuilder::node`].
    ///
    /// # Errors
    /// [`Error::Minting`] when no node is held and none can be had.
    pub async fn mint(&self, namespace: Namespace) -> Result<BrandedId, Error> {
        Ok(self.0.mint.mint(&self.0.fenced, namespace).await?)
    }

    /// A fresh job's id: what an enqueue without an id of its own mints.
    ///
    /// # Errors
    /// As [`Bus::mint`].
    pub async fn mint_job(&self) -> Result<BrandedId, Error> {
        self.mint(Namespace::JOB).await
    }

    /// The node that this bus mints on; `None` before the first mint and after its lease lapsed.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        self.0.mint.node()
    }

    /// The server's clock minus ours in milliseconds, as measured at the last connect. It has no
    /// effect on leases, delays and due times: those are the server's.
    #[must_use]
    pub fn clock_skew(&self) -> Option<i64> {
        self.0.fenced.clock_skew_ms()
    }

    /// The server, as the last connect saw it.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.0.fenced.engine()
    }

    /// The largest payload that this bus sends, in bytes.
    #[must_use]
    pub fn payload_cap(&self) -> usize {
        self.0.payload_cap
    }

    /// What happens to the deployment and to this bus from now on. A slow receiver misses the
    /// oldest events; nothing grows.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<BusEvent> {
        self.0.events.subscribe()
    }

    /// Where the shared connection is in its life.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.0.fenced.connection().state()
    }

    /// What the shared connection has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.0.fenced.connection().counters()
    }

    /// The fenced connection, for calls that this layer has no verb for.
    #[must_use]
    pub fn fenced(&self) -> &Fenced {
        &self.0.fenced
    }

    /// Whether the server can promise [`Durability::Fsynced`](crate::Durability::Fsynced), before
    /// anything is enqueued.
    ///
    /// # Errors
    /// [`Error::NotDurable`] when it can't, and why; see [`Error`].
    pub async fn check_fsynced(&self) -> Result<(), Error> {
        self.0.durable.check(self.fenced()).await
    }

    /// Gives the node back, sends what was accepted and closes the connection. Stop the workers
    /// of this bus first.
    pub async fn close(&self) {
        self.0.mint.give_back(&self.0.fenced).await;
        self.0.durable.close().await;
        self.0.fenced.connection().close().await;
    }

    /// Refuses a payload over the cap.
    pub(crate) fn check_payload(&self, bytes: usize) -> Result<(), Error> {
        let limit = self.0.payload_cap;
        if bytes > limit { Err(Error::PayloadTooLarge { bytes, limit }) } else { Ok(()) }
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("connection", self.0.fenced.connection())
            .field("node", &self.node())
            .finish_non_exhaustive()
    }
}
