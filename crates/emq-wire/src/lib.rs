//! The bytes of EchoMQ: a pipelined RESP connector for Valkey, built for a job bus.
//!
//! It knows sockets, frames and replies. It knows nothing of queues, job states, the names of
//! keys or the version of the layer above: that layer hands it a [`Handshake`] to run on every
//! new connection, before the first command of a user.
//!
//! The public interface is what this page lists; the modules are private.

mod blocking;
mod codec;
mod config;
mod connection;
mod counters;
mod durable;
mod error;
mod pool;
mod script;

pub use blocking::{BlockingLane, Unblocker};
pub use codec::{Cmd, Decoder, Limits, Pipeline, ProtocolError, Reply, ServerError};
pub use config::{Address, Config, ConfigError, Credentials, Overload, Protocol, Reconnect};
pub use connection::{
    BootLink, Connection, ConnectionState, Handshake, HandshakeError, HandshakeFuture,
};
pub use counters::Counters;
pub use durable::{Acknowledged, Durable, DurableLane, DurableWait};
pub use error::{Refusal, WireError};
pub use pool::Pool;
pub use script::Script;
