//! The bounds of what a worker holds.

use std::sync::Arc;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Slots bound the handlers that run; berths bound the jobs that are held, those whose settlement
/// is still on its way included. With twice as many berths as slots the next claim travels
/// together with the settlement of the job before it.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Arc<Semaphore>,
    berths: Arc<Semaphore>,
    freed: Arc<Notify>,
    berths_in_all: usize,
}

/// A place that is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Slots {
    pub(super) fn new(concurrency: usize) -> Slots {
        let berths_in_all = concurrency * 2;
        Slots {
            slots: Arc::new(Semaphore::new(concurrency)),
            berths: Arc::new(Semaphore::new(berths_in_all)),
            freed: Arc::default(),
            berths_in_all,
        }
    }

    /// How many jobs may be claimed now. Only the claiming loop takes places, so it can rely on
    /// this number.
    pub(super) fn free(&self) -> usize {
        self.slots.available_permits().min(self.berths.available_permits())
    }

    /// How many jobs are held.
    pub(super) fn held(&self) -> usize {
        self.berths_in_all.saturating_sub(self.berths.available_permits())
    }

    /// A slot and a berth; `None` when none is free.
    pub(super) fn take(&self) -> Option<(Place, Place)> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        let berth = Arc::clone(&self.berths).try_acquire_owned().ok()?;
        Some((self.place(slot), self.place(berth)))
    }

    /// Comes back after a place was given back.
    pub(super) async fn freed(&self) {
        self.freed.notified().await;
    }

    fn place(&self, permit: OwnedSemaphorePermit) -> Place {
        Place { permit: Some(permit), freed: Arc::clone(&self.freed) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.freed.notify_one();
    }
}
