//! What one side of the referee speaks: orders from the environment, rows as JSON lines, and the
//! measures that all sides take the same way. The protocol is described in `benches/README.md`.

mod asked;
mod effects;
mod payload;
mod report;
mod waits;

pub use asked::Asked;
pub use effects::Effects;
pub use payload::{PAYLOAD_BYTES, id_of, payload};
pub use report::Report;
pub use waits::Waits;
