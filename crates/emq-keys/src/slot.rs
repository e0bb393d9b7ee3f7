//! Where a cluster keeps a key.

/// How many slots a cluster has.
pub const SLOT_COUNT: u16 = 16_384;

/// CRC16-XMODEM: polynomial 0x1021, start 0, most significant bit first.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// CRC16-XMODEM of some bytes.
///
/// ```
/// assert_eq!(emq_keys::crc16(b"123456789"), 0x31C3);
/// ```
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of a key, 0..16384: of its hashtag, or of the whole key where it has none.
///
/// ```
/// use emq_keys::slot;
/// assert_eq!(slot(b"emq:{orders}:pending"), 105);
/// assert_eq!(slot(b"{emq}:version"), 9051);
/// ```
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    crc16(hashtag(key).unwrap_or(key)) % SLOT_COUNT
}

/// As the server sees it: what stands between the first `{` and the first `}` after it, when that is
/// not empty. A later pair of braces is never looked at.
fn hashtag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let after = &key[open + 1..];
    let close = after.iter().position(|&byte| byte == b'}')?;
    (close > 0).then(|| &after[..close])
}
