//! The memory backend beside the map that it keeps its rows in.

use std::collections::BTreeMap;

use emq_keys::BrandedId;
use emq_stores::Store;
use emq_stores::memory::Memory;

use super::{KIND, Position, Rival};

pub(super) struct InMemory {
    store: Store<Position>,
    map: BTreeMap<BrandedId, Box<[u8]>>,
}

impl Rival for InMemory {
    const NAME: &'static str = "memory";

    async fn open() -> InMemory {
        InMemory { store: Store::new(Memory::new(KIND)), map: BTreeMap::new() }
    }

    fn store(&self) -> Store<Position> {
        self.store.clone()
    }

    async fn insert(&mut self, id: BrandedId, row: &[u8]) {
        self.map.insert(id, row.into());
    }
}
