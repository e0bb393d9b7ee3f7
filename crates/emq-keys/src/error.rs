//! Why bytes are not a branded id.

use std::fmt;

/// The gates of an id, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// Exactly 14 bytes.
    Length,
    /// The first three bytes are in `[A-Z]`.
    Namespace,
    /// The other eleven are base62 digits.
    Charset,
    /// The payload is at most [`MAX_PAYLOAD`](crate::MAX_PAYLOAD), the value below 2^63.
    Range,
}

impl Gate {
    /// The gate's name in the vectors: `length`, `namespace`, `charset` or `range`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Gate::Length => "length",
            Gate::Namespace => "namespace",
            Gate::Charset => "charset",
            Gate::Range => "range",
        }
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rejection of an id. It names exactly one [`Gate`]: the first that did not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdError {
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Length { bytes: usize },
    NamespaceLength { bytes: usize },
    Namespace { at: usize, byte: u8 },
    Charset { at: usize, byte: u8 },
    Payload,
    Snowflake { value: u64 },
    Time { unix_ms: u64 },
}

impl IdError {
    pub(crate) const fn length(bytes: usize) -> Self {
        IdError { reason: Reason::Length { bytes } }
    }

    pub(crate) const fn namespace_length(bytes: usize) -> Self {
        IdError { reason: Reason::NamespaceLength { bytes } }
    }

    pub(crate) const fn namespace(at: usize, byte: u8) -> Self {
        IdError { reason: Reason::Namespace { at, byte } }
    }

    pub(crate) const fn charset(at: usize, byte: u8) -> Self {
        IdError { reason: Reason::Charset { at, byte } }
    }

    pub(crate) const fn payload() -> Self {
        IdError { reason: Reason::Payload }
    }

    pub(crate) const fn snowflake(value: u64) -> Self {
        IdError { reason: Reason::Snowflake { value } }
    }

    pub(crate) const fn time(unix_ms: u64) -> Self {
        IdError { reason: Reason::Time { unix_ms } }
    }

    /// The one gate that rejected.
    #[must_use]
    pub const fn gate(&self) -> Gate {
        match self.reason {
            Reason::Length { .. } => Gate::Length,
            Reason::NamespaceLength { .. } | Reason::Namespace { .. } => Gate::Namespace,
            Reason::Charset { .. } => Gate::Charset,
            Reason::Payload | Reason::Snowflake { .. } | Reason::Time { .. } => Gate::Range,
        }
    }
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.gate())?;
        match self.reason {
            Reason::Length { bytes } => write!(
                f,
                "an id is 14 bytes and this is {bytes}; pass a branded id like JOB0KHTOWnGLuC, or \
                 derive one from an outside name"
            ),
            Reason::NamespaceLength { bytes } => {
                write!(f, "a namespace is three capital letters A-Z and this is {bytes} bytes")
            }
            Reason::Namespace { at, byte } => write!(
                f,
                "byte {at} is '{}', but the first three must be capital letters A-Z",
                byte.escape_ascii()
            ),
            Reason::Charset { at, byte } => write!(
                f,
                "byte {at} is '{}', but a payload has only 0-9, A-Z and a-z",
                byte.escape_ascii()
            ),
            Reason::Payload => f.write_str(
                "the payload is greater than AzL8n0Y58m7 (2^63 - 1), so no minter made this id",
            ),
            Reason::Snowflake { value } => {
                write!(f, "{value} does not fit; a snowflake is below 2^63")
            }
            Reason::Time { unix_ms } => write!(
                f,
                "{unix_ms} ms has no place in an id; give unix milliseconds from {} to {}",
                crate::EPOCH_MS,
                crate::MAX_UNIX_MS
            ),
        }
    }
}

impl std::error::Error for IdError {}
