//! What a worker tells of itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// It was just started.
    Starting,
    /// It works, or looks for work.
    Running,
    /// It has free hands, found nothing to do, and sends nothing until it is woken.
    Parked,
    /// The server is out of reach; handlers go on within their leases.
    Reconnecting,
    /// It stops: it claims nothing more and waits for its handlers.
    Draining,
    /// It has stopped.
    Stopped,
    /// It can't go on, because the fence refused the server or the bus was closed.
    Failed,
}

/// A worker's state at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// What it is doing.
    pub phase: Phase,
    /// Jobs that it holds: their handler runs, or their settlement is on its way.
    pub in_flight: usize,
}

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a worker has done so far. Each number is exact; together they are no snapshot.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(super) struct Tally {
            $(pub(super) $name: Count,)*
        }

        impl Tally {
            pub(super) fn read(&self) -> Totals {
                Totals { $($name: self.$name.read(),)* }
            }
        }
    };
}

totals! {
    /// Jobs claimed.
    claimed,
    /// Handlers started.
    started,
    /// Jobs completed.
    done,
    /// Jobs that run again later.
    retried,
    /// Jobs buried.
    dead,
    /// Jobs handed back unfinished.
    released,
    /// Jobs that an operator called off while they ran.
    cancelled,
    /// Settlements that were decided elsewhere: stale, or without a row.
    stale,
    /// Jobs left to the end of their lease, because their settlement couldn't be told.
    abandoned,
    /// Handlers that panicked.
    panicked,
    /// Handlers that ran out of time.
    timed_out,
    /// Payloads that didn't decode.
    undecodable,
    /// Due jobs that its turns moved to where they wait.
    promoted,
    /// Jobs of whichever worker whose lease was over, and that its turns put where they wait.
    returned,
    /// Jobs of whichever worker that were lost too often, and that its turns buried.
    buried,
    /// Extensions acknowledged.
    extended,
    /// Jobs of its own whose lease was lost while their handler ran.
    lost,
    /// Jobs of a kind that no handler here knows, held aside for a while and handed back.
    unknown,
    /// Parks begun.
    parks,
    /// Parks that a token ended.
    wakes,
    /// Times that a call failed and the worker waited for the server.
    reconnects,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn one(&self) {
        self.add(1);
    }

    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
