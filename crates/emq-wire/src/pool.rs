//! Several connections, taken in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::Config;
use crate::connection::{Connection, Handshake, NoHandshake};
use crate::error::WireError;

/// Connections taken in turn, skipping those that aren't ready. A pool buys isolation (one
/// caller's large replies don't stand before another's), not throughput.
#[derive(Clone, Debug)]
pub struct Pool {
    connections: Arc<[Connection]>,
    next: Arc<AtomicUsize>,
}

impl Pool {
    /// Connects `size` connections (at least one) without a handshake.
    ///
    /// # Errors
    /// The first connection's error.
    pub async fn connect(config: Config, size: usize) -> Result<Self, WireError> {
        Self::connect_with(config, Arc::new(NoHandshake), size).await
    }

    /// Connects `size` connections (at least one); `handshake` runs on each of their sockets.
    ///
    /// # Errors
    /// The first error of a connection.
    pub async fn connect_with(
        config: Config,
        handshake: Arc<dyn Handshake>,
        size: usize,
    ) -> Result<Self, WireError> {
        let mut connections = Vec::with_capacity(size.max(1));
        for _ in 0..size.max(1) {
            connections
                .push(Connection::connect_with(config.clone(), Arc::clone(&handshake)).await?);
        }
        Ok(Self { connections: connections.into(), next: Arc::default() })
    }

    /// The next connection that is ready; when none is, simply the next one, whose calls then
    /// wait or fail as configured.
    pub fn pick(&self) -> &Connection {
        let count = self.connections.len();
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let at = |step: usize| &self.connections[start.wrapping_add(step) % count];
        (0..count).map(at).find(|connection| connection.is_ready()).unwrap_or_else(|| at(0))
    }

    /// All connections, in no particular order.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Closes all of them.
    pub async fn close(&self) {
        for connection in self.connections.iter() {
            connection.close().await;
        }
    }
}
