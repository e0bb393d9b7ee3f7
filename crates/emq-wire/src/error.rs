//! What can go wrong between a caller and the server.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::codec::{ProtocolError, ServerError};
use crate::config::ConfigError;

/// An error of the connector. Cheap to clone: one loss answers every caller in flight.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The configuration can't be used.
    #[error("the connection is misconfigured")]
    Config(#[from] ConfigError),

    /// No connection could be made within the bounds; the server may come back.
    #[error("could not connect to {address}; is the server up and reachable?")]
    Connect {
        /// Where, without secrets.
        address: String,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },

    /// The server refused a rung of the boot ladder (`HELLO`, `AUTH`, `SELECT`, ...).
    #[error("the server refused {step} at connect")]
    Boot {
        /// The command that was refused.
        step: &'static str,
        /// The server's words.
        #[source]
        source: ServerError,
    },

    /// The layer above refused this server for good; every later call says the same.
    #[error("this server was refused by the handshake")]
    Refused(#[source] Refusal),

    /// The connection was lost before the reply came. Nothing is sent again by this layer.
    #[error("the connection was lost {}; send it again only if the command is idempotent",
        if *.written { "after the command was written" } else { "before the command was written" })]
    Disconnected {
        /// Whether any byte of the call had been handed to the socket: when not, it did not run.
        written: bool,
    },

    /// The connection isn't ready, and the configuration says not to wait (or not longer).
    #[error("the connection is not ready; call again once it has reconnected")]
    NotReady,

    /// More calls are in flight than the bound allows. Nothing was sent.
    #[error("over {limit} {what} in flight on this connection; slow down or raise the bound")]
    Overloaded {
        /// The bound.
        limit: usize,
        /// `commands` or `queued bytes`.
        what: &'static str,
    },

    /// No reply within the caller's bound. Its slot stays, so later replies keep their places.
    #[error("no reply within {after:?}; the command may still run")]
    Timeout {
        /// The bound that passed.
        after: Duration,
    },

    /// The connection was closed by its owner.
    #[error("the connection is closed")]
    Closed,

    /// The peer sent something that is not RESP, or over the bounds.
    #[error("the server broke the protocol; the connection was dropped")]
    Protocol(#[from] ProtocolError),

    /// A command that would park or rewire a connection that others share.
    #[error("{command} may not run on a shared connection; {instead}")]
    NotShareable {
        /// The command.
        command: &'static str,
        /// What to use.
        instead: &'static str,
    },

    /// The server's digest of a script differs from ours: something changed the bytes.
    #[error("script {name} has digest {expected} here and {found} on the server")]
    ScriptDigest {
        /// The script.
        name: String,
        /// Computed here.
        expected: String,
        /// Answered by the server.
        found: String,
    },

    /// The server forgot a script again right after two loads.
    #[error("the server keeps forgetting script {name}; is something flushing its cache?")]
    ScriptLost {
        /// The script.
        name: String,
    },

    /// The server answered an error where this layer needs a success (loading a script, say).
    #[error("the server refused {step}")]
    Server {
        /// What was asked.
        step: &'static str,
        /// The server's words.
        #[source]
        source: ServerError,
    },

    /// A reply of a shape that the command can't have.
    #[error("unexpected reply to {step}: {found}")]
    Unexpected {
        /// What was asked.
        step: &'static str,
        /// What came, shortened.
        found: String,
    },
}

impl WireError {
    /// Whether the same call may succeed later without anything being repaired by hand.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Disconnected { .. }
            | Self::NotReady
            | Self::Overloaded { .. }
            | Self::Timeout { .. }
            | Self::Protocol(_)
            | Self::ScriptLost { .. } => true,
            Self::Boot { source, .. } | Self::Server { source, .. } => {
                matches!(source.class(), "LOADING" | "BUSY" | "READONLY" | "MASTERDOWN" | "OOM")
            }
            Self::Config(_)
            | Self::Refused(_)
            | Self::Closed
            | Self::NotShareable { .. }
            | Self::ScriptDigest { .. }
            | Self::Unexpected { .. } => false,
        }
    }
}

/// The typed reason with which the layer above refused a server, kept whole.
#[derive(Clone)]
pub struct Refusal(Arc<dyn Error + Send + Sync>);

impl Refusal {
    /// Wraps the layer above's own error.
    pub fn new(reason: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(reason))
    }

    /// The reason as the type that it was made from.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.0.downcast_ref::<E>()
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
