//! RESP without I/O: commands out, replies in.

mod command;
mod decoder;
mod hazard;
mod limits;
mod nesting;
mod number;
mod peek;
mod pipeline;
mod reply;

pub use command::Cmd;
pub use decoder::Decoder;

pub use limits::{Limits, ProtocolError};
pub use pipeline::Pipeline;
pub(crate) use pipeline::{Encoded, ScriptSpan};
pub use reply::{Reply, ServerError};
