//! Replies and bytes in words, for reports and for golden sessions.

use emq_wire::Reply;

/// How much of a long text a report shows.
const SHOWN: usize = 200;

/// A reply on one line.
pub(crate) fn show(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".to_owned(),
        Reply::Int(n) => n.to_string(),
        Reply::Error(error) => format!("the error {:?}", error.message()),
        Reply::Array(items) => {
            let items: Vec<_> = items.iter().take(SHOWN).map(show).collect();
            format!("[{}]", items.join(", "))
        }
        other => match other.as_bytes() {
            Some(bytes) if bytes.len() > SHOWN => format!("a text of {} bytes", bytes.len()),
            Some(bytes) => format!("\"{}\"", escape(bytes)),
            None => format!("{other:?}"),
        },
    }
}

/// Printable ASCII as it is, everything else as `\r`, `\n`, `\\` or `\xNN`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\\' => text.push_str("\\\\"),
            0x20..=0x7e => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// The bytes that [`escape`] wrote so.
pub(crate) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let unescaped = match byte {
            b'\\' => match rest.next()? {
                b'r' => b'\r',
                b'n' => b'\n',
                b'\\' => b'\\',
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                _ => return None,
            },
            plain => plain,
        };
        bytes.push(unescaped);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unescape(&escape(&all)).unwrap(), all);
        assert!(["\\", "\\q", "\\x1"].into_iter().all(|text| unescape(text).is_none()));
    }
}
