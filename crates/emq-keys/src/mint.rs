//! Minting: fresh ids, lock-free and without allocation.

use std::iter::FusedIterator;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::id::{
    BrandedId, EPOCH_MS, MAX_UNIX_MS, NODE_SHIFT, SEQUENCE_MASK, TIMESTAMP_BITS, TIMESTAMP_SHIFT,
    timestamp,
};
use crate::namespace::Namespace;
use crate::node::NodeId;

/// Bits of sequence within a millisecond of the minter's state.
const SEQUENCE_BITS: u32 = 12;

/// The greatest state: the last sequence of the last millisecond that an id can carry.
const MAX_STATE: u64 = (1 << (TIMESTAMP_BITS + SEQUENCE_BITS)) - 1;

/// The most ids that one [`Minter::mint_many`] makes. Such a block borrows 256 ms of the future.
pub const MINT_MANY_MAX: usize = 1 << 20;

/// Why no id was minted. Nothing was changed: a later mint under a sound clock succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    /// The clock is before [`EPOCH_MS`] and this minter has minted nothing yet. To count from the
    /// epoch instead would repeat, after a restart, ids that are already in use.
    #[error(
        "the clock says {unix_ms} ms, before 2024-01-01; set the machine's clock and mint again"
    )]
    ClockBeforeEpoch {
        /// What the clock said, in unix milliseconds.
        unix_ms: u64,
    },
    /// The clock is after [`MAX_UNIX_MS`].
    #[error(
        "the clock says {unix_ms} ms, after the year 2093 that ids end in; set the machine's clock"
    )]
    ClockPastRange {
        /// What the clock said, in unix milliseconds.
        unix_ms: u64,
    },
    /// The minter has come to the last id of its node.
    #[error("this node has minted its last id; mint on another contract version")]
    Exhausted,
    /// More than [`MINT_MANY_MAX`] ids were asked for in one block.
    #[error("{count} ids in one block is above {MINT_MANY_MAX}; ask for several smaller blocks")]
    TooMany {
        /// How many ids were asked for.
        count: usize,
    },
}

/// Mints ids on one node, from any number of threads at once.
///
/// The state is one atomic word, `timestamp << 12 | sequence`; a mint moves it to
/// `max(now, state + 1)` by compare-and-swap. From this follow the guarantees:
///
/// * Within a minter, ids never repeat and never decrease, also when the clock steps back.
/// * More than 4,096 mints in a millisecond borrow from the minter's own future milliseconds.
/// * Across minters ids never repeat while each holds its own [`NodeId`]. So a process has one
///   minter for a node; a second on the same node would repeat the first one's ids.
///
/// All kinds share the sequence: ids of different namespaces have different snowflakes as well.
///
/// ```
/// use emq_keys::{Minter, Namespace, NodeId};
///
/// let minter = Minter::new(NodeId::new(3)?);
/// let first = minter.mint(Namespace::JOB)?;
/// let second = minter.mint(Namespace::JOB)?;
/// assert!(first < second);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Minter {
    node: NodeId,
    /// The last state given out; 0 before the first mint.
    state: AtomicU64,
}

impl Minter {
    /// A minter on a node that the caller holds alone.
    #[must_use]
    pub const fn new(node: NodeId) -> Minter {
        Minter { node, state: AtomicU64::new(0) }
    }

    /// The node on which it mints.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// A fresh id, by the system's clock.
    ///
    /// # Errors
    /// [`MintError`] when the clock is outside what an id can carry. After the first mint a clock
    /// that steps back, even before [`EPOCH_MS`], is no error: the state goes on by itself.
    pub fn mint(&self, namespace: Namespace) -> Result<BrandedId, MintError> {
        self.mint_at(namespace, system_unix_ms())
    }

    /// A fresh id, by a clock that says `now_ms` (unix milliseconds).
    ///
    /// # Errors
    /// As [`mint`](Minter::mint).
    ///
    /// ```
    /// use emq_keys::{Minter, Namespace, NodeId};
    /// let minter = Minter::new(NodeId::new(3)?);
    /// let id = minter.mint_at(Namespace::JOB, 1_769_526_697_641)?;
    /// assert_eq!((id.unix_ms(), id.node(), id.sequence()), (1_769_526_697_641, 3, 0));
    /// // The clock steps back an hour: the next id is still the next.
    /// let next = minter.mint_at(Namespace::JOB, 1_769_523_097_641)?;
    /// assert_eq!((next.unix_ms(), next.sequence()), (1_769_526_697_641, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mint_at(&self, namespace: Namespace, now_ms: u64) -> Result<BrandedId, MintError> {
        let first = self.reserve(1, now_ms)?;
        Ok(self.id(namespace, first))
    }

    /// `count` fresh ids in ascending order, by the system's clock. The block is taken at once: no
    /// other thread's id falls between two of them, and ids that are not read are left out for ever.
    ///
    /// # Errors
    /// As [`mint`](Minter::mint), and [`MintError::TooMany`] above [`MINT_MANY_MAX`].
    ///
    /// ```
    /// use emq_keys::{Minter, Namespace, NodeId};
    /// let minter = Minter::new(NodeId::new(3)?);
    /// let ids: Vec<_> = minter.mint_many(Namespace::JOB, 10_000)?.collect();
    /// assert_eq!(ids.len(), 10_000);
    /// assert!(ids.is_sorted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mint_many(&self, namespace: Namespace, count: usize) -> Result<Minted, MintError> {
        self.mint_many_at(namespace, count, system_unix_ms())
    }

    /// `count` fresh ids in ascending order, by a clock that says `now_ms` (unix milliseconds).
    ///
    /// # Errors
    /// As [`mint_many`](Minter::mint_many).
    pub fn mint_many_at(
        &self,
        namespace: Namespace,
        count: usize,
        now_ms: u64,
    ) -> Result<Minted, MintError> {
        if count > MINT_MANY_MAX {
            return Err(MintError::TooMany { count });
        }
        let states = if count == 0 {
            0..0
        } else {
            let first = self.reserve(count as u64, now_ms)?;
            first..first + count as u64
        };
        Ok(Minted { namespace, node: self.node, states })
    }

    /// The time of the latest id, in unix milliseconds; `None` before the first. It is ahead of the
    /// clock while mints borrow from the future or after the clock stepped back: whoever gives the
    /// node to somebody else must do so after this time.
    #[must_use]
    pub fn latest_ms(&self) -> Option<u64> {
        let state = self.state.load(Ordering::Relaxed);
        (state != 0).then(|| (state >> SEQUENCE_BITS) + EPOCH_MS)
    }

    /// Takes `count` (at least 1) consecutive states and returns the first.
    fn reserve(&self, count: u64, now_ms: u64) -> Result<u64, MintError> {
        if now_ms > MAX_UNIX_MS {
            return Err(MintError::ClockPastRange { unix_ms: now_ms });
        }
        // Relaxed is enough: the uniqueness and order of ids rest on this one word alone.
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let now = match timestamp(now_ms) {
                Some(timestamp) => timestamp << SEQUENCE_BITS,
                None if state == 0 => return Err(MintError::ClockBeforeEpoch { unix_ms: now_ms }),
                None => 0,
            };
            let first = now.max(state + 1);
            let last = first + (count - 1);
            if last > MAX_STATE {
                return Err(MintError::Exhausted);
            }
            match self.state.compare_exchange_weak(
                state,
                last,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(first),
                Err(current) => state = current,
            }
        }
    }

    fn id(&self, namespace: Namespace, state: u64) -> BrandedId {
        id_of_state(namespace, self.node, state)
    }
}

/// A block of ids taken by [`Minter::mint_many`], in ascending order.
#[derive(Clone, Debug)]
pub struct Minted {
    namespace: Namespace,
    node: NodeId,
    states: Range<u64>,
}

impl Iterator for Minted {
    type Item = BrandedId;

    fn next(&mut self) -> Option<BrandedId> {
        self.states.next().map(|state| id_of_state(self.namespace, self.node, state))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.states.size_hint()
    }
}

impl ExactSizeIterator for Minted {}
impl FusedIterator for Minted {}

/// The id of one state; below 2^63 because a state is at most [`MAX_STATE`] and a node 1023.
fn id_of_state(namespace: Namespace, node: NodeId, state: u64) -> BrandedId {
    let snowflake = (state >> SEQUENCE_BITS) << TIMESTAMP_SHIFT
        | u64::from(node.number()) << NODE_SHIFT
        | state & SEQUENCE_MASK;
    BrandedId::from_gated(namespace, snowflake)
}

/// The system's clock in unix milliseconds; 0 for a clock before 1970, which the epoch gate refuses.
fn system_unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
