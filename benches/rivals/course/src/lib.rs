//! The rows of the referee, run in the same way over every rival that is written in Rust.
//!
//! A rival says how it enqueues, works and counts what was acknowledged ([`Rival`]); what is done
//! with it, and what is measured, is said here once. The protocol is in `benches/README.md`.

mod fault;
mod job;
mod patience;
mod rival;
mod rows;
mod settings;
mod valkey;
mod versions;
mod worker;

pub use fault::Fault;
pub use job::{Handler, Job};
pub use rival::Rival;
pub use rows::run;
pub use settings::tuned;
pub use valkey::Valkey;
pub use versions::version;
pub use worker::{Stop, Worker};
