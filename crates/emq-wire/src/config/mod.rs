//! Where to connect and how to behave there.

mod error;
#[cfg(test)]
mod tests;
mod url;
mod validate;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use self::error::ConfigError;
use crate::codec::Limits;

/// Everything a connection is told. One URL gives the common part; each field of it, and each
/// bound, has a builder method.
///
/// ```
/// use emq_wire::Config;
/// let config: Config = "valkey://app:secret@127.0.0.1:6380/2".parse()?;
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), emq_wire::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) address: Address,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: u32,
    pub(crate) client_name: Option<String>,
    pub(crate) protocol: Protocol,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Option<Duration>,
    pub(crate) heartbeat: Duration,
    pub(crate) heartbeat_timeout: Duration,
    pub(crate) max_in_flight: usize,
    pub(crate) max_queued_bytes: usize,
    pub(crate) overload: Overload,
    pub(crate) reconnect: Reconnect,
    pub(crate) limits: Limits,
}

/// The server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// A host name or an IP address, and a port.
    Tcp {
        /// Host, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// The same over TLS.
    Tls {
        /// Host, also the name that the certificate must carry.
        host: String,
        /// Port.
        port: u16,
    },
    /// A unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            Self::Tcp { host, port } => ("valkey", host, port),
            Self::Tls { host, port } => ("valkeys", host, port),
            Self::Unix(path) => return write!(f, "valkey+unix://{}", path.display()),
        };
        // Colons inside a host: an IPv6 address.
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}")
        } else {
            write!(f, "{scheme}://{host}:{port}")
        }
    }
}

/// A user's name and password. Neither `Debug` nor an error ever shows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

impl Credentials {
    /// A named user of the server's access list.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// The default user.
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The reply language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2: enough for the bus.
    #[default]
    Resp2,
    /// RESP3, or no connection.
    Resp3,
    /// RESP3 where the server has it, else RESP2.
    Auto,
}

/// What a call meets when the bound of calls in flight is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overload {
    /// `Overloaded` at once.
    #[default]
    Refuse,
    /// It waits for room.
    Wait,
}

/// How a lost connection is made again: exponential backoff with full jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// The first bound of the random wait.
    pub base: Duration,
    /// The largest bound of the random wait.
    pub cap: Duration,
    /// How long a call made while there is no connection waits for one; zero fails at once.
    pub call_wait: Duration,
    /// How long [`crate::Connection::connect`] itself keeps trying.
    pub initial_wait: Duration,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(10),
            cap: Duration::from_millis(200),
            call_wait: Duration::from_secs(5),
            initial_wait: Duration::from_secs(5),
        }
    }
}

impl Config {
    /// The defaults for an address.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            credentials: None,
            database: 0,
            client_name: None,
            protocol: Protocol::default(),
            connect_timeout: Duration::from_secs(5),
            response_timeout: None,
            heartbeat: Duration::from_secs(10),
            heartbeat_timeout: Duration::from_secs(5),
            max_in_flight: 65_536,
            max_queued_bytes: 256 * 1024 * 1024,
            overload: Overload::default(),
            reconnect: Reconnect::default(),
            limits: Limits::default(),
        }
    }

    /// Where to connect.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// How often a quiet connection is probed, and so the longest that a park may last.
    pub fn heartbeat_interval(&self) -> Duration {
        self.heartbeat
    }
}

/// Setters: each takes the configuration and gives it back changed.
impl Config {
    /// Who to authenticate as.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// The database number.
    #[must_use]
    pub fn database(mut self, database: u32) -> Self {
        self.database = database;
        self
    }

    /// The name shown by `CLIENT LIST`.
    #[must_use]
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.client_name = Some(name.into());
        self
    }

    /// The reply language.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = protocol;
        self
    }

    /// The bound of one attempt to connect, the boot ladder included.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The bound of one call's wait for its reply; `None` (the default) leaves dead peers to the
    /// heartbeat and slow commands alone.
    #[must_use]
    pub fn response_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// How often a quiet connection is probed, and how long the answer may take.
    #[must_use]
    pub fn heartbeat(mut self, every: Duration, answer_within: Duration) -> Self {
        self.heartbeat = every;
        self.heartbeat_timeout = answer_within;
        self
    }

    /// How many replies may be awaited at once.
    #[must_use]
    pub fn max_in_flight(mut self, commands: usize) -> Self {
        self.max_in_flight = commands;
        self
    }

    /// How many bytes may wait to be written.
    #[must_use]
    pub fn max_queued_bytes(mut self, bytes: usize) -> Self {
        self.max_queued_bytes = bytes;
        self
    }

    /// What the excess caller meets.
    #[must_use]
    pub fn overload(mut self, overload: Overload) -> Self {
        self.overload = overload;
        self
    }

    /// How a lost connection is made again.
    #[must_use]
    pub fn reconnect(mut self, reconnect: Reconnect) -> Self {
        self.reconnect = reconnect;
        self
    }

    /// The bounds of what the peer may send.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}
