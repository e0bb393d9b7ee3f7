//! What a connection has done, counted without locks.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A reading of a connection's counters. Each one is exact; together they are no
        /// snapshot of one instant.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Tally {
            $(pub(crate) $name: Count,)*
        }

        impl Tally {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.read(),)* }
            }
        }
    };
}

counters! {
    /// Commands accepted, each member of a pipeline counted; loads of scripts and repeated calls
    /// too.
    commands,
    /// Submissions of more than one command.
    pipelines,
    /// Replies routed to their callers or swallowed for callers that left.
    replies,
    /// Push frames received, also during the boot ladder.
    pushes,
    /// Connections made after the first.
    reconnects,
    /// Scripts loaded.
    script_loads,
    /// Script calls by digest, the repeated ones counted again.
    evalsha_calls,
    /// Bytes handed to the socket in service, the boot ladder's not counted.
    bytes_out,
    /// Bytes taken from the socket in service, the boot ladder's not counted.
    bytes_in,
    /// Connections lost, to errors of the socket or of the protocol.
    wire_errors,
    /// Calls refused over a bound.
    overloads,
    /// Writes to the socket: under load, far fewer than commands.
    writes,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
