//! The names of EchoMQ: branded ids, minting, the key grammar and cluster slots.
//!
//! This crate is the bottom layer of the bus and it is pure: no I/O, no async runtime, no server.
//! The one clock it can read is [`Minter::mint`]'s, and that call has a twin that is given the time.
//!
//! * An entity is named by a [`BrandedId`]: 14 ASCII bytes, three of [`Namespace`] (the kind) and
//!   eleven of payload. Its byte order is its mint order.
//! * A [`Minter`] makes fresh ids, lock-free, on a [`NodeId`] that the caller holds alone.
//! * A queue is named by a [`QueueName`]; [`QueueKeys`] holds every key of one queue, and
//!   [`Key::parse`] reads any key back.
//! * [`slot`] tells where a cluster keeps a key; all keys of a queue share one slot.
//!
//! ```
//! use emq_keys::{BrandedId, Key, Minter, Namespace, NodeId, QueueKeys, QueueName, slot};
//!
//! let minter = Minter::new(NodeId::new(7)?);
//! let id = minter.mint(Namespace::JOB)?;
//! assert_eq!(id.namespace(), Namespace::JOB);
//! assert_eq!(id.node(), 7);
//! assert_eq!(BrandedId::parse(id.as_bytes())?, id);
//!
//! let keys = QueueKeys::new(QueueName::new("orders")?);
//! let row = keys.job(&id);
//! assert_eq!(row, format!("emq:{{orders}}:job:{id}"));
//! assert_eq!(slot(row.as_bytes()), slot(keys.pending().as_bytes()));
//! assert!(matches!(Key::parse(row.as_bytes())?, Key::Job { id: found, .. } if found == id));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! * `serde`: [`BrandedId`], [`Namespace`], [`NodeId`] and [`QueueName`] in serde formats; what is
//!   read passes the same gates as everywhere else.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod base62;
mod derive;
mod error;
mod hash;
mod id;
mod key;
mod mint;
mod namespace;
mod node;
mod queue_keys;
mod queue_name;
mod reserve;
#[cfg(feature = "serde")]
mod serde_impls;
mod slot;

// The public interface is:
pub use crate::derive::DeriveError;
pub use crate::error::{Gate, IdError};
pub use crate::hash::hash32;
pub use crate::id::{BrandedId, EPOCH_MS, MAX_PAYLOAD, MAX_SNOWFLAKE, MAX_UNIX_MS};
pub use crate::key::{Key, KeyError, Structure};
pub use crate::mint::{MINT_MANY_MAX, MintError, Minted, Minter};
pub use crate::namespace::Namespace;
pub use crate::node::{NodeId, NodeIdError};
pub use crate::queue_keys::{QueueFact, QueueKeys};
pub use crate::queue_name::{QueueName, QueueNameError};
pub use crate::reserve::{
    RESERVE_LOCKS, RESERVE_NODE_OWNERS, RESERVE_NODES, RESERVE_VERSION, ReserveFact,
};
pub use crate::slot::{SLOT_COUNT, crc16, slot};
