//! A database of one's own on a server that others use too.

use std::hash::{BuildHasher, RandomState};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use super::admin;
use crate::AdminError;

/// A database, removed when this is dropped, whoever is still connected to it.
#[derive(Debug)]
pub struct Database {
    /// Of the database that administers the server.
    server: String,
    name: String,
}

impl Database {
    pub(crate) fn create(server: &str) -> Result<Self, AdminError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // A number that no other process has: several may share the server, from several machines.
        let random = RandomState::new().hash_one(count);
        let name = format!("emq_test_{}_{count}_{random:016x}", process::id());
        admin::run(server, &format!("CREATE DATABASE {name}"))?;
        Ok(Self { server: server.to_owned(), name })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    /// Runs one statement on a connection of its own, and answers its first column, one row a line.
    ///
    /// # Errors
    /// [`AdminError::Sql`] with what the server says.
    pub fn sql(&self, statement: &str) -> Result<String, AdminError> {
        admin::run(&self.url(), statement)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A server that is gone, or that the test killed, has nothing to be tidied.
        let _ = admin::run(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// The URL with another database.
fn with_database(url: &str, name: &str) -> String {
    let (place, options) = url.split_once('?').map_or((url, None), |(place, o)| (place, Some(o)));
    let authority = place.find("://").map_or(0, |at| at + 3);
    let end = place[authority..].find('/').map_or(place.len(), |at| authority + at);
    let options = options.map_or_else(String::new, |options| format!("?{options}"));
    format!("{}/{name}{options}", &place[..end])
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn the_database_of_a_url_is_replaced() {
        for (url, other) in [
            (
                "postgres://u:p%2F@h:5/old?sslmode=disable",
                "postgres://u:p%2F@h:5/new?sslmode=disable",
            ),
            ("postgres://h", "postgres://h/new"),
            ("postgresql://u@h:1/", "postgresql://u@h:1/new"),
        ] {
            assert_eq!(with_database(url, "new"), other);
        }
    }
}
