//! A job that exists if and only if the business row does.
//!
//! * [`Outbox`] writes a job's id and payload in the caller's own transaction: a rollback erases
//!   both, a commit lands both.
//! * [`Relay`] moves committed rows to the bus, and deletes each once the bus has its job on disk.
//! * `migrate_outbox` of [`Postgres`](crate::postgres::Postgres) and
//!   [`Sqlite`](crate::sqlite::Sqlite) makes the table.
//!
//! A relay that dies between the bus's answer and its delete repeats itself. The bus answers
//! "duplicate" while its row lives; after that a store that absorbs the job's name declines the
//! repeat. A row that the bus will never take is kept with the reason, and stops nobody. A job
//! whose unique key another job holds counts as settled.

mod deliver;
mod error;
mod listen;
mod pace;
#[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
mod postgres;
mod refused;
mod relay;
mod rounds;
mod row;
mod shelf;
#[cfg(feature = "sqlite")]
mod sqlite;
mod status;
mod writer;

pub use self::error::{OutboxError, RelayError};
pub use self::refused::{Refused, Ruling};
pub use self::relay::Relay;
pub use self::shelf::Shelf;
pub use self::status::RelayStatus;
pub use self::writer::{Outbox, Placed};
