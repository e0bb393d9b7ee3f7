//! The numbers of RESP, as strictly as the server itself reads them.

/// A malformed number; the caller knows which kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Reads a decimal integer and its CRLF: the value and the bytes taken, or `None` when the line
/// isn't complete.
///
/// Only the form that the server prints is accepted: no plus sign, no leading zero, no `-0`.
/// Anything else means that this isn't the start of a number at all. At most 21 bytes are looked
/// at, so starting over when more bytes arrive costs nothing that grows.
#[inline]
pub(super) fn integer(line: &[u8]) -> Result<Option<(i64, usize)>, Malformed> {
    let sign = usize::from(line.first() == Some(&b'-'));
    let mut value: u64 = 0;
    for (at, &byte) in line[sign..].iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                // Nineteen digits can't overflow 64 bits.
                if at == 19 || (at == 1 && value == 0) {
                    return Err(Malformed);
                }
                value = value * 10 + u64::from(byte - b'0');
            }
            b'\r' if at > 0 => {
                let taken = sign + at + 2;
                return match line.get(taken - 1) {
                    None => Ok(None),
                    Some(b'\n') => signed(sign == 1, value).map(|value| Some((value, taken))),
                    Some(_) => Err(Malformed),
                };
            }
            _ => return Err(Malformed),
        }
    }
    Ok(None)
}

fn signed(negative: bool, value: u64) -> Result<i64, Malformed> {
    if !negative {
        return i64::try_from(value).map_err(|_| Malformed);
    }
    if value == 0 {
        return Err(Malformed);
    }
    0_i64.checked_sub_unsigned(value).ok_or(Malformed)
}

/// Reads a double: `inf`, `-inf`, `nan`, or decimal with an optional fraction and exponent.
pub(super) fn double(text: &[u8]) -> Result<f64, Malformed> {
    match text {
        b"inf" => return Ok(f64::INFINITY),
        b"-inf" => return Ok(f64::NEG_INFINITY),
        // Which sign the C library prints for a nan is an accident of the platform.
        b"nan" | b"-nan" => return Ok(f64::NAN),
        _ => {}
    }
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let decimal = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    if !unsigned.first().is_some_and(u8::is_ascii_digit) || !unsigned.iter().all(decimal) {
        return Err(Malformed);
    }
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Malformed)
}

/// Whether this is an integer of any size: digits, with at most one sign before them.
pub(super) fn is_big(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_as_the_server_prints_them() {
        for value in [0, 1, -1, 9, 10, 1_234_567, i64::MAX, i64::MIN] {
            let line = format!("{value}\r\nrest");
            assert_eq!(integer(line.as_bytes()), Ok(Some((value, line.len() - 4))), "{line}");
            for cut in 0..line.len() - 4 {
                assert_eq!(integer(&line.as_bytes()[..cut]), Ok(None), "{line} cut at {cut}");
            }
        }
    }

    #[test]
    fn integers_that_no_server_prints() {
        for line in [
            "\r\n",
            "-\r\n",
            "+5\r\n",
            "-0\r\n",
            "00\r\n",
            "007\r\n",
            "-01\r\n",
            "1 \r\n",
            " 1\r\n",
            "1\rx",
            "1\n",
            "0x1\r\n",
            "1.0\r\n",
            "--1\r\n",
            "9223372036854775808\r\n",
            "-9223372036854775809\r\n",
            "10000000000000000000\r\n",
            "99999999999999999999\r\n",
            "?\r\n",
        ] {
            assert_eq!(integer(line.as_bytes()), Err(Malformed), "{line:?}");
        }
    }

    #[test]
    fn doubles() {
        for (text, value) in [
            ("0", 0.0),
            ("1", 1.0),
            ("-1.5", -1.5),
            ("3.25", 3.25),
            ("1e+20", 1e20),
            ("2E-3", 2e-3),
            ("inf", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
            ("1e999", f64::INFINITY),
        ] {
            assert_eq!(double(text.as_bytes()), Ok(value), "{text}");
        }
        assert!(double(b"nan").is_ok_and(f64::is_nan));
        for text in
            ["", "-", "+1", ".5", "e5", "1e", "1.2.3", "infinity", "Inf", "NaN", "0x10", "1_0"]
        {
            assert_eq!(double(text.as_bytes()), Err(Malformed), "{text:?}");
        }
    }

    #[test]
    fn big_numbers() {
        for text in ["0", "-1", "+1", "3492890328409238509324850943850943825024385"] {
            assert!(is_big(text.as_bytes()), "{text}");
        }
        for text in ["", "-", "+", "1a", "--1", "1.0", " 1"] {
            assert!(!is_big(text.as_bytes()), "{text:?}");
        }
    }
}
