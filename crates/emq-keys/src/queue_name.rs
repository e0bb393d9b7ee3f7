//! The name of a queue.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The name of a queue: 1 to 128 bytes of `[A-Za-z0-9._-]`, not `emq`. Cheap to clone.
///
/// ```
/// use emq_keys::{QueueName, QueueNameError};
/// assert_eq!(QueueName::new("orders.eu-1")?.as_str(), "orders.eu-1");
/// assert_eq!(QueueName::new("emq"), Err(QueueNameError::Reserved));
/// assert_eq!(QueueName::new("a:b"), Err(QueueNameError::Byte { at: 1, byte: b':' }));
/// # Ok::<(), QueueNameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

/// Why bytes are not the name of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueNameError {
    /// Empty, or above 128 bytes.
    #[error("a queue's name has 1 to 128 bytes and this has {bytes}")]
    Length {
        /// How long it is, in bytes.
        bytes: usize,
    },
    /// A byte outside `[A-Za-z0-9._-]`.
    #[error(
        "byte {at} of the queue's name is '{}'; use letters, digits, dot, underscore and hyphen",
        byte.escape_ascii()
    )]
    Byte {
        /// Where the byte is, from 0.
        at: usize,
        /// The byte.
        byte: u8,
    },
    /// `emq`, whose hashtag belongs to the reserve.
    #[error("a queue cannot be named emq, which is the reserve's own name; choose another")]
    Reserved,
}

impl QueueName {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 128;

    /// A queue's name from text.
    ///
    /// # Errors
    /// [`QueueNameError`] says what to change.
    pub fn new(name: impl AsRef<str>) -> Result<QueueName, QueueNameError> {
        let name = name.as_ref();
        check(name.as_bytes())?;
        Ok(QueueName(Arc::from(name)))
    }

    /// A queue's name from bytes of any content.
    ///
    /// # Errors
    /// [`QueueNameError`] says what to change.
    pub fn parse(name: &[u8]) -> Result<QueueName, QueueNameError> {
        check(name)?;
        let name = std::str::from_utf8(name).expect("the check lets only ASCII through");
        Ok(QueueName(Arc::from(name)))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

fn check(name: &[u8]) -> Result<(), QueueNameError> {
    if name.is_empty() || name.len() > QueueName::MAX_LEN {
        return Err(QueueNameError::Length { bytes: name.len() });
    }
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    if let Some(at) = name.iter().position(|byte| !allowed(byte)) {
        return Err(QueueNameError::Byte { at, byte: name[at] });
    }
    if name == b"emq" {
        return Err(QueueNameError::Reserved);
    }
    Ok(())
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueueName({self})")
    }
}

impl FromStr for QueueName {
    type Err = QueueNameError;

    fn from_str(name: &str) -> Result<Self, QueueNameError> {
        QueueName::new(name)
    }
}

impl TryFrom<&str> for QueueName {
    type Error = QueueNameError;

    fn try_from(name: &str) -> Result<Self, QueueNameError> {
        QueueName::new(name)
    }
}

impl TryFrom<String> for QueueName {
    type Error = QueueNameError;

    fn try_from(name: String) -> Result<Self, QueueNameError> {
        QueueName::new(name)
    }
}

impl AsRef<str> for QueueName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
