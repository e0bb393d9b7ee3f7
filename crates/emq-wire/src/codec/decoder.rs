//! Replies, decoded in one resumable pass.
//!
//! One loop with a stack of open collections of its own, so nesting costs no call stack. What is
//! decoded is taken off the buffer at once: when bytes run out, only the line or the string that
//! is incomplete stays, together with how far it was searched. No byte is parsed twice, except
//! the at most 21 of a number.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr2;

use super::nesting::{Level, Shape};
use super::number;
use super::peek::{Plain, integer, plain, take};
use super::{Limits, ProtocolError, Reply, ServerError};

/// Decodes one reply after the other from a growing buffer. Incomplete input is no error: the
/// next call resumes where this one stopped.
///
/// Strings of up to 32 bytes are copied, longer ones are slices of `buf`. Who keeps long strings
/// of a reply for a long time lets go of the buffer with [`Reply::detach`].
///
/// ```
/// use bytes::BytesMut;
/// use emq_wire::{Decoder, Limits, Reply};
///
/// let mut decoder = Decoder::new(Limits::default());
/// let mut buf = BytesMut::from("*2\r\n:1\r\n$5\r\nhel");
/// assert_eq!(decoder.decode(&mut buf)?, None);
/// buf.extend_from_slice(b"lo\r\n+OK\r\n");
/// let pair = Reply::Array(vec![Reply::Int(1), Reply::Bulk("hello".into())]);
/// assert_eq!(decoder.decode(&mut buf)?, Some(pair));
/// assert_eq!(decoder.decode(&mut buf)?, Some(Reply::Simple("OK".into())));
/// assert_eq!(decoder.decode(&mut buf)?, None);
/// # Ok::<(), emq_wire::ProtocolError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    /// The collections that were begun and not finished, outermost first.
    open: Vec<Level>,
    /// A string whose header was taken and whose bytes haven't all come.
    pending: Option<Pending>,
    /// How much of an incomplete line was searched for its end already.
    searched: usize,
    /// Elements announced by the reply under way.
    elements: usize,
    /// Bytes of strings in the reply under way.
    bytes: usize,
    failed: Option<ProtocolError>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    kind: Text,
    len: usize,
}

/// The types whose bytes are counted rather than ended by CRLF.
#[derive(Clone, Copy, Debug)]
enum Text {
    Bulk,
    Error,
    Verbatim,
}

enum Step {
    /// One more value, which may close collections.
    Value(Reply),
    /// A collection was begun, or something was skipped.
    Nothing,
    /// More bytes must come.
    Incomplete,
}

type Progress = Result<Step, ProtocolError>;

impl Decoder {
    /// A decoder with bounds.
    pub fn new(mut limits: Limits) -> Self {
        limits.max_depth = limits.max_depth.min(Limits::DEEPEST);
        Self {
            limits,
            open: Vec::new(),
            pending: None,
            searched: 0,
            elements: 0,
            bytes: 0,
            failed: None,
        }
    }

    /// Takes the next complete reply off the front of `buf`, or `None` until more bytes come.
    /// Between calls `buf` may only grow at its end.
    ///
    /// # Errors
    /// A malformed or oversized frame; every later call answers the same.
    pub fn decode(&mut self, buf: &mut BytesMut) -> Result<Option<Reply>, ProtocolError> {
        if self.is_between_replies() && self.failed.is_none() {
            // The commonest replies of all, without the loop.
            match plain(buf) {
                Plain::Int { value, whole } => {
                    buf.advance(whole);
                    return Ok(Some(Reply::Int(value)));
                }
                Plain::Text { header, len } if len <= self.most_text() => {
                    let mut at = 0;
                    let text = take(buf, &mut at, header, len);
                    buf.advance(at + 2);
                    return Ok(Some(Reply::Bulk(text)));
                }
                _ if buf.starts_with(b"+OK\r\n") => {
                    buf.advance(5);
                    self.searched = 0;
                    return Ok(Some(Reply::Simple(Bytes::from_static(b"OK"))));
                }
                _ => {}
            }
        }
        self.decode_any(buf)
    }

    /// The longest string that the reply under way may still hold.
    fn most_text(&self) -> usize {
        self.limits.max_bulk_bytes.min(self.limits.max_reply_bytes - self.bytes)
    }

    fn decode_any(&mut self, buf: &mut BytesMut) -> Result<Option<Reply>, ProtocolError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut at = 0;
        let outcome = self.run(buf, &mut at);
        buf.advance(at);
        if let Err(error) = &outcome {
            self.failed = Some(error.clone());
        }
        outcome
    }

    /// Whether nothing of a next reply has been taken yet: what an orderly end of the stream
    /// looks like, given that the buffer is empty too.
    pub fn is_between_replies(&self) -> bool {
        self.open.is_empty() && self.pending.is_none() && self.elements == 0
    }

    /// Decodes until a reply is complete. `at` is how much of `buf` was decoded: moving the
    /// buffer itself for each small element would cost more than the element.
    fn run(&mut self, buf: &mut BytesMut, at: &mut usize) -> Result<Option<Reply>, ProtocolError> {
        loop {
            let step = match self.pending {
                Some(pending) => self.body(pending, buf, at)?,
                None => self.frame(buf, at)?,
            };
            match (step, self.open.last_mut()) {
                (Step::Incomplete, _) => return Ok(None),
                (Step::Value(reply), None) => return Ok(Some(self.finish(reply))),
                (Step::Value(value), Some(level)) => level.place(value),
                (Step::Nothing, _) => {}
            }
            self.fill(buf, at);
            if let Some(reply) = self.close() {
                return Ok(Some(self.finish(reply)));
            }
        }
    }

    fn finish(&mut self, reply: Reply) -> Reply {
        (self.elements, self.bytes) = (0, 0);
        reply
    }

    /// Closes the collections that are full. The outermost one is the reply.
    fn close(&mut self) -> Option<Reply> {
        while self.open.last().is_some_and(Level::is_full) {
            let Some(value) = self.open.pop()?.into_reply() else { continue };
            match self.open.last_mut() {
                Some(level) => level.place(value),
                None => return Some(value),
            }
        }
        None
    }

    /// Puts the strings and integers that most lists consist of straight into the innermost
    /// collection. It stops before anything else, and before what is incomplete or wrong: `frame`
    /// sees to those.
    fn fill(&mut self, buf: &mut BytesMut, at: &mut usize) {
        let mut most = self.most_text();
        let Some(level) = self.open.last_mut() else { return };
        while !level.is_full() {
            match plain(&buf[*at..]) {
                Plain::Int { value, whole } => {
                    *at += whole;
                    level.place(Reply::Int(value));
                }
                Plain::Text { header, len } if len <= most => {
                    self.bytes += len;
                    most = most.min(self.limits.max_reply_bytes - self.bytes);
                    level.place(Reply::Bulk(take(buf, at, header, len)));
                    *at += 2;
                }
                Plain::Text { .. } | Plain::Other => return,
            }
        }
    }

    fn frame(&mut self, buf: &mut BytesMut, at: &mut usize) -> Progress {
        let Some(&tag) = buf.get(*at) else { return Ok(Step::Incomplete) };
        match tag {
            b'$' => self.string(Text::Bulk, buf, at),
            b':' => {
                let Some(value) = integer(buf, at, ProtocolError::BadInteger)? else {
                    return Ok(Step::Incomplete);
                };
                Ok(Step::Value(Reply::Int(value)))
            }
            b'*' => self.collection(Shape::Array, buf, at),
            b'+' if buf[*at + 1..].starts_with(b"OK\r\n") => {
                *at += 5;
                self.searched = 0;
                Ok(Step::Value(Reply::Simple(Bytes::from_static(b"OK"))))
            }
            b'+' | b'-' | b'_' | b'#' | b',' | b'(' => self.line(tag, buf, at),
            b'!' => self.string(Text::Error, buf, at),
            b'=' => self.string(Text::Verbatim, buf, at),
            b'%' => self.collection(Shape::Map, buf, at),
            b'~' => self.collection(Shape::Set, buf, at),
            b'>' => self.collection(Shape::Push, buf, at),
            b'|' => self.collection(Shape::Attribute, buf, at),
            other => Err(ProtocolError::UnknownType(other)),
        }
    }

    /// A frame that is one line.
    fn line(&mut self, tag: u8, buf: &mut BytesMut, at: &mut usize) -> Progress {
        let Some(len) = self.line_len(&buf[*at + 1..])? else { return Ok(Step::Incomplete) };
        let text = &buf[*at + 1..*at + 1 + len];
        let whole = len + 3;
        let value = match tag {
            b'_' if text.is_empty() => Reply::Nil,
            b'_' => return Err(ProtocolError::BadNull),
            b'#' => match text {
                b"t" => Reply::Bool(true),
                b"f" => Reply::Bool(false),
                _ => return Err(ProtocolError::BadBool),
            },
            b',' => Reply::Double(number::double(text).map_err(|_| ProtocolError::BadDouble)?),
            b'(' if !number::is_big(text) => return Err(ProtocolError::BadBigNumber),
            // Errors outlive the replies around them, in logs and in dead letters: always a copy.
            b'-' => {
                self.count_bytes(len)?;
                Reply::Error(ServerError::from_line(Bytes::copy_from_slice(text)))
            }
            b'+' if text == b"QUEUED" => Reply::Simple(Bytes::from_static(b"QUEUED")),
            b'+' if text == b"PONG" => Reply::Simple(Bytes::from_static(b"PONG")),
            _ => {
                self.count_bytes(len)?;
                let text = take(buf, at, 1, len);
                *at += 2;
                let simple = tag == b'+';
                let value = if simple { Reply::Simple(text) } else { Reply::BigNumber(text) };
                return Ok(Step::Value(value));
            }
        };
        *at += whole;
        Ok(Step::Value(value))
    }

    /// The length of the line that `bytes` start with, once its CRLF has come.
    fn line_len(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let limit = self.limits.max_line_bytes;
        let window = &bytes[..bytes.len().min(limit.saturating_add(1))];
        let fresh = window.get(self.searched..).unwrap_or(&[]);
        let Some(found) = memchr2(b'\r', b'\n', fresh) else {
            if window.len() > limit {
                return Err(ProtocolError::LineTooLong { limit });
            }
            self.searched = window.len();
            return Ok(None);
        };
        let len = self.searched + found;
        match (bytes[len], bytes.get(len + 1)) {
            (b'\r', None) => {
                self.searched = len;
                Ok(None)
            }
            (b'\r', Some(b'\n')) => {
                self.searched = 0;
                Ok(Some(len))
            }
            _ => Err(ProtocolError::MissingCrlf),
        }
    }

    /// A frame that announces how many bytes follow.
    fn string(&mut self, kind: Text, buf: &mut BytesMut, at: &mut usize) -> Progress {
        let Some(len) = integer(buf, at, ProtocolError::BadLength)? else {
            return Ok(Step::Incomplete);
        };
        if len == -1 && matches!(kind, Text::Bulk) {
            return Ok(Step::Value(Reply::Nil));
        }
        let announced = u64::try_from(len).map_err(|_| ProtocolError::BadLength)?;
        let limit = self.limits.max_bulk_bytes;
        let len = match usize::try_from(announced) {
            Ok(len) if len <= limit => len,
            _ => return Err(ProtocolError::BulkTooLong { announced, limit }),
        };
        if matches!(kind, Text::Verbatim) && len < 4 {
            return Err(ProtocolError::BadVerbatim);
        }
        self.count_bytes(len)?;
        self.body(Pending { kind, len }, buf, at)
    }

    /// The bytes of a string and the CRLF behind them.
    fn body(&mut self, pending: Pending, buf: &mut BytesMut, at: &mut usize) -> Progress {
        let Pending { kind, len } = pending;
        if buf.len() - *at < len.saturating_add(2) {
            self.pending = Some(pending);
            return Ok(Step::Incomplete);
        }
        if buf[*at + len..*at + len + 2] != *b"\r\n" {
            return Err(ProtocolError::MissingCrlf);
        }
        self.pending = None;
        let value = match kind {
            Text::Bulk => Reply::Bulk(take(buf, at, 0, len)),
            Text::Error => Reply::Error(ServerError::from_line(take(buf, at, 0, len))),
            Text::Verbatim => {
                let [a, b, c, b':'] = buf[*at..*at + 4] else {
                    return Err(ProtocolError::BadVerbatim);
                };
                Reply::Verbatim { format: [a, b, c], text: take(buf, at, 4, len - 4) }
            }
        };
        *at += 2;
        Ok(Step::Value(value))
    }

    /// A frame that announces how many elements follow.
    fn collection(&mut self, shape: Shape, buf: &mut BytesMut, at: &mut usize) -> Progress {
        let Some(count) = integer(buf, at, ProtocolError::BadLength)? else {
            return Ok(Step::Incomplete);
        };
        if count == -1 && matches!(shape, Shape::Array) {
            return Ok(Step::Value(Reply::Nil));
        }
        if matches!(shape, Shape::Push) && !self.open.is_empty() {
            return Err(ProtocolError::NestedPush);
        }
        let count = u64::try_from(count).map_err(|_| ProtocolError::BadLength)?;
        let values = self.count_elements(count, shape)?;
        if self.open.len() == self.limits.max_depth {
            return Err(ProtocolError::TooDeep { limit: self.limits.max_depth });
        }
        let level = Level::new(shape, values, self.open.len());
        if values > 0 {
            self.open.push(level);
            return Ok(Step::Nothing);
        }
        Ok(level.into_reply().map_or(Step::Nothing, Step::Value))
    }

    /// Counts announced elements against the bound of the whole reply. An attribute counts as
    /// one itself: an endless row of empty ones before a value must end too.
    fn count_elements(&mut self, count: u64, shape: Shape) -> Result<usize, ProtocolError> {
        let limit = self.limits.max_elements;
        let room = limit.saturating_sub(self.elements);
        let values = usize::try_from(count).ok().and_then(|n| n.checked_mul(shape.per_entry()));
        let values = values.filter(|n| *n <= room);
        let own = usize::from(matches!(shape, Shape::Attribute));
        match values {
            Some(values) if values + own <= room => {
                self.elements += values + own;
                Ok(values)
            }
            _ => Err(ProtocolError::TooManyElements { limit }),
        }
    }

    fn count_bytes(&mut self, len: usize) -> Result<(), ProtocolError> {
        let limit = self.limits.max_reply_bytes;
        self.bytes = self.bytes.saturating_add(len);
        if self.bytes > limit { Err(ProtocolError::ReplyTooLong { limit }) } else { Ok(()) }
    }
}
