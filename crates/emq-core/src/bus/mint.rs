//! Minting on a node that this bus holds alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use emq_keys::{BrandedId, Minter, Namespace, NodeId};
use emq_scripts::{CallError, Fenced, NodeLease, RefusalClass};
use tokio::sync::{Mutex, broadcast};

use super::{BusEvent, Shared};
use crate::error::Error;
use crate::ticket::incarnation;

/// How long a node must have been free before another owner takes it.
const GRACE: Duration = Duration::from_secs(60);
/// A clock further off than this could repeat, on a node that was somebody else's, ids in use.
const SKEW_LIMIT: Duration = Duration::from_secs(30);
/// How long a polite return of the node may take.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(1);

/// Why no id was minted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MintingError {
    /// The lease of the bus' node is over and couldn't be taken again; another process may mint
    /// on that node by now.
    #[error("the lease of node {node} lapsed; it is taken again once the server is in reach")]
    Lapsed {
        /// The node.
        node: NodeId,
        /// Why it wasn't renewed.
        #[source]
        source: Box<CallError>,
    },
    /// The bus never had a node and got none.
    #[error("no node could be leased; once the server is in reach, mint again")]
    Unleased {
        /// Why.
        #[source]
        source: Box<CallError>,
    },
    /// Every node of the deployment is leased, or was until a moment ago.
    #[error("all 1024 nodes are leased; share buses, close idle ones, or fix nodes with EMQ_NODE")]
    NoNode,
    /// This machine's clock is too far from the server's.
    #[error(
        "the clock is {skew_ms} ms from the server's, which could repeat ids in use; \
         set the machine's clock, or fix a node with EMQ_NODE"
    )]
    Skew {
        /// The server's clock minus ours, in milliseconds.
        skew_ms: i64,
    },
    /// The clock is outside what an id can carry.
    #[error("the clock can't be minted by")]
    Clock(#[from] emq_keys::MintError),
}

impl MintingError {
    /// Whether the same mint may succeed later without anything being repaired by hand.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Lapsed { source, .. } | Self::Unleased { source } => source.is_retryable(),
            Self::NoNode => true,
            Self::Skew { .. } | Self::Clock(_) => false,
        }
    }
}

/// Mints on a fixed node or on a leased one.
pub(crate) enum Mint {
    Fixed(Minter),
    Leased(Leased),
}

/// A node that is leased from the deployment, taken at the first mint.
pub(crate) struct Leased {
    owner: String,
    lease: Duration,
    held: RwLock<Option<Arc<Held>>>,
    /// One taker at a time.
    taking: Mutex<()>,
    events: broadcast::Sender<BusEvent>,
}

/// A minter and the end of the lease that it mints under.
struct Held {
    minter: Minter,
    term: RwLock<Term>,
    /// The registry may have been wiped: renew before the next mint.
    doubted: AtomicBool,
}

/// A lease as it is known here. It counts from before its call was sent, so it ends here before
/// it does at the server. A machine that slept shows in the wall clock only.
#[derive(Clone, Copy)]
struct Term {
    from: Instant,
    from_wall: SystemTime,
    length: Duration,
}

impl Term {
    fn starting_now(lease: Duration) -> Term {
        let margin = lease / 10;
        Term { from: Instant::now(), from_wall: SystemTime::now(), length: lease - margin }
    }

    fn holds(&self) -> bool {
        let slept = self.from_wall.elapsed().is_ok_and(|passed| passed >= self.length);
        self.from.elapsed() < self.length && !slept
    }
}

impl Held {
    fn holds(&self) -> bool {
        !self.doubted.load(Ordering::Acquire)
            && self.term.read().unwrap_or_else(PoisonError::into_inner).holds()
    }

    fn renewed(&self, term: Term) {
        *self.term.write().unwrap_or_else(PoisonError::into_inner) = term;
        self.doubted.store(false, Ordering::Release);
    }
}

impl Mint {
    pub(crate) fn fixed(node: NodeId) -> Mint {
        Mint::Fixed(Minter::new(node))
    }

    pub(crate) fn leased(
        lease: Duration,
        events: broadcast::Sender<BusEvent>,
    ) -> Result<Mint, Error> {
        if lease < Duration::from_millis(100) || lease > Duration::from_secs(86_400) {
            return Err(Error::Setting { what: "node_lease", range: "100 ms to a day" });
        }
        Ok(Mint::Leased(Leased {
            owner: incarnation(),
            lease,
            held: RwLock::new(None),
            taking: Mutex::new(()),
            events,
        }))
    }

    pub(crate) async fn mint(
        &self,
        fenced: &Fenced,
        namespace: Namespace,
    ) -> Result<BrandedId, MintingError> {
        match self {
            Self::Fixed(minter) => Ok(minter.mint(namespace)?),
            Self::Leased(leased) => Ok(leased.held(fenced).await?.minter.mint(namespace)?),
        }
    }

    pub(crate) fn node(&self) -> Option<NodeId> {
        match self {
            Self::Fixed(minter) => Some(minter.node()),
            Self::Leased(leased) => {
                leased.now_held().filter(|held| held.holds()).map(|held| held.minter.node())
            }
        }
    }

    /// The registry may be gone: the next mint renews first.
    pub(crate) fn doubt(&self) {
        if let Self::Leased(leased) = self
            && let Some(held) = leased.now_held()
        {
            held.doubted.store(true, Ordering::Release);
        }
    }

    /// Ends the lease, so that the node is free as soon as may be. What fails ends by itself.
    pub(crate) async fn give_back(&self, fenced: &Fenced) {
        let Self::Leased(leased) = self else { return };
        let _taking = leased.taking.lock().await;
        let Some(held) = leased.forget() else { return };
        let lease = Duration::from_millis(1);
        let call = leased.call(lease, Some(held.minter.node()));
        let given = tokio::time::timeout(GIVE_BACK_WITHIN, fenced.node_lease(&call)).await;
        tracing::debug!(node = %held.minter.node(), given = matches!(given, Ok(Ok(_))), "node");
    }
}

impl Leased {
    fn now_held(&self) -> Option<Arc<Held>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn forget(&self) -> Option<Arc<Held>> {
        self.held.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn call(&self, lease: Duration, node: Option<NodeId>) -> NodeLease<'_> {
        NodeLease { owner: &self.owner, lease, grace: GRACE, node }
    }

    /// The minter, under a lease that holds now.
    async fn held(&self, fenced: &Fenced) -> Result<Arc<Held>, MintingError> {
        if let Some(held) = self.now_held().filter(|held| held.holds()) {
            return Ok(held);
        }
        let _taking = self.taking.lock().await;
        match self.now_held() {
            Some(held) if held.holds() => Ok(held),
            Some(held) => match self.renew(fenced, &held).await {
                Ok(()) => Ok(held),
                Err(Lost::Taken) => self.take(fenced).await,
                Err(Lost::Unknown(source)) => {
                    let node = held.minter.node();
                    Err(MintingError::Lapsed { node, source: Box::new(source) })
                }
            },
            None => self.take(fenced).await,
        }
    }

    /// A node, whichever is free.
    async fn take(&self, fenced: &Fenced) -> Result<Arc<Held>, MintingError> {
        let skew_ms = fenced.clock_skew_ms().unwrap_or(0);
        if u128::from(skew_ms.unsigned_abs()) > SKEW_LIMIT.as_millis() {
            return Err(MintingError::Skew { skew_ms });
        }
        let term = Term::starting_now(self.lease);
        let node = match fenced.node_lease(&self.call(self.lease, None)).await {
            Ok(leased) => leased.node,
            Err(error) if error.refusal() == Some(&RefusalClass::State) => {
                return Err(MintingError::NoNode);
            }
            Err(error) => return Err(MintingError::Unleased { source: Box::new(error) }),
        };
        tracing::debug!(%node, "took a node to mint on");
        let held = Arc::new(Held {
            minter: Minter::new(node),
            term: RwLock::new(term),
            doubted: AtomicBool::new(false),
        });
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&held));
        // Nobody may be listening.
        let _ = self.events.send(BusEvent::NodeTaken { node });
        Ok(held)
    }

    /// The same node for another term.
    async fn renew(&self, fenced: &Fenced, held: &Held) -> Result<(), Lost> {
        let node = held.minter.node();
        let term = Term::starting_now(self.lease);
        match fenced.node_lease(&self.call(self.lease, Some(node))).await {
            Ok(_) => {
                held.renewed(term);
                Ok(())
            }
            Err(error) if error.refusal() == Some(&RefusalClass::State) => {
                tracing::warn!(%node, "the node is another process' by now; taking another");
                self.forget();
                let _ = self.events.send(BusEvent::NodeLost { node });
                Err(Lost::Taken)
            }
            Err(error) => Err(Lost::Unknown(error)),
        }
    }
}

/// Why a node wasn't renewed.
enum Lost {
    /// It is another owner's.
    Taken,
    /// The registry didn't answer.
    Unknown(CallError),
}

/// Renews the node on a beat, from the first mint on and for as long as the bus lives.
pub(crate) async fn keep_node(shared: Weak<Shared>) {
    loop {
        let Some(bus) = shared.upgrade() else { return };
        let Mint::Leased(leased) = &bus.mint else { return };
        let beat = leased.lease / 4;
        if let Some(held) = leased.now_held() {
            let _taking = leased.taking.lock().await;
            if let Err(Lost::Unknown(error)) = leased.renew(&bus.fenced, &held).await {
                tracing::warn!(node = %held.minter.node(), %error, "the node was not renewed");
            }
        }
        drop(bus);
        tokio::time::sleep(beat).await;
    }
}
