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
    items: Vec<Reply>,
    pairs: Vec<(Reply, Reply)>,
    /// A map's key, until its value comes.
    key: Option<Reply>,
}

/// What became of a value that was put into a collection.
#[derive(Debug)]
pub(super) enum Placed {
    /// Others must follow.
    More,
    /// It was the last.
    Full,
}

impl Level {
    /// A collection of `values` values, `depth` others around it.
    ///
    /// Room is made for what was announced, up to a bound that halves with each level: all the
    /// open collections together never hold more than 2,048 slots that nothing filled.
    pub(super) fn new(shape: Shape, values: usize, depth: usize) -> Self {
        let room = 1024_usize.checked_shr(depth as u32).unwrap_or(0);
        let (items, pairs) = match shape {
            Shape::Array | Shape::Set | Shape::Push => (values.min(room), 0),
            Shape::Map => (0, (values / 2).min(room / 2)),
            Shape::Attribute => (0, 0),
        };
        Self {
            shape,
            left: values,
            items: Vec::with_capacity(items),
            pairs: Vec::with_capacity(pairs),
            key: None,
        }
    }

    pub(super) fn place(&mut self, value: Reply) -> Placed {
        match self.shape {
            Shape::Array | Shape::Set | Shape::Push => self.items.push(value),
            Shape::Map => match self.key.take() {
                None => self.key = Some(value),
                Some(key) => self.pairs.push((key, value)),
            },
            Shape::Attribute => drop(value),
        }
        self.left -= 1;
        if self.left == 0 { Placed::Full } else { Placed::More }
    }

    /// The finished collection; an attribute leaves nothing.
    pub(super) fn into_reply(self) -> Option<Reply> {
        match self.shape {
            Shape::Array => Some(Reply::Array(self.items)),
            Shape::Set => Some(Reply::Set(self.items)),
            Shape::Push => Some(Reply::Push(self.items)),
            Shape::Map => Some(Reply::Map(self.pairs)),
            Shape::Attribute => None,
        }
    }
}
