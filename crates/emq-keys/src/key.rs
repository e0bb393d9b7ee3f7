//! Reading a key back: total, and the inverse of building.

use std::fmt;

use crate::error::IdError;
use crate::id::BrandedId;
use crate::queue_keys::QueueFact;
use crate::queue_name::{QueueName, QueueNameError};
use crate::reserve::ReserveFact;
use crate::slot::slot;

/// A key of the bus, taken apart. `Display` builds it again, byte for byte.
///
/// ```
/// use emq_keys::{Key, KeyError, QueueFact, Structure};
///
/// let key = Key::parse(b"emq:{orders}:active")?;
/// assert!(matches!(&key, Key::Fact { fact: QueueFact::Active, .. }));
/// assert_eq!(key.structure(), Some(Structure::SortedSet));
/// assert_eq!(key.to_string(), "emq:{orders}:active");
///
/// assert!(matches!(Key::parse(b"emq:{orders}:stalled"), Err(KeyError::UnknownType { .. })));
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// `emq:{<queue>}:<type>`
    Fact {
        /// The queue.
        queue: QueueName,
        /// What the key holds.
        fact: QueueFact,
    },
    /// `emq:{<queue>}:job:<id>`, the row of a job.
    Job {
        /// The queue.
        queue: QueueName,
        /// The job.
        id: BrandedId,
    },
    /// `emq:{<queue>}:g:<id>:pending`, a lane.
    Lane {
        /// The queue.
        queue: QueueName,
        /// The group that the lane belongs to.
        group: BrandedId,
    },
    /// `{emq}:<fact>`
    Reserve(ReserveFact),
}

/// What the server keeps under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Structure {
    /// `string`
    String,
    /// `hash`
    Hash,
    /// `list`
    List,
    /// `set`
    Set,
    /// `zset`
    SortedSet,
}

impl Structure {
    /// The word that the server's TYPE answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Structure::String => "string",
            Structure::Hash => "hash",
            Structure::List => "list",
            Structure::Set => "set",
            Structure::SortedSet => "zset",
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why bytes are not a key of the bus.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It begins neither with `emq:{<queue>}:` nor with `{emq}:`.
    #[error("not a key of the bus: it begins neither with emq:{{<queue>}}: nor with {{emq}}:")]
    Family,
    /// What stands in the braces is not a queue's name.
    #[error("the key's hashtag is not a queue's name")]
    Queue(#[source] QueueNameError),
    /// What stands after `job:` or `g:` is not an id.
    #[error("the key's id is not well formed")]
    Id(#[source] IdError),
    /// The queue has no such type of key: another version wrote it, or it isn't the bus's.
    #[error(
        "queue {queue} has no key of type '{}' in this version", type_name.escape_ascii()
    )]
    UnknownType {
        /// The queue.
        queue: QueueName,
        /// What stands in the type's place.
        type_name: Box<[u8]>,
    },
    /// The reserve has no such fact: another version wrote it, or it isn't the bus's.
    #[error("the reserve has no fact '{}' in this version", fact.escape_ascii())]
    UnknownFact {
        /// What stands in the fact's place.
        fact: Box<[u8]>,
    },
}

const RESERVE: &[u8] = b"{emq}:";
const QUEUE: &[u8] = b"emq:{";

impl Key {
    /// Takes a key apart. Total over arbitrary bytes, and the inverse of building: a key that parses
    /// is written by `Display` with the same bytes.
    ///
    /// # Errors
    /// [`KeyError`] says which part is not of the grammar.
    pub fn parse(key: &[u8]) -> Result<Key, KeyError> {
        if let Some(fact) = key.strip_prefix(RESERVE) {
            return ReserveFact::ALL
                .into_iter()
                .find(|known| known.key().as_bytes() == key)
                .map(Key::Reserve)
                .ok_or_else(|| KeyError::UnknownFact { fact: fact.into() });
        }
        let rest = key.strip_prefix(QUEUE).ok_or(KeyError::Family)?;
        let close = rest.iter().position(|&byte| byte == b'}').ok_or(KeyError::Family)?;
        let (name, tail) = rest.split_at(close);
        let type_name = tail.strip_prefix(b"}:").ok_or(KeyError::Family)?;
        let queue = QueueName::parse(name).map_err(KeyError::Queue)?;
        Key::parse_type(queue, type_name)
    }

    fn parse_type(queue: QueueName, type_name: &[u8]) -> Result<Key, KeyError> {
        if let Some(fact) = QueueFact::of_type(type_name) {
            return Ok(Key::Fact { queue, fact });
        }
        if let Some(id) = type_name.strip_prefix(b"job:") {
            let id = BrandedId::parse(id).map_err(KeyError::Id)?;
            return Ok(Key::Job { queue, id });
        }
        let lane = type_name.strip_prefix(b"g:").and_then(|rest| rest.strip_suffix(b":pending"));
        if let Some(group) = lane {
            let group = BrandedId::parse(group).map_err(KeyError::Id)?;
            return Ok(Key::Lane { queue, group });
        }
        Err(KeyError::UnknownType { queue, type_name: type_name.into() })
    }

    /// The queue it belongs to; `None` for the reserve.
    #[must_use]
    pub const fn queue(&self) -> Option<&QueueName> {
        match self {
            Key::Fact { queue, .. } | Key::Job { queue, .. } | Key::Lane { queue, .. } => {
                Some(queue)
            }
            Key::Reserve(_) => None,
        }
    }

    /// What the server keeps under it; `None` for a name that is only held back.
    #[must_use]
    pub const fn structure(&self) -> Option<Structure> {
        Some(match self {
            Key::Fact { fact, .. } => match fact {
                QueueFact::Pending | QueueFact::Active | QueueFact::Schedule | QueueFact::Dead => {
                    Structure::SortedSet
                }
                QueueFact::Ring | QueueFact::Wake => Structure::List,
                QueueFact::Paused => Structure::Set,
                QueueFact::Glimit
                | QueueFact::Gactive
                | QueueFact::Gweight
                | QueueFact::Unique
                | QueueFact::Meta
                | QueueFact::Timetable => Structure::Hash,
            },
            Key::Job { .. } | Key::Reserve(ReserveFact::NodeOwners) => Structure::Hash,
            Key::Lane { .. } | Key::Reserve(ReserveFact::Nodes) => Structure::SortedSet,
            Key::Reserve(ReserveFact::Version) => Structure::String,
            Key::Reserve(ReserveFact::Locks) => return None,
        })
    }

    /// Its slot.
    #[must_use]
    pub fn slot(&self) -> u16 {
        match self.queue() {
            // The hashtag alone decides, and a queue's name is one by construction.
            Some(queue) => slot(queue.as_bytes()),
            None => slot(b"emq"),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Fact { queue, fact } => write!(f, "emq:{{{queue}}}:{fact}"),
            Key::Job { queue, id } => write!(f, "emq:{{{queue}}}:job:{id}"),
            Key::Lane { queue, group } => write!(f, "emq:{{{queue}}}:g:{group}:pending"),
            Key::Reserve(fact) => f.write_str(fact.key()),
        }
    }
}

impl std::str::FromStr for Key {
    type Err = KeyError;

    fn from_str(key: &str) -> Result<Self, KeyError> {
        Key::parse(key.as_bytes())
    }
}
