//! The node on which a minter mints.

use std::fmt;
use std::str::FromStr;

/// The number of a minting node, 0..=1023.
///
/// Ids are unique across processes only while each minter holds its own node, so a node is leased
/// from the deployment or configured; it is never guessed from a host or a process number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u16);

/// What was given is not a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeIdError {
    /// The number is above 1023.
    #[error("node {0} is out of range; give a number from 0 to 1023")]
    Range(u16),
    /// The text is not a decimal number that fits.
    #[error("a node is a decimal number from 0 to 1023")]
    Text,
}

impl NodeId {
    /// How many nodes a deployment has.
    pub const COUNT: u16 = 1024;

    /// The greatest node, 1023.
    pub const MAX: NodeId = NodeId(NodeId::COUNT - 1);

    /// A node by number.
    ///
    /// # Errors
    /// [`NodeIdError::Range`] above 1023.
    ///
    /// ```
    /// use emq_keys::{NodeId, NodeIdError};
    /// assert_eq!(NodeId::new(1023)?, NodeId::MAX);
    /// assert_eq!(NodeId::new(1024), Err(NodeIdError::Range(1024)));
    /// # Ok::<(), NodeIdError>(())
    /// ```
    pub const fn new(number: u16) -> Result<NodeId, NodeIdError> {
        if number < NodeId::COUNT { Ok(NodeId(number)) } else { Err(NodeIdError::Range(number)) }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for NodeId {
    type Err = NodeIdError;

    fn from_str(text: &str) -> Result<Self, NodeIdError> {
        text.parse().map_err(|_| NodeIdError::Text).and_then(NodeId::new)
    }
}

impl TryFrom<u16> for NodeId {
    type Error = NodeIdError;

    fn try_from(number: u16) -> Result<Self, NodeIdError> {
        NodeId::new(number)
    }
}
