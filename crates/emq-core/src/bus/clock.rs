//! Whether the server is there, and what time it has.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use emq_wire::{Cmd, ConnectionState};

use super::Bus;
use crate::error::Error;
use crate::queue::{misread, read_one, server_ms};

impl Bus {
    /// Whether the shared connection is in service, as far as this side has noticed. Nothing is
    /// sent: [`Bus::server_time`] asks the server.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(*self.state().borrow(), ConnectionState::Ready)
    }

    /// The server's clock: an answer also says that the server is there and that this connection
    /// has passed the fence.
    ///
    /// ```
    /// # use emq_core::Bus;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let valkey = emq_testkit::Valkey::start()?;
    /// let bus = Bus::connect(&valkey.url()).await?;
    /// assert!(bus.server_time().await? > std::time::UNIX_EPOCH);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn server_time(&self) -> Result<SystemTime, Error> {
        let reply = read_one(self, Cmd::new("TIME")).await?;
        let ms = server_ms(&reply).ok_or_else(|| misread("TIME", &reply))?;
        Ok(UNIX_EPOCH + Duration::from_millis(ms))
    }
}
