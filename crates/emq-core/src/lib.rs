//! The behaviour of EchoMQ: queues, jobs, leases, workers and the verbs of an operator.
//!
//! * [`Bus`] is a connection that passed the fence; it mints ids on a node that it holds alone.
//! * [`Queue`] has the verbs, over bytes; [`TypedQueue`] puts types on top, by a [`Codec`].
//! * [`Lane`] is a part of a queue that is owed its turn, a tenant's for instance.
//! * [`Worker`] works a queue: it claims under leases, runs handlers, keeps their leases and
//!   settles what they answer. [`Queue::claim`] and its [`Lease`] do the same by hand.
//! * [`Morgue`] holds dead letters; [`Doctor`] examines a queue that runs, and mends it.
//! * Every outcome is an enum and every failure an [`Error`] that says what to do next.
//!
//! ```
//! use emq_core::{Bus, Enqueued, Job, JobError, Worker};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let valkey = emq_testkit::Valkey::start()?;
//! # let url = valkey.url();
//! let bus = Bus::connect(&url).await?;
//! let orders = bus.queue("orders")?.typed::<u32>();
//! let (done, mut finished) = tokio::sync::mpsc::channel(1);
//!
//! let worker = Worker::builder(&orders)
//!     .handler(move |job: Job<u32>| {
//!         let done = done.clone();
//!         async move {
//!             done.send(job.payload).await?;
//!             Ok::<_, JobError>(())
//!         }
//!     })
//!     .start()?;
//! let Enqueued::Admitted(id) = orders.enqueue(&7).await? else { panic!("a fresh id") };
//! assert_eq!(finished.recv().await, Some(7));
//!
//! let report = worker.stop(Duration::from_secs(5)).await;
//! assert_eq!(report.totals.done, 1);
//! assert!(orders.queue().get(id).await?.is_none());
//! # Ok(()) }
//! ```
//!
//! It knows nothing of digests and Lua, which are `emq-scripts`', nor of stores.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod backoff;
mod bus;
mod doctor;
mod durability;
mod error;
mod lane;
mod lease;
mod morgue;
mod outcome;
mod payload;
mod queue;
mod queues;
#[cfg(feature = "schedules")]
mod schedules;
mod ticket;
mod worker;

// The public interface is:
pub use crate::backoff::Backoff;
pub use crate::bus::{Bus, BusBuilder, BusEvent, MintingError};
pub use crate::doctor::{Doctor, DoctorReport};
pub use crate::durability::Durability;
pub use crate::error::{Error, NotDurable};
pub use crate::lane::{Lane, LaneStatus, LaneSweep, Lanes, SweptLanes, TypedLane};
pub use crate::lease::{Hold, Lease};
pub use crate::morgue::{Morgue, RequeuedAll};
pub use crate::outcome::{DrainScope, Enqueued};
pub use crate::payload::{Codec, CodecError, Json, PAYLOAD_CAP_DEFAULT, Raw};
pub use crate::queue::{
    Counts, Due, EnqueueOptions, Explained, Failure, JobRecord, JobState, ManyError, NewJob, Queue,
    Said, Standing, Timed, TypedQueue, Verdict, Vitals,
};
pub use crate::queues::Queues;
#[cfg(feature = "schedules")]
pub use crate::schedules::{
    Missed, Put, QueueSchedules, Schedule, ScheduleError, ScheduleRecord, Scheduler,
    SchedulerPhase, SchedulerStatus, SchedulerTotals, Schedules, Timing, TimingError,
};
pub use crate::worker::{
    CancelReason, Handled, Handler, Job, JobError, NoHandler, Phase, Rates, StopReport, Totals,
    WorkQueue, Worker, WorkerBuilder, WorkerStatus,
};
// What the verbs answer, as the scripts say it.
pub use emq_scripts::{
    Cancelled, Completed, Extended, Reaped, Reassigned, Removed, Requeued, Retried, Switched,
};
// What the doctor finds, as the scripts say it.
pub use emq_scripts::{Diagnosis, Examined, Finding, Name, Place};
