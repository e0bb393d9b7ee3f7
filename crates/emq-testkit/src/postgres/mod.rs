//! Real PostgreSQL servers.

#[cfg(feature = "postgres")]
mod admin;
#[cfg(feature = "postgres")]
mod database;
#[cfg(feature = "postgres")]
mod files;
mod find;
#[cfg(feature = "postgres")]
mod server;

#[cfg(feature = "postgres")]
pub use self::database::Database;
pub use self::find::{POSTGRES_RELEASE, PostgresPrograms, cached_postgres, postgres_programs};
#[cfg(feature = "postgres")]
pub use self::server::{Postgres, PostgresBuilder};
