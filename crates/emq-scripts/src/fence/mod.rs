//! The fence: what stands between a new socket and the first call.

mod engine;
mod error;
mod gate;

pub use self::engine::{Engine, EngineVersion};
pub use self::error::{FenceError, FenceFailure, fence_error};
pub(crate) use self::gate::{Duty, Fence};

/// The wire version that this build speaks and that the deployment's keyspace must carry.
pub const WIRE_VERSION: &str = "echomq:2.0.0";

/// What the fence saw after it had let a connection through before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FenceEvent {
    /// The version was gone at a reconnect: the keyspace was wiped, or the server came back
    /// without its data. It was claimed again; the jobs that were there are lost.
    ///
    /// Each connection of a [`crate::Fenced`] that finds it gone says so.
    KeyspaceReset {
        /// Whether this very connection claimed it, or another was faster.
        claimed: bool,
    },
}
