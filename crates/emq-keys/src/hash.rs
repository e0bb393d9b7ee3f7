//! The placement hash.

/// Spreads a snowflake over 32 bits. For placement alone, with power-of-two moduli up to 2^8
/// (see [`BrandedId::placement`](crate::BrandedId::placement)); fairness never rests on it.
///
/// ```
/// assert_eq!(emq_keys::hash32(1), 2_466_077_478);
/// ```
#[must_use]
pub const fn hash32(snowflake: u64) -> u32 {
    let mut k = snowflake;
    k ^= k >> 33;
    k = k.wrapping_mul(0xFF51_AFD7_ED55_8CCD); // modulo 2^64 by definition
    k ^= k >> 33;
    (k & 0xFFFF_FFFF) as u32
}
