//! What a peer may send, and what it did wrong.

/// Bounds of what a peer may send. Memory grows with what has arrived, never with a length that
/// was merely announced; these bounds stop what arrives from growing without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest string, in bytes.
    pub max_bulk_bytes: usize,
    /// All the strings of one reply together, in bytes.
    pub max_reply_bytes: usize,
    /// The deepest nesting of collections. Over [`Limits::DEEPEST`] it counts as that.
    pub max_depth: usize,
    /// The most elements of one reply, all its collections together (a pair counts two).
    pub max_elements: usize,
    /// The longest line (status, error, number), in bytes.
    pub max_line_bytes: usize,
}

impl Limits {
    /// Nesting that a reply never exceeds, whatever `max_depth` says: dropping, comparing and
    /// printing a [`Reply`](crate::Reply) recurse.
    pub const DEEPEST: usize = 512;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bulk_bytes: 512 * 1024 * 1024,
            max_reply_bytes: 1024 * 1024 * 1024,
            max_depth: 64,
            max_elements: 8 * 1024 * 1024,
            max_line_bytes: 64 * 1024,
        }
    }
}

/// A frame that is not RESP, or over the bounds. The connection that sent it is dropped: where
/// the next reply would start is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame starts with a byte that no type has.
    #[error("a frame can't start with byte {0:#04x}; is this a Valkey port?")]
    UnknownType(u8),

    /// An integer that the server would not print: empty, not decimal, a plus sign, leading
    /// zeros, `-0`, or outside 64 bits.
    #[error("an integer is malformed")]
    BadInteger,

    /// The length of a string or the size of a collection is malformed or negative. Streamed
    /// lengths (`?`), which no server sends, are refused too.
    #[error("a length is malformed")]
    BadLength,

    /// A floating point number is malformed.
    #[error("a double is malformed")]
    BadDouble,

    /// A truth value is neither `t` nor `f`.
    #[error("a boolean is malformed")]
    BadBool,

    /// The null carries something.
    #[error("a null is malformed")]
    BadNull,

    /// A big number is not a row of digits.
    #[error("a big number is malformed")]
    BadBigNumber,

    /// A verbatim string lacks its three-byte format and the colon.
    #[error("a verbatim string is malformed")]
    BadVerbatim,

    /// A line or a string doesn't end in CRLF.
    #[error("a CRLF is missing")]
    MissingCrlf,

    /// Out-of-band data inside another reply.
    #[error("a push stands inside another reply")]
    NestedPush,

    /// A string is longer than the bound.
    #[error("a string of {announced} bytes is over the bound of {limit}; raise max_bulk_bytes")]
    BulkTooLong {
        /// What the peer announced.
        announced: u64,
        /// The bound.
        limit: usize,
    },

    /// The strings of one reply are together longer than the bound.
    #[error("a reply is over the bound of {limit} bytes; ask for less or raise max_reply_bytes")]
    ReplyTooLong {
        /// The bound.
        limit: usize,
    },

    /// A line is longer than the bound.
    #[error("a line is over the bound of {limit} bytes; raise max_line_bytes")]
    LineTooLong {
        /// The bound.
        limit: usize,
    },

    /// A reply has more elements than the bound.
    #[error("a reply is over the bound of {limit} elements; ask for less or raise max_elements")]
    TooManyElements {
        /// The bound.
        limit: usize,
    },

    /// Collections are nested deeper than the bound.
    #[error("a reply is nested deeper than the bound of {limit}; raise max_depth")]
    TooDeep {
        /// The bound.
        limit: usize,
    },
}
