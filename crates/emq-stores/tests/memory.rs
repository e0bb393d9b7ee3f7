//! The suite on the memory backend, and what only its owner can show.

mod suite;

use std::sync::Arc;

use emq_keys::Namespace;
use emq_stores::memory::{Memory, MemoryOwner};
use emq_stores::{Absorbed, PropertyStore, Store, StoreError};
use suite::{Ground, KIND, job, row, soon, suite};
use tokio::task::JoinHandle;

/// Its owner can be killed and restarted.
struct InMemory {
    memory: Memory,
    owner: MemoryOwner,
    running: JoinHandle<()>,
}

impl Ground for InMemory {
    async fn open(kind: Namespace) -> InMemory {
        let (memory, owner) = Memory::open(kind);
        let running = tokio::spawn(owner.clone().run());
        InMemory { memory, owner, running }
    }

    fn backend(&self) -> Arc<dyn PropertyStore> {
        Arc::new(self.memory.clone())
    }

    async fn reopen(mut self) -> InMemory {
        self.running.abort();
        self.running = tokio::spawn(self.owner.clone().run());
        self
    }
}

suite!(InMemory);

#[tokio::test]
async fn requests_wait_for_an_owner_that_is_restarted() {
    let (memory, owner) = Memory::open(KIND);
    let store: Store<u64> = Store::new(memory);
    let caller = store.clone();
    let waiting = tokio::spawn(async move { caller.absorb(row(1), job(1), |sum| *sum += 1).await });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());

    let first = tokio::spawn(owner.clone().run());
    assert_eq!(soon("the answer", waiting).await.unwrap().unwrap(), Absorbed::Applied);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());

    let caller = store.clone();
    let waiting = tokio::spawn(async move { caller.absorb(row(1), job(1), |sum| *sum += 1).await });
    tokio::task::yield_now().await;
    tokio::spawn(owner.run());
    assert_eq!(soon("the answer", waiting).await.unwrap().unwrap(), Absorbed::Declined);
}

#[tokio::test]
async fn the_owner_ends_with_the_last_handle() {
    let (memory, owner) = Memory::open(KIND);
    let running = tokio::spawn(owner.run());
    let store: Store<u64> = Store::new(memory);
    store.put(row(1), &1).await.unwrap();
    let clone = store.clone();
    drop(store);
    assert_eq!(clone.get(row(1)).await.unwrap(), Some(1));
    drop(clone);
    soon("the owner's end", running).await.unwrap();
}

#[tokio::test]
async fn without_an_owner_a_store_is_closed() {
    let (memory, owner) = Memory::open(KIND);
    let store: Store<u64> = Store::new(memory);
    let caller = store.clone();
    let waiting = tokio::spawn(async move { caller.get(row(1)).await });
    tokio::task::yield_now().await;
    drop(owner);
    assert!(matches!(soon("the answer", waiting).await.unwrap(), Err(StoreError::Closed)));
    assert!(matches!(store.get(row(1)).await, Err(StoreError::Closed)));
}
