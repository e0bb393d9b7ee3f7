//! Small reads at the front of the buffer.

use bytes::{Buf, Bytes, BytesMut};

use super::ProtocolError;
use super::number::{self, Malformed};

/// Strings up to this many bytes are copied out of the read buffer, longer ones are slices of
/// it. A slice keeps the whole buffer (64 KiB or so) alive: out of proportion for an id or a
/// counter that a caller stores away.
const COPY_UP_TO: usize = 32;

/// After a string of this many bytes the buffer, which grew for it, is given up to it: else the
/// connection would go on reading into the rest of it, and keep all of it alive.
const LARGE: usize = 256 * 1024;

/// A look at the start of a frame that may be one of the two common ones, and whole.
pub(super) enum Plain {
    Int { value: i64, whole: usize },
    Text { header: usize, len: usize },
    Other,
}

#[inline(always)]
pub(super) fn plain(bytes: &[u8]) -> Plain {
    let Some((&tag, line)) = bytes.split_first() else { return Plain::Other };
    if tag != b'$' && tag != b':' {
        return Plain::Other;
    }
    let Ok(Some((value, taken))) = number::integer(line) else { return Plain::Other };
    if tag == b':' {
        return Plain::Int { value, whole: taken + 1 };
    }
    let Ok(len) = usize::try_from(value) else { return Plain::Other };
    match line[taken..].get(len..) {
        Some([b'\r', b'\n', ..]) => Plain::Text { header: taken + 1, len },
        _ => Plain::Other,
    }
}

/// Reads the number of a header and steps over it, its tag and its CRLF.
#[inline]
pub(super) fn integer(
    buf: &BytesMut,
    at: &mut usize,
    malformed: ProtocolError,
) -> Result<Option<i64>, ProtocolError> {
    match number::integer(&buf[*at + 1..]) {
        Ok(Some((value, taken))) => {
            *at += 1 + taken;
            Ok(Some(value))
        }
        Ok(None) => Ok(None),
        Err(Malformed) => Err(malformed),
    }
}

/// A copy; of a single byte (a count, a flag) not even that.
fn short(text: &[u8]) -> Bytes {
    match text {
        [byte] => Bytes::from_static(&EACH_BYTE[usize::from(*byte)]),
        _ => Bytes::copy_from_slice(text),
    }
}

static EACH_BYTE: [[u8; 1]; 256] = {
    let mut table = [[0; 1]; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = [byte as u8];
        byte += 1;
    }
    table
};

/// Takes `len` bytes that start `skip` behind `at`, and steps over both: `at` is then where the
/// CRLF of the text stands.
#[inline]
pub(super) fn take(buf: &mut BytesMut, at: &mut usize, skip: usize, len: usize) -> Bytes {
    let start = *at + skip;
    if len <= COPY_UP_TO {
        *at = start + len;
        return short(&buf[start..start + len]);
    }
    buf.advance(start);
    *at = 0;
    let text = buf.split_to(len).freeze();
    if len >= LARGE && buf.len() < len {
        *buf = BytesMut::from(&buf[..]);
    }
    text
}
