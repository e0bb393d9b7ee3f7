//! The referee's server, asked behind the rival's back.

use std::time::Duration;

use redis::FromRedisValue;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

use crate::Fault;

/// A connection that comes back when the server does.
#[derive(Clone)]
pub struct Valkey(ConnectionManager);

impl Valkey {
    /// Connects, and empties the server, which is this contender's alone.
    ///
    /// # Errors
    /// No server there.
    pub async fn emptied(url: &str) -> Result<Valkey, Fault> {
        // Emptying a large server takes longer than the client's default of 500 ms.
        let patient = ConnectionManagerConfig::new()
            .set_response_timeout(Some(Duration::from_secs(30)))
            .set_max_delay(Duration::from_millis(100));
        let client = redis::Client::open(url)?;
        let valkey = Valkey(ConnectionManager::new_with_config(client, patient).await?);
        valkey.ask::<()>(&["FLUSHALL", "SYNC"]).await?;
        Ok(valkey)
    }

    /// One command.
    ///
    /// # Errors
    /// What the server said.
    pub async fn ask<T: FromRedisValue>(&self, command: &[&str]) -> Result<T, Fault> {
        let mut asked = redis::cmd(command[0]);
        asked.arg(&command[1..]);
        Ok(asked.query_async(&mut self.0.clone()).await?)
    }

    /// `used_memory`.
    ///
    /// # Errors
    /// What the server said.
    pub async fn used_memory(&self) -> Result<u64, Fault> {
        let info: String = self.ask(&["INFO", "memory"]).await?;
        info.lines()
            .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok())
            .ok_or_else(|| Fault::failed("INFO has no used_memory"))
    }
}
