//! The payload's digits: base62 in ASCII order, eleven of them, padded on the left with `0`.

/// Digits of one payload.
pub(crate) const DIGITS: usize = 11;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The payload of `value`. Every `u64` fits: 62^11 is greater than 2^64.
pub(crate) const fn encode(mut value: u64) -> [u8; DIGITS] {
    let mut digits = [b'0'; DIGITS];
    let mut at = DIGITS;
    while at > 0 {
        at -= 1;
        digits[at] = ALPHABET[(value % 62) as usize];
        value /= 62;
    }
    digits
}

/// The value of one digit, or `None` for a byte outside the alphabet.
pub(crate) const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'Z' => Some(byte - b'A' + 10),
        b'a'..=b'z' => Some(byte - b'a' + 36),
        _ => None,
    }
}

/// The value of a payload that already passed the charset and range gates, so it fits in 63 bits.
pub(crate) fn decode_gated(payload: &[u8]) -> u64 {
    payload.iter().fold(0, |value, &byte| value * 62 + u64::from(digit(byte).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_ascends_in_ascii_and_digits_invert_it() {
        assert!(ALPHABET.is_sorted());
        for (value, &byte) in ALPHABET.iter().enumerate() {
            assert_eq!(digit(byte).map(usize::from), Some(value));
        }
        let inside = (0..=u8::MAX).filter(|&byte| digit(byte).is_some()).count();
        assert_eq!(inside, 62);
    }
}
