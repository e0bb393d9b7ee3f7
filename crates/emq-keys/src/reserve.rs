//! The reserve: facts about the deployment, never about a queue.

use std::fmt;

/// The key of the wire version, which the fence claims and verifies.
pub const RESERVE_VERSION: &str = "{emq}:version";

/// The key of the minting leases: node and expiry.
pub const RESERVE_NODES: &str = "{emq}:nodes";

/// The companion of [`RESERVE_NODES`]: node and the owner of its lease.
pub const RESERVE_NODE_OWNERS: &str = "{emq}:nodes:owners";

/// A name held back for deployment-wide locks.
pub const RESERVE_LOCKS: &str = "{emq}:locks";

/// A fact about the deployment, `{emq}:<fact>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReserveFact {
    /// The wire version.
    Version,
    /// Minting leases.
    Nodes,
    /// Who holds them.
    NodeOwners,
    /// Held back by name.
    Locks,
}

impl ReserveFact {
    /// Every fact of the reserve.
    pub const ALL: [ReserveFact; 4] =
        [ReserveFact::Version, ReserveFact::Nodes, ReserveFact::NodeOwners, ReserveFact::Locks];

    /// Its whole key.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            ReserveFact::Version => RESERVE_VERSION,
            ReserveFact::Nodes => RESERVE_NODES,
            ReserveFact::NodeOwners => RESERVE_NODE_OWNERS,
            ReserveFact::Locks => RESERVE_LOCKS,
        }
    }
}

impl fmt::Display for ReserveFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}
