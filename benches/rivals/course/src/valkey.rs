//! The referee's server, asked behind the rival's back.

use std::time::{Duration, Instant};

use redis::FromRedisValue;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use tokio::time::sleep;

use crate::Fault;

/// How long a server may take to answer one command.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
/// How long a server may take to be there.
const STARTS_WITHIN: Duration = Duration::from_secs(10);
/// Between two tries.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// A connection that comes back when the server does.
#[derive(Clone)]
pub struct Valkey(ConnectionManager);

impl Valkey {
    /// Connects, and empties the server, which is this contender's alone. One that was killed in
    /// the row before may still be reading its files.
    ///
    /// # Errors
    /// No server there.
    pub async fn emptied(url: &str) -> Result<Valkey, Fault> {
        let begun = Instant::now();
        loop {
            match Valkey::empty(url).await {
                Err(_) if begun.elapsed() < STARTS_WITHIN => sleep(ASK_EVERY).await,
                done => return done,
            }
        }
    }

    async fn empty(url: &str) -> Result<Valkey, Fault> {
        // Emptying a large server takes longer than the client's default of 500 ms.
        let patient = ConnectionManagerConfig::new()
            .set_response_timeout(Some(ANSWERS_WITHIN))
            .set_max_delay(ASK_EVERY);
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
