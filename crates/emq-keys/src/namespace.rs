//! The kind of an entity: three capital letters.

use std::fmt;
use std::str::FromStr;

use crate::error::IdError;

/// The kind of an entity: three bytes of `[A-Z]`, the first three of its id.
///
/// ```
/// use emq_keys::{Gate, Namespace, namespace};
///
/// const ORDER: Namespace = namespace!("ORD"); // checked at compile time
/// assert_eq!(ORDER.as_str(), "ORD");
/// assert_eq!(Namespace::new("ORD")?, ORDER);
/// assert_eq!(Namespace::new("ord").unwrap_err().gate(), Gate::Namespace);
/// # Ok::<(), emq_keys::IdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace([u8; 3]);

/// A [`Namespace`] from a literal, checked when the program is compiled.
///
/// ```
/// use emq_keys::{Namespace, namespace};
/// const TENANT: Namespace = namespace!("TEN");
/// ```
///
/// ```compile_fail
/// let bad = emq_keys::namespace!("tenant");
/// ```
#[macro_export]
macro_rules! namespace {
    ($letters:literal) => {
        const {
            match $crate::Namespace::new($letters) {
                Ok(namespace) => namespace,
                Err(_) => panic!("a namespace is three capital letters A-Z"),
            }
        }
    };
}

impl Namespace {
    /// The kind of a job: the one namespace that the bus itself knows.
    pub const JOB: Namespace = Namespace(*b"JOB");

    /// A namespace from three letters. Usable in constants; see also [`namespace!`](crate::namespace!).
    ///
    /// # Errors
    /// With [`Gate::Namespace`](crate::Gate::Namespace) unless it is exactly three bytes of `[A-Z]`.
    pub const fn new(letters: &str) -> Result<Namespace, IdError> {
        match letters.as_bytes() {
            &[a, b, c] => Namespace::from_bytes([a, b, c]),
            other => Err(IdError::namespace_length(other.len())),
        }
    }

    /// A namespace from three bytes.
    ///
    /// # Errors
    /// With [`Gate::Namespace`](crate::Gate::Namespace) when a byte is outside `[A-Z]`.
    pub const fn from_bytes(bytes: [u8; 3]) -> Result<Namespace, IdError> {
        let mut at = 0;
        while at < bytes.len() {
            if !bytes[at].is_ascii_uppercase() {
                return Err(IdError::namespace(at, bytes[at]));
            }
            at += 1;
        }
        Ok(Namespace(bytes))
    }

    /// A namespace whose bytes already passed the gate.
    pub(crate) const fn gated(bytes: [u8; 3]) -> Namespace {
        Namespace(bytes)
    }

    /// The three letters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a namespace is ASCII by construction")
    }

    /// The three letters as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 3] {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespace({self})")
    }
}

impl FromStr for Namespace {
    type Err = IdError;

    fn from_str(letters: &str) -> Result<Self, IdError> {
        Namespace::new(letters)
    }
}

impl TryFrom<&str> for Namespace {
    type Error = IdError;

    fn try_from(letters: &str) -> Result<Self, IdError> {
        Namespace::new(letters)
    }
}

impl TryFrom<[u8; 3]> for Namespace {
    type Error = IdError;

    fn try_from(bytes: [u8; 3]) -> Result<Self, IdError> {
        Namespace::from_bytes(bytes)
    }
}

impl AsRef<[u8]> for Namespace {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<str> for Namespace {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
