//! What makes a client of EchoMQ one.
//!
//! A contract is a file of steps over the wire: a script called with keys and arguments, the reply
//! that is expected, what the keys hold afterwards. Nothing in it is Rust. This crate is one of the
//! drivers of those files: it knows sockets and frames through `emq-wire`'s codec, and nothing of
//! the layers above. It also records the golden sessions, and starts drivers in other languages.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use conformance::{Set, run};
//!
//! let report = run("valkey://127.0.0.1:6379", Path::new("lua"), Set::Seed)?;
//! print!("{report}");
//! assert_eq!(report.count(Set::Seed), "CONFORMANCE 14/14");
//! # Ok::<(), conformance::Failure>(())
//! ```
//!
//! The public interface is what this page lists; the modules are private.

mod bundle;
mod contract;
mod drive;
mod embedded;
mod expect;
mod failure;
mod fence;
mod link;
mod names;
mod ports;
mod report;
mod sabotage;
mod session;
mod show;
mod suite;

pub use bundle::Bundle;
pub use contract::Contract;
pub use failure::Failure;
pub use ports::Port;
pub use report::{Line, Report, Verdict};
pub use sabotage::Sabotage;
pub use session::Session;
pub use suite::{Set, Suite, home, run};
