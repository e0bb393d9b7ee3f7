//! What a server answers, as a value.

use std::fmt;

use bytes::{Bytes, BytesMut};

/// One reply of the server. Long byte strings are slices of the connection's read buffer, short
/// ones are copies; see [`Reply::detach`] before storing a long one for a long time.
///
/// A server error is a value like any other: it closes nothing and it may stand inside a
/// pipeline between two successes.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A RESP2 null string, a RESP2 null array or the RESP3 null.
    Nil,
    /// An integer.
    Int(i64),
    /// A status line such as `OK`.
    Simple(Bytes),
    /// A binary-safe string.
    Bulk(Bytes),
    /// An ordered list.
    Array(Vec<Reply>),
    /// The server refused the command.
    Error(ServerError),
    /// RESP3: a floating point number.
    Double(f64),
    /// RESP3: a truth value.
    Bool(bool),
    /// RESP3: an integer of any size, as its digits.
    BigNumber(Bytes),
    /// RESP3: text with a three-byte format mark.
    Verbatim {
        /// The format, `txt` or `mkd`.
        format: [u8; 3],
        /// The text itself.
        text: Bytes,
    },
    /// RESP3: pairs in the server's order.
    Map(Vec<(Reply, Reply)>),
    /// RESP3: an unordered collection, in the server's order.
    Set(Vec<Reply>),
    /// RESP3: out-of-band data. It never answers a command.
    Push(Vec<Reply>),
}

impl Reply {
    /// The integer, when this is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The bytes of a status, a string, a verbatim text or a big number.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Simple(b) | Self::Bulk(b) | Self::BigNumber(b) => Some(b),
            Self::Verbatim { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The elements of a list or a set.
    pub fn as_array(&self) -> Option<&[Reply]> {
        match self {
            Self::Array(items) | Self::Set(items) => Some(items),
            _ => None,
        }
    }

    /// The server's error, when this is one.
    pub fn as_error(&self) -> Option<&ServerError> {
        match self {
            Self::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Whether this is the null reply.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    /// Copies the reply's strings into one allocation of their exact size.
    ///
    /// A slice of the read buffer keeps all of it alive (64 KiB or so) as long as the slice
    /// lives. That is the cheapest for replies that are looked at and dropped; what is kept
    /// beyond that, such as the payload of a job that runs for an hour, is better detached.
    #[must_use]
    pub fn detach(self) -> Self {
        let total = self.string_bytes();
        let mut block = BytesMut::with_capacity(total);
        self.map_strings(&mut |text| {
            block.extend_from_slice(&text);
            block.split().freeze()
        })
    }

    fn string_bytes(&self) -> usize {
        match self {
            Self::Nil | Self::Int(_) | Self::Double(_) | Self::Bool(_) => 0,
            Self::Simple(b) | Self::Bulk(b) | Self::BigNumber(b) => b.len(),
            Self::Verbatim { text, .. } => text.len(),
            Self::Error(error) => error.line.len(),
            Self::Array(items) | Self::Set(items) | Self::Push(items) => {
                items.iter().map(Self::string_bytes).sum()
            }
            Self::Map(pairs) => {
                pairs.iter().map(|(k, v)| k.string_bytes() + v.string_bytes()).sum()
            }
        }
    }

    fn map_strings(self, f: &mut dyn FnMut(Bytes) -> Bytes) -> Self {
        let mut all =
            |items: Vec<Self>| items.into_iter().map(|item| item.map_strings(f)).collect();
        match self {
            Self::Nil | Self::Int(_) | Self::Double(_) | Self::Bool(_) => self,
            Self::Array(items) => Self::Array(all(items)),
            Self::Set(items) => Self::Set(all(items)),
            Self::Push(items) => Self::Push(all(items)),
            Self::Map(pairs) => {
                let pair = |(k, v): (Self, Self)| (k.map_strings(f), v.map_strings(f));
                Self::Map(pairs.into_iter().map(pair).collect())
            }
            Self::Simple(text) => Self::Simple(f(text)),
            Self::Bulk(text) => Self::Bulk(f(text)),
            Self::BigNumber(text) => Self::BigNumber(f(text)),
            Self::Verbatim { format, text } => Self::Verbatim { format, text: f(text) },
            Self::Error(ServerError { line, class_len }) => {
                Self::Error(ServerError { line: f(line), class_len })
            }
        }
    }

    /// Turns an error reply into `Err`, anything else into `Ok`.
    ///
    /// # Errors
    /// The server's own error.
    pub fn into_result(self) -> Result<Reply, ServerError> {
        match self {
            Self::Error(error) => Err(error),
            other => Ok(other),
        }
    }
}

/// An error reply, word for word: `class` is its first word, `message` the rest.
///
/// Classes this crate has never heard of survive intact: the whole line is kept once and both
/// parts are slices of it.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerError {
    line: Bytes,
    class_len: usize,
}

impl ServerError {
    /// Splits an error line, without its leading `-` and its CRLF.
    pub fn from_line(line: Bytes) -> Self {
        let class_len = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
        Self { line, class_len }
    }

    /// The first word, `ERR`, `NOSCRIPT`, `OOM`, ... (empty when the server sent bytes that
    /// aren't UTF-8).
    pub fn class(&self) -> &str {
        std::str::from_utf8(&self.line[..self.class_len]).unwrap_or("")
    }

    /// What follows the class.
    pub fn message(&self) -> std::borrow::Cow<'_, str> {
        let rest = &self.line[self.class_len..];
        String::from_utf8_lossy(rest.strip_prefix(b" ").unwrap_or(rest))
    }

    /// The whole line as the server sent it.
    pub fn line(&self) -> &Bytes {
        &self.line
    }

    /// Whether the first word is `class`.
    pub fn is(&self, class: &str) -> bool {
        self.line[..self.class_len] == *class.as_bytes()
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.line))
    }
}

impl fmt::Debug for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerError({:?})", String::from_utf8_lossy(&self.line))
    }
}

impl std::error::Error for ServerError {}
