//! Minting nodes: leased from the deployment, on its reserve and not on a queue.

use std::time::Duration;

use emq_keys::NodeId;
use emq_wire::{Cmd, Reply, Script};

use crate::call::push_ms;
use crate::contract::{Contract, ContractKey, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::{CallError, RefusalClass};

/// Takes a node to mint on, or renews the one that `owner` holds. [`RefusalClass::State`] when
/// every node is leased, or the one asked for is another's.
#[derive(Clone, Copy, Debug)]
pub struct NodeLease<'a> {
    /// Who asks: an opaque random text, the same at each renewal.
    pub owner: &'a str,
    /// How long the node is held.
    pub lease: Duration,
    /// How long a node must have been free before another owner may take it.
    pub grace: Duration,
    /// Exactly this node; `None` for any.
    pub node: Option<NodeId>,
}

/// A node in the caller's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLeased {
    /// The node.
    pub node: NodeId,
    /// When the lease ends, in unix milliseconds on the server's clock.
    pub expires_ms: u64,
}

impl NodeLease<'_> {
    /// The script's interface.
    pub const CONTRACT: Contract = Contract {
        script: ScriptName::NodeLease,
        keys: &[key::NODES, key::NODES_OWNERS],
        args: &["owner", "lease_ms", "grace_ms", "node"],
        tail: None,
        returns: "{node, expiry in unix ms}",
        refuses: &[RefusalClass::State, RefusalClass::Arg],
        runs_when_full: true,
    };

    /// The command, in wire form.
    #[must_use]
    pub fn encode(&self, script: &Script) -> Cmd {
        let mut cmd = script.call(Self::CONTRACT.keys.len(), 160 + self.owner.len());
        for key in Self::CONTRACT.keys {
            if let ContractKey::Reserve(key) = key {
                cmd.push(key);
            }
        }
        cmd.push(self.owner);
        push_ms(&mut cmd, self.lease);
        push_ms(&mut cmd, self.grace);
        match self.node {
            Some(node) => cmd.push_int(node.number().into()),
            None => cmd.push(""),
        }
        cmd
    }

    /// Reads any reply.
    ///
    /// # Errors
    /// As [`crate::ScriptCall::decode`].
    pub fn decode(&self, reply: Reply) -> Result<NodeLeased, CallError> {
        let script = ScriptName::NodeLease;
        match reply {
            Reply::Error(error) => Err(CallError::from_server(script, error)),
            reply => read_leased(&reply)
                .ok_or_else(|| CallError::Shape { script, found: read::describe(&reply) }),
        }
    }
}

fn read_leased(reply: &Reply) -> Option<NodeLeased> {
    let Reply::Array(fields) = reply else { return None };
    let [node, expires_ms] = fields.as_slice() else { return None };
    let node = u16::try_from(read::count(node)?).ok().and_then(|node| NodeId::new(node).ok())?;
    Some(NodeLeased { node, expires_ms: read::count(expires_ms)? })
}
