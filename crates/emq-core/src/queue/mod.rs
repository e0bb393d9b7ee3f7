//! A queue and its verbs.

mod admit;
mod browse;
mod claim;
mod explain;
mod gather;
mod many;
mod meters;
mod operate;
mod options;
mod record;
mod scored;
mod settle;
mod timed;
mod timers;
mod typed;
mod vitals;

use std::fmt;

use emq_keys::{BrandedId, QueueKeys, QueueName};
use emq_scripts::{CallError, ScriptCall};

pub use self::browse::Counts;
pub(crate) use self::browse::{count, ids, misread, read_all, read_one};
pub use self::explain::{Explained, Standing};
pub(crate) use self::gather::Gatherer;
pub use self::many::{ManyError, NewJob, Verdict};
pub(crate) use self::options::unix_ms;
pub use self::options::{Due, EnqueueOptions, Said};
pub use self::record::{JobRecord, JobState};
pub use self::settle::Failure;
pub use self::timed::Timed;
pub(crate) use self::timers::server_ms;
pub use self::typed::TypedQueue;
pub use self::vitals::Vitals;
use crate::bus::Bus;
use crate::doctor::Doctor;
use crate::lane::{Lane, Lanes};
use crate::morgue::Morgue;

/// A queue of a [`Bus`]: verbs over bytes; [`Queue::typed`] puts types on top and
/// [`Queue::lane`] names a part of it. Cheap to clone.
///
/// Each verb that moves a job is one script run by the server, and its outcome is an enum.
///
/// With the feature `metrics`, enqueues of all kinds count in `emq_jobs_admitted_total` the new
/// jobs, and in `emq_jobs_duplicate_total` those that were there already or whose unique key another
/// job holds; both carry the label `queue`.
#[derive(Clone)]
pub struct Queue {
    bus: Bus,
    keys: QueueKeys,
}

impl Queue {
    pub(crate) fn new(bus: Bus, keys: QueueKeys) -> Queue {
        Queue { bus, keys }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &QueueName {
        self.keys.queue()
    }

    /// Its keys.
    #[must_use]
    pub fn keys(&self) -> &QueueKeys {
        &self.keys
    }

    /// The bus that it is on.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The same queue with payloads of a type, in JSON.
    #[must_use]
    pub fn typed<T>(&self) -> TypedQueue<T> {
        TypedQueue::new(self.clone())
    }

    /// The same queue with payloads of a type, in a codec of one's own.
    #[must_use]
    pub fn typed_with<T, C>(&self) -> TypedQueue<T, C> {
        TypedQueue::new(self.clone())
    }

    /// The lane of an identity.
    #[must_use]
    pub fn lane(&self, id: BrandedId) -> Lane {
        Lane::new(self.clone(), id)
    }

    /// Its lanes, in pages: those with jobs waiting or leased and those with a setting of their
    /// own.
    pub fn lanes(&self) -> Lanes {
        Lanes::new(self.clone())
    }

    /// Who examines it and mends what is out of order.
    pub fn doctor(&self) -> Doctor {
        Doctor::new(self.clone())
    }

    /// Its dead letters.
    #[must_use]
    pub fn morgue(&self) -> Morgue {
        Morgue::new(self.clone())
    }

    pub(crate) async fn call<C: ScriptCall>(&self, call: &C) -> Result<C::Reply, CallError> {
        self.bus.fenced().call(&self.keys, call).await
    }

    pub(crate) async fn call_all<C: ScriptCall>(
        &self,
        calls: &[C],
    ) -> Result<Vec<Result<C::Reply, CallError>>, CallError> {
        self.bus.fenced().call_all(&self.keys, calls).await
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(self.name()).finish()
    }
}
