//! Rows in an SQLite file: the embedded default that survives a crash.
//!
//! * [`Sqlite`] is a database file with a thread of its own. The effect and the job's name are one
//!   transaction, and an answer means that the disk has it ([`Synchronous::Full`]).
//! * [`Sqlite::store`] gives the rows of a kind.
//! * [`SqliteStore::absorb_in`] absorbs in a transaction of the caller's, together with tables of
//!   the caller's own in the same file; [`Sqlite::transaction`] makes one.
//!
//! Our tables are named `emq_...`; `user_version` and all other tables are the user's. The file is
//! in WAL mode, so it needs a local disk. A copy of it is made with SQLite's backup, or with
//! `VACUUM INTO`, not by copying the file of a running program.

mod database;
mod fault;
pub(crate) mod schema;
mod store;
mod table;
mod thread;

pub use self::database::{Sqlite, SqliteBuilder, Synchronous};
pub use self::schema::prepare;
pub use self::store::SqliteStore;
/// The SQLite of this crate, whose transactions [`SqliteStore::absorb_in`] takes.
pub use rusqlite;
