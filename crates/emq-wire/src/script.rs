//! Scripts: named Lua sources addressed by their digest.

use std::fmt;
use std::sync::Arc;

use sha1::{Digest, Sha1};

use crate::codec::{Cmd, Reply};
use crate::error::WireError;

/// A Lua script and its SHA1, computed here. Clones share one copy.
///
/// ```
/// use emq_wire::Script;
/// let script = Script::new("one", "return 1");
/// assert_eq!(script.sha1(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
/// ```
#[derive(Clone)]
pub struct Script(Arc<Inner>);

struct Inner {
    name: String,
    source: String,
    sha1: String,
}

impl Script {
    /// Takes a script's name (for errors and traces) and its source, byte for byte.
    pub fn new(name: impl Into<String>, source: impl Into<String>) -> Self {
        let source = source.into();
        let digest = Sha1::digest(source.as_bytes());
        let sha1 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(Arc::new(Inner { name: name.into(), source, sha1 }))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The source.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// The digest in lower-case hexadecimal, as the server prints it.
    pub fn sha1(&self) -> &str {
        &self.0.sha1
    }

    /// Starts a call: add `keys` keys, then the arguments. `capacity` is a guess of their bytes.
    ///
    /// On a [`crate::Connection`] the call loads the script when the server doesn't have it.
    pub fn call(&self, keys: usize, capacity: usize) -> Cmd {
        Cmd::evalsha(self, keys, capacity)
    }

    pub(crate) fn load(&self) -> Cmd {
        Cmd::with_capacity("SCRIPT", self.0.source.len() + 32).arg("LOAD").arg(&self.0.source)
    }

    /// The server must have computed the same digest, or it runs other bytes than ours.
    pub(crate) fn check_loaded(&self, reply: Reply) -> Result<(), WireError> {
        let found = match reply {
            Reply::Error(source) => return Err(WireError::Server { step: "SCRIPT LOAD", source }),
            other => other.as_bytes().cloned().unwrap_or_default(),
        };
        if *found == *self.sha1().as_bytes() {
            return Ok(());
        }
        Err(WireError::ScriptDigest {
            name: self.name().to_owned(),
            expected: self.sha1().to_owned(),
            found: String::from_utf8_lossy(&found).into_owned(),
        })
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({} {})", self.0.name, self.0.sha1)
    }
}

impl PartialEq for Script {
    fn eq(&self, other: &Self) -> bool {
        self.0.sha1 == other.0.sha1
    }
}

impl Eq for Script {}
