//! Real Valkey servers for tests, demos and benches: there are no mocks of the server.
//!
//! ```no_run
//! use emq_testkit::{Fsync, Valkey};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let valkey = Valkey::builder().append_only(Fsync::Always).start()?;
//! println!("{} at {}", valkey.version()?, valkey.url());
//! valkey.cli(&["SET", "greeting", "hello"])?;
//! valkey.kill9()?;
//! valkey.start_again()?;
//! assert_eq!(valkey.cli(&["GET", "greeting"])?, "hello");
//! # Ok(()) }
//! ```
//!
//! # Where the server comes from
//! In this order: `EMQ_VALKEY_SERVER` (a binary), `valkey-server` on `PATH`, the one that
//! `cargo xtask valkey install` put into the cache, and with the feature `containers` a Docker
//! engine. [`Valkey::start_or_shared`] looks first at `EMQ_VALKEY_URL`, a server already running;
//! [`Valkey::start`] never uses that one, because its caller may kill, fill or restart it.
//!
//! # Whose it is
//! Every server has its own temporary directory and its own port, and goes with the value that
//! started it. If the whole test process goes, even by `SIGKILL`, a watchdog process that holds the
//! other end of a pipe sees the end-of-file, kills the server and removes the directory.
//!
//! The public interface is [`Valkey`], its [`Builder`], the errors, and [`server_binary`] with
//! [`cached_server`] for tools that run the server by themselves.

mod address;
mod builder;
mod config;
#[cfg(feature = "containers")]
mod container;
mod error;
mod find;
mod port;
mod postgres;
mod process;
mod resp;
mod valkey;

pub use builder::{Builder, Fsync};
pub use error::{AdminError, StartError};
pub use find::{VALKEY_RELEASE, cache_dir, cached_server, server_binary};
#[cfg(feature = "postgres")]
pub use postgres::{Database, Postgres, PostgresBuilder};
pub use postgres::{POSTGRES_RELEASE, PostgresPrograms, cached_postgres, postgres_programs};
pub use valkey::Valkey;

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
