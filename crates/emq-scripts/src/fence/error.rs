//! Why the fence does not let a connection through.

use emq_wire::{ServerError, WireError};

/// Why the fence refused a server. Every later call on that connection answers the same.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The keyspace belongs to another wire version.
    #[error(
        "this keyspace is fenced for {found:?} and this build speaks {expected:?}; \
         use the build for that version, or another keyspace"
    )]
    Version {
        /// What this build speaks.
        expected: &'static str,
        /// What stands in the keyspace, shortened.
        found: String,
    },

    /// `{emq}:version` is there and is no string.
    #[error("{{emq}}:version is not a string; something else wrote it, use another keyspace")]
    VersionType {
        /// The server's words.
        #[source]
        source: ServerError,
    },

    /// The server is full and its keyspace was never claimed, so the fence can't claim it now.
    #[error("the server is full and its keyspace is unclaimed; free memory, then connect again")]
    Full {
        /// The server's words.
        #[source]
        source: ServerError,
    },

    /// The server is not one that the bundle runs on.
    #[error("found {found} where {floor} or newer is needed")]
    Engine {
        /// What answered.
        found: String,
        /// What is needed.
        floor: String,
    },

    /// The server is part of a cluster.
    #[error("the server runs in cluster mode, which is not routed yet; use a standalone server")]
    Cluster,

    /// This user may not do what the fence has to.
    #[error("this user may not run {command}; grant it (see the chapter on the fence)")]
    Denied {
        /// What was refused.
        command: &'static str,
        /// The server's words.
        #[source]
        source: ServerError,
    },

    /// The server refused a step of the fence in another way.
    #[error("the server refused {command} at the fence")]
    Server {
        /// What was refused.
        command: &'static str,
        /// The server's words.
        #[source]
        source: ServerError,
    },

    /// The server's answer to a step of the fence makes no sense.
    #[error("{command} answered {found} at the fence; is this a Valkey?")]
    Shape {
        /// What was asked.
        command: &'static str,
        /// What came, without its content.
        found: String,
    },
}

impl FenceError {
    /// Whether a new connection may be let through later without anything being repaired by hand.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

/// Why there is no [`crate::Fenced`] connection.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceFailure {
    /// The server answered, and the fence refused it.
    #[error("the fence refused this server")]
    Fence(#[source] FenceError),
    /// The server wasn't reached, or not in a state to serve.
    #[error("the fence could not be reached")]
    Wire(#[source] WireError),
}

impl FenceFailure {
    /// Whether the same connect may succeed later without anything being repaired by hand.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Fence(error) => error.is_retryable(),
            Self::Wire(error) => error.is_retryable(),
        }
    }
}

impl From<WireError> for FenceFailure {
    fn from(error: WireError) -> Self {
        match fence_error(&error) {
            Some(refused) => Self::Fence(refused.clone()),
            None => Self::Wire(error),
        }
    }
}

/// The fence's own reason inside a connection's error, when it is one.
#[must_use]
pub fn fence_error(error: &WireError) -> Option<&FenceError> {
    match error {
        WireError::Refused(refusal) => refusal.downcast_ref(),
        _ => None,
    }
}
