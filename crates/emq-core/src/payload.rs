//! Payloads: bytes at the bottom, types on top.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The default cap of a payload, in bytes.
pub const PAYLOAD_CAP_DEFAULT: usize = 64 * 1024;

/// Turns values into payloads and back. A type parameter of [`TypedQueue`](crate::TypedQueue):
/// both sides of a queue must name the same one.
///
/// ```
/// use bytes::Bytes;
/// use emq_core::{Codec, CodecError};
///
/// /// Two numbers in eight bytes: small payloads are cheap ones.
/// struct Packed;
///
/// impl Codec<(u32, u32)> for Packed {
///     fn encode((a, b): &(u32, u32)) -> Result<Bytes, CodecError> {
///         Ok(Bytes::from([a.to_be_bytes(), b.to_be_bytes()].concat()))
///     }
///
///     fn decode(payload: &Bytes) -> Result<(u32, u32), CodecError> {
///         let number = |bytes: &[u8]| bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b));
///         match payload.split_at_checked(4) {
///             Some((a, b)) if b.len() == 4 => Ok((number(a), number(b))),
///             _ => Err(CodecError::decode("two numbers of four bytes are needed")),
///         }
///     }
/// }
///
/// let payload = Packed::encode(&(7, 1 << 20))?;
/// assert_eq!(Packed::decode(&payload)?, (7, 1 << 20));
/// # Ok::<(), CodecError>(())
/// ```
pub trait Codec<T>: Send + Sync + 'static {
    /// The bytes of a value.
    ///
    /// # Errors
    /// [`CodecError::Encode`] when the value has no form in this codec.
    fn encode(value: &T) -> Result<Bytes, CodecError>;

    /// The value of bytes.
    ///
    /// # Errors
    /// [`CodecError::Decode`] when they are not a value's.
    fn decode(payload: &Bytes) -> Result<T, CodecError>;
}

/// JSON: the default codec.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn encode(value: &T) -> Result<Bytes, CodecError> {
        serde_json::to_vec(value).map(Bytes::from).map_err(CodecError::encode)
    }

    fn decode(payload: &Bytes) -> Result<T, CodecError> {
        serde_json::from_slice(payload).map_err(CodecError::decode)
    }
}

/// The bytes themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Codec<Bytes> for Raw {
    fn encode(value: &Bytes) -> Result<Bytes, CodecError> {
        Ok(value.clone())
    }

    fn decode(payload: &Bytes) -> Result<Bytes, CodecError> {
        Ok(payload.clone())
    }
}

type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why a codec refused.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The value has no form in this codec.
    #[error("the value doesn't encode")]
    Encode(#[source] Cause),
    /// The bytes are not a value's.
    #[error("the payload doesn't decode")]
    Decode(#[source] Cause),
}

impl CodecError {
    /// A refusal to encode, with its cause.
    pub fn encode(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CodecError {
        CodecError::Encode(Arc::from(cause.into()))
    }

    /// A refusal to decode, with its cause.
    pub fn decode(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CodecError {
        CodecError::Decode(Arc::from(cause.into()))
    }
}
