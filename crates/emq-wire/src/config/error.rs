//! What is wrong with a configuration.

/// Why a configuration can't be used, and what to write instead. Never shows a secret, nor a
/// part of a URL that could turn out to be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not a URL at all.
    #[error("not a URL ({reason}); write valkey://host:port/db")]
    Url {
        /// What the parser said.
        reason: String,
    },

    /// A scheme that means nothing here.
    #[error("unknown scheme; write valkey://, valkeys:// or valkey+unix:// (or redis alike)")]
    Scheme,

    /// An `@` behind the host: most likely a password with an unencoded `/`, `?` or `#`.
    #[error(
        "an @ stands behind the host; percent-encode / ? # @ and : in user, password and options"
    )]
    StrayAt,

    /// A `#` and something behind it.
    #[error("a # has no meaning here; percent-encode it as %23")]
    Fragment,

    /// No host.
    #[error("the host is missing; write valkey://host:port/db")]
    MissingHost,

    /// A user, and no password.
    #[error(
        "a user needs a password; write user:password@host, or :password@host for the default user"
    )]
    UserWithoutPassword,

    /// The database isn't a number.
    #[error("the database must be a whole number; write valkey://host:port/db")]
    Database,

    /// A unix URL with a host.
    #[error("a unix socket has no host; write valkey+unix:///path with three slashes")]
    UnixHost,

    /// A unix URL without an absolute path.
    #[error("the path of the socket is missing; write valkey+unix:///path")]
    UnixPath,

    /// Percent-encoding that isn't UTF-8.
    #[error("the {part} is not UTF-8 after percent-decoding")]
    Encoding {
        /// Which part.
        part: &'static str,
    },

    /// An option that doesn't exist, or not for this kind of address.
    #[error(
        "unknown option {name}; known are protocol, client_name, connect_timeout_ms, \
        response_timeout_ms, heartbeat_ms, max_in_flight, and for a unix socket db, user, password"
    )]
    UnknownOption {
        /// Its name.
        name: String,
    },

    /// An option that stands there twice.
    #[error("option {name} is given twice; keep one")]
    RepeatedOption {
        /// Its name.
        name: String,
    },

    /// An option of the wrong type.
    #[error("option {name} must be {wanted}")]
    OptionValue {
        /// Its name.
        name: String,
        /// What it should be.
        wanted: &'static str,
    },

    /// A bound of zero, with which nothing could ever work.
    #[error("{what} must be more than zero")]
    ZeroBound {
        /// The setting.
        what: &'static str,
    },

    /// The cap of the reconnect backoff is under its base.
    #[error("the cap of the reconnect backoff is under its base; raise the cap")]
    ReconnectCap,

    /// The server accepts only printable ASCII without spaces as a client's name.
    #[error("a client name is printable ASCII without spaces, and not empty")]
    ClientName,

    /// A TLS address in a build that has no TLS.
    #[error("TLS is not built yet; use valkey:// on a trusted network, or a local TLS tunnel")]
    Tls,
}
