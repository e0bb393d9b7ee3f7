//! The branded id: its layout, its gates and what can be read from it.

use std::fmt;
use std::str::FromStr;

use crate::base62;
use crate::error::IdError;
use crate::hash::hash32;
use crate::namespace::Namespace;

/// The first millisecond that an id can carry: 2024-01-01T00:00:00Z in unix milliseconds.
pub const EPOCH_MS: u64 = 1_704_067_200_000;

/// The last millisecond that an id can carry, in unix milliseconds (in the year 2093).
pub const MAX_UNIX_MS: u64 = EPOCH_MS + (1 << TIMESTAMP_BITS) - 1;

/// The greatest snowflake, 2^63 - 1.
pub const MAX_SNOWFLAKE: u64 = (1 << 63) - 1;

/// The payload of [`MAX_SNOWFLAKE`]; a greater one, in byte order, is out of range.
pub const MAX_PAYLOAD: &[u8; 11] = b"AzL8n0Y58m7";

pub(crate) const TIMESTAMP_BITS: u32 = 41;
pub(crate) const TIMESTAMP_SHIFT: u32 = 22;
pub(crate) const NODE_SHIFT: u32 = 12;
pub(crate) const SEQUENCE_MASK: u64 = 0xFFF;
const NODE_MASK: u64 = 0x3FF;

/// The name of an entity: 14 ASCII bytes, a [`Namespace`] of three and a payload of eleven.
///
/// The payload is a 63-bit snowflake in base62: 41 bits of milliseconds since [`EPOCH_MS`], 10 of
/// node, 12 of sequence. A value of this type passed every gate, so its text is always well formed.
///
/// `Ord` is byte order. Within one namespace that is also the order of the snowflakes, and for the
/// ids of one minter the order in which they were minted.
///
/// ```
/// use emq_keys::{BrandedId, Gate, namespace};
///
/// let id: BrandedId = "ORD0NgWEfAEJfs".parse()?;
/// assert_eq!(id.namespace(), namespace!("ORD"));
/// assert_eq!(id.snowflake(), 320_636_799_581_945_856);
/// assert_eq!(id.unix_ms(), 1_780_512_970_164);
/// assert_eq!(id, BrandedId::encode(namespace!("ORD"), 320_636_799_581_945_856)?);
///
/// let wrong = "12345678901234".parse::<BrandedId>().unwrap_err();
/// assert_eq!(wrong.gate(), Gate::Namespace);
/// # Ok::<(), emq_keys::IdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrandedId([u8; BrandedId::LEN]);

impl BrandedId {
    /// The length of every id, in bytes.
    pub const LEN: usize = 14;

    /// Reads an id. Total over arbitrary bytes: it never panics, and the range gate compares bytes,
    /// so it doesn't rely on an overflow.
    ///
    /// # Errors
    /// Names the first gate that did not open: length, namespace, charset, range.
    pub fn parse(bytes: &[u8]) -> Result<BrandedId, IdError> {
        let bytes: [u8; BrandedId::LEN] =
            bytes.try_into().map_err(|_| IdError::length(bytes.len()))?;
        let (namespace, payload) = bytes.split_at(3);
        if let Some(at) = namespace.iter().position(|byte| !byte.is_ascii_uppercase()) {
            return Err(IdError::namespace(at, namespace[at]));
        }
        if let Some(at) = payload.iter().position(|&byte| base62::digit(byte).is_none()) {
            return Err(IdError::charset(3 + at, payload[at]));
        }
        if payload > MAX_PAYLOAD.as_slice() {
            return Err(IdError::payload());
        }
        Ok(BrandedId(bytes))
    }

    /// The id of a kind and a snowflake.
    ///
    /// # Errors
    /// With [`Gate::Range`](crate::Gate::Range) when `snowflake` is 2^63 or more.
    pub const fn encode(namespace: Namespace, snowflake: u64) -> Result<BrandedId, IdError> {
        if snowflake > MAX_SNOWFLAKE {
            return Err(IdError::snowflake(snowflake));
        }
        Ok(BrandedId::from_gated(namespace, snowflake))
    }

    /// The id of a snowflake that is known to be below 2^63.
    pub(crate) const fn from_gated(namespace: Namespace, snowflake: u64) -> BrandedId {
        let [a, b, c] = *namespace.as_bytes();
        let p = base62::encode(snowflake);
        BrandedId([a, b, c, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10]])
    }

    /// The least id that a mint at `unix_ms` can have. The ids minted in `[t0, t1)` are exactly
    /// those from `min_for(t0)` up to, and without, `min_for(t1)`.
    ///
    /// # Errors
    /// With [`Gate::Range`](crate::Gate::Range) when `unix_ms` is before [`EPOCH_MS`] or after
    /// [`MAX_UNIX_MS`].
    ///
    /// ```
    /// use emq_keys::{BrandedId, Namespace};
    /// let id: BrandedId = "JOB0NgWEfAEJfs".parse()?;
    /// assert!(BrandedId::min_for(Namespace::JOB, id.unix_ms())? <= id);
    /// assert!(id < BrandedId::min_for(Namespace::JOB, id.unix_ms() + 1)?);
    /// # Ok::<(), emq_keys::IdError>(())
    /// ```
    pub const fn min_for(namespace: Namespace, unix_ms: u64) -> Result<BrandedId, IdError> {
        match timestamp(unix_ms) {
            Some(timestamp) => Ok(BrandedId::from_gated(namespace, timestamp << TIMESTAMP_SHIFT)),
            None => Err(IdError::time(unix_ms)),
        }
    }

    /// The kind of the entity.
    #[must_use]
    pub const fn namespace(&self) -> Namespace {
        Namespace::gated([self.0[0], self.0[1], self.0[2]])
    }

    /// The integer form, below 2^63.
    #[must_use]
    pub fn snowflake(&self) -> u64 {
        base62::decode_gated(&self.0[3..])
    }

    /// When it was minted, in unix milliseconds. Without meaning for an id made by
    /// [`derive`](BrandedId::derive).
    #[must_use]
    pub fn unix_ms(&self) -> u64 {
        (self.snowflake() >> TIMESTAMP_SHIFT) + EPOCH_MS
    }

    /// The node that minted it, 0..=1023.
    #[must_use]
    pub fn node(&self) -> u16 {
        ((self.snowflake() >> NODE_SHIFT) & NODE_MASK) as u16
    }

    /// Its place within its millisecond, 0..=4095.
    #[must_use]
    pub fn sequence(&self) -> u16 {
        (self.snowflake() & SEQUENCE_MASK) as u16
    }

    /// The placement hash of its snowflake; see [`hash32`].
    #[must_use]
    pub fn hash32(&self) -> u32 {
        hash32(self.snowflake())
    }

    /// Its partition among `2^bits`: the low bits of [`hash32`](BrandedId::hash32). `None` when
    /// `bits` is above 8, where the hash makes no promise. For placement, never for fairness.
    ///
    /// ```
    /// use emq_keys::BrandedId;
    /// let id: BrandedId = "USR0KHTOWnGLuC".parse()?;
    /// assert_eq!(id.hash32(), 234_878_118);
    /// assert_eq!(id.placement(8), Some((234_878_118_u32 % 256) as u8));
    /// assert_eq!(id.placement(9), None);
    /// # Ok::<(), emq_keys::IdError>(())
    /// ```
    #[must_use]
    pub fn placement(&self, bits: u32) -> Option<u8> {
        (bits <= 8).then(|| (self.hash32() & ((1 << bits) - 1)) as u8)
    }

    /// The text form, which is also the wire form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("an id is ASCII by construction")
    }

    /// The 14 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; BrandedId::LEN] {
        &self.0
    }
}

/// Milliseconds since [`EPOCH_MS`], or `None` when an id cannot carry that time.
pub(crate) const fn timestamp(unix_ms: u64) -> Option<u64> {
    if unix_ms < EPOCH_MS || unix_ms > MAX_UNIX_MS { None } else { Some(unix_ms - EPOCH_MS) }
}

impl fmt::Display for BrandedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for BrandedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BrandedId({self})")
    }
}

impl FromStr for BrandedId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        BrandedId::parse(text.as_bytes())
    }
}

impl TryFrom<&[u8]> for BrandedId {
    type Error = IdError;

    fn try_from(bytes: &[u8]) -> Result<Self, IdError> {
        BrandedId::parse(bytes)
    }
}

impl TryFrom<&str> for BrandedId {
    type Error = IdError;

    fn try_from(text: &str) -> Result<Self, IdError> {
        BrandedId::parse(text.as_bytes())
    }
}

impl AsRef<[u8]> for BrandedId {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<str> for BrandedId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
