//! What a configuration must fulfil before anything is dialled.

use std::time::Duration;

use super::{Address, Config, ConfigError};

impl Config {
    /// Checks what the types can't: bounds that aren't zero, a name that the server accepts, a
    /// transport that this build has. Connecting does it too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use emq_wire::{Config, ConfigError};
    /// let config: Config = "valkey://localhost".parse()?;
    /// assert_eq!(config.validate(), Ok(()));
    /// let deaf = config.heartbeat(Duration::ZERO, Duration::from_secs(1));
    /// assert!(matches!(deaf.validate(), Err(ConfigError::ZeroBound { .. })));
    /// # Ok::<(), ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_bounds()?;
        match &self.address {
            Address::Tls { .. } => Err(ConfigError::Tls),
            Address::Tcp { host, .. } if host.is_empty() => Err(ConfigError::MissingHost),
            Address::Unix(path) if path.as_os_str().is_empty() => Err(ConfigError::UnixPath),
            Address::Tcp { .. } | Address::Unix(_) => Ok(()),
        }
    }

    /// Everything but the transport: what a URL is checked for when it is read.
    pub(super) fn validate_bounds(&self) -> Result<(), ConfigError> {
        for (bound, what) in [
            (self.connect_timeout, "connect_timeout"),
            (self.response_timeout.unwrap_or(Duration::MAX), "response_timeout"),
            (self.heartbeat, "heartbeat"),
            (self.heartbeat_timeout, "heartbeat_timeout"),
            (self.reconnect.base, "reconnect.base"),
        ] {
            if bound.is_zero() {
                return Err(ConfigError::ZeroBound { what });
            }
        }
        for (bound, what) in [
            (self.max_in_flight, "max_in_flight"),
            (self.max_queued_bytes, "max_queued_bytes"),
            (self.limits.max_bulk_bytes, "limits.max_bulk_bytes"),
            (self.limits.max_reply_bytes, "limits.max_reply_bytes"),
            (self.limits.max_depth, "limits.max_depth"),
            (self.limits.max_elements, "limits.max_elements"),
            (self.limits.max_line_bytes, "limits.max_line_bytes"),
        ] {
            if bound == 0 {
                return Err(ConfigError::ZeroBound { what });
            }
        }
        if self.reconnect.cap < self.reconnect.base {
            return Err(ConfigError::ReconnectCap);
        }
        match &self.client_name {
            Some(name) if name.is_empty() => Err(ConfigError::ClientName),
            Some(name) if !name.bytes().all(|b| b.is_ascii_graphic()) => {
                Err(ConfigError::ClientName)
            }
            _ => Ok(()),
        }
    }
}
