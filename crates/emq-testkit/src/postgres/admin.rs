//! Statements that administer a server.

use std::thread;
use std::time::Duration;

use postgres::{Config, NoTls, SimpleQueryMessage};

use crate::AdminError;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs one statement on a connection of its own, and answers its first column, one row a line.
///
/// The client blocks on a runtime of its own, which it may not from within another; so it has a
/// thread.
pub(crate) fn run(url: &str, sql: &str) -> Result<String, AdminError> {
    let outcome = thread::scope(|scope| {
        scope.spawn(|| statement(url, sql)).join().unwrap_or_else(|_| Ok(None))
    });
    outcome.map_err(|error| AdminError::Sql(error.into()))?.ok_or(AdminError::NotAReply)
}

fn statement(url: &str, sql: &str) -> Result<Option<String>, postgres::Error> {
    let mut config: Config = url.parse()?;
    let mut client = config.connect_timeout(PATIENCE).connect(NoTls)?;
    let mut lines = Vec::new();
    for message in client.simple_query(sql)? {
        if let SimpleQueryMessage::Row(row) = message {
            lines.push(row.get(0).unwrap_or("").to_owned());
        }
    }
    client.close()?;
    Ok(Some(lines.join("\n")))
}
