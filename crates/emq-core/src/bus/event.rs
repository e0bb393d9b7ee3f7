//! What a bus tells of itself.

use emq_keys::NodeId;

/// Something that happened to the deployment or to this bus.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BusEvent {
    /// The keyspace was wiped, or the server came back without its data: the jobs that were there
    /// are lost. The fence claimed it again.
    KeyspaceReset,
    /// This bus took a node to mint on.
    NodeTaken {
        /// The node.
        node: NodeId,
    },
    /// This bus doesn't hold its node any more. The next mint takes another.
    NodeLost {
        /// The node.
        node: NodeId,
    },
}
