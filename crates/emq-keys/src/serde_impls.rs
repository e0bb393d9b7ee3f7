//! Names in serde formats: text that passes the same gates on the way in.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::IdError;
use crate::id::BrandedId;
use crate::namespace::Namespace;
use crate::node::NodeId;
use crate::queue_name::{QueueName, QueueNameError};

/// Reads a name from text or bytes without a copy in between.
struct NameVisitor<T>(PhantomData<T>);

trait Name: Sized {
    const EXPECTING: &'static str;
    type Error: fmt::Display;
    fn read(bytes: &[u8]) -> Result<Self, Self::Error>;
}

impl Name for BrandedId {
    const EXPECTING: &'static str = "a branded id of 14 bytes";
    type Error = IdError;
    fn read(bytes: &[u8]) -> Result<Self, IdError> {
        BrandedId::parse(bytes)
    }
}

impl Name for Namespace {
    const EXPECTING: &'static str = "a namespace of three capital letters";
    type Error = IdError;
    fn read(bytes: &[u8]) -> Result<Self, IdError> {
        let bytes: [u8; 3] =
            bytes.try_into().map_err(|_| IdError::namespace_length(bytes.len()))?;
        Namespace::from_bytes(bytes)
    }
}

impl Name for QueueName {
    const EXPECTING: &'static str = "a queue's name";
    type Error = QueueNameError;
    fn read(bytes: &[u8]) -> Result<Self, QueueNameError> {
        QueueName::parse(bytes)
    }
}

impl<T: Name> Visitor<'_> for NameVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTING)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::read(text.as_bytes()).map_err(E::custom)
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<T, E> {
        T::read(bytes).map_err(E::custom)
    }
}

macro_rules! as_text {
    ($($name:ty),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(NameVisitor(PhantomData))
            }
        }
    )*};
}

as_text!(BrandedId, Namespace, QueueName);

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(self.number())
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NodeId::new(u16::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
