//! Collections under way: what the decoder keeps instead of a call stack.

use super::Reply;

/// The types that hold others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Array,
    Set,
    Push,
    Map,
    /// Remarks about the value that follows. Decoded within the bounds, then forgotten.
    Attribute,
}

impl Shape {
    /// Values for each announced entry.
    pub(super) fn per_entry(self) -> usize {
        match self {
            Self::Array | Self::Set | Self::Push => 1,
            Self::Map | Self::Attribute => 2,
        }
    }
}

/// One open collection.
#[derive(Debug)]
pub(super) struct Level {
    shape: Shape,
    /// Values that must still come.
    left: usize,
    /// What came; keys and values of a map in turn.
    items: Vec<Reply>,
}

impl Level {
    /// A collection of `values` values, `depth` others around it.
    ///
    /// Room is made for what was announced, up to a bound that halves with each level: all the
    /// open collections together never hold more than 2,048 slots that nothing filled.
    pub(super) fn new(shape: Shape, values: usize, depth: usize) -> Self {
        let room = match shape {
            Shape::Attribute => 0,
            _ => 1024_usize.checked_shr(depth as u32).unwrap_or(0),
        };
        Self { shape, left: values, items: Vec::with_capacity(values.min(room)) }
    }

    /// Whether nothing more must come.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Adds a value to a collection that isn't full.
    #[inline]
    pub(super) fn place(&mut self, value: Reply) {
        match self.shape {
            Shape::Attribute => drop(value),
            _ => self.items.push(value),
        }
        self.left -= 1;
    }

    /// The finished collection; an attribute leaves nothing.
    pub(super) fn into_reply(self) -> Option<Reply> {
        match self.shape {
            Shape::Array => Some(Reply::Array(self.items)),
            Shape::Set => Some(Reply::Set(self.items)),
            Shape::Push => Some(Reply::Push(self.items)),
            Shape::Map => {
                let mut pairs = Vec::with_capacity(self.items.len() / 2);
                let mut items = self.items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                Some(Reply::Map(pairs))
            }
            Shape::Attribute => None,
        }
    }
}
