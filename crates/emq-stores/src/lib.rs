//! Where the bus meets the stores: rows that remember the names of the jobs they absorbed.
//!
//! A job may be delivered twice. A [`Store`] row that has absorbed a job's name declines it the
//! second time, in the same transaction as the effect: at-least-once delivery becomes exactly-once
//! effect, per row.
//!
//! * [`with_stores`] makes a handler of a function of a [`Cx`], which absorbs under the job's name.
//! * [`Store`] holds the rows of one kind, as serde values; [`PropertyStore`] is what a backend does:
//!   [`memory`], `sqlite` and `postgres` (features).
//! * `outbox` (feature): a job that exists if and only if the business row does.
//! * [`supervisor`]: workers, stores and relays as owners that are restarted alone.
//!
//! # What is promised
//! Per row, and per name: an effect happens exactly once, together with its name, whatever crashes,
//! repeats or comes at once. Across rows and stores nothing is promised but that each of them is
//! exact by itself: a handler that failed between two of them is run again, is declined by the first
//! and goes on with the second. The README has the whole table, and how to choose the horizon of a
//! compaction.
//!
//! It knows nothing of keys of the server, scripts or frames.

#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(
    doctest,
    feature = "outbox",
    feature = "sqlite",
    feature = "tokio-postgres",
    feature = "sqlx"
))]
#[doc = include_str!("../docs/outbox.md")]
struct OutboxGuide;

mod compaction;
mod effect;
mod error;
mod handling;
mod ingress;
mod property;
mod reply;
mod store;

pub mod memory;
#[cfg(all(
    feature = "outbox",
    any(feature = "sqlite", feature = "tokio-postgres", feature = "sqlx")
))]
pub mod outbox;
#[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod supervisor;

// The public interface is, beside the modules above:
pub use crate::effect::{
    Absorbed, Compacted, Contribution, Effect, JobName, STEP_LEN_MAX, Written,
};
pub use crate::error::StoreError;
pub use crate::handling::{Cx, WithStores, with_stores};
pub use crate::ingress::{IntoId, IntoJob};
pub use crate::property::{Answer, PropertyStore};
pub use crate::store::Store;
