//! EchoMQ: a background-job bus on Valkey. This is the crate to add first.
//!
//! It has nothing of its own: it re-exports the layers below, and [`prelude`] holds what most
//! programs need.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use echomq::prelude::*;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let bus = Bus::connect("valkey://127.0.0.1").await?;
//! let mails = bus.queue("mails")?.typed::<String>();
//!
//! // A producer:
//! match mails.enqueue(&"ada@example.org".to_owned()).await? {
//!     Enqueued::Admitted(id) => println!("{id} waits"),
//!     other => println!("{other:?}"),
//! }
//!
//! // A worker:
//! let worker = Worker::builder(&mails)
//!     .concurrency(10)
//!     .handler(|job: Job<String>| async move {
//!         println!("{} to {}", job.id(), job.payload);
//!         Ok(())
//!     })
//!     .start()?;
//! tokio::time::sleep(Duration::from_secs(60)).await;
//! println!("{:?}", worker.stop(Duration::from_secs(10)).await);
//! # Ok(()) }
//! ```
//!
//! # What it guarantees
//! * A job is delivered at least once, and never to two unexpired leases at a time.
//! * Only the current holder settles a job; a stale one is told so and changes nothing.
//! * An enqueue is idempotent by id while the job's row exists.
//! * Leases, delays and due times are on the server's clock.
//! * The bus is volatile unless an enqueue asks for [`Durability`].
//! * Lanes of a queue, a tenant's for instance, take turns: [`Queue::lane`].
//!
//! An effect happens exactly once only where a store absorbs the job's name: the handler itself
//! may run twice. The feature `stores` brings them.
//!
//! # The layers
//! * [`keys`]: ids, minting, key grammar, slots.
//! * [`wire`]: the connector.
//! * [`scripts`]: the Lua bundle, its typed calls, the fence.
//! * [`core`](mod@core): queues, jobs, leases, workers, operator verbs; also at this crate's root.
//!   With the feature `schedules` jobs that recur.
//! * `stores` (feature): rows that absorb the jobs' names, the supervisor; with `sqlite`,
//!   `tokio-postgres` or `sqlx` in a database; with `outbox` jobs that exist if and only if the
//!   business row does.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[doc(inline)]
pub use emq_core as core;
#[doc(inline)]
pub use emq_keys as keys;
#[doc(inline)]
pub use emq_scripts as scripts;
#[cfg(feature = "stores")]
#[doc(inline)]
pub use emq_stores as stores;
#[doc(inline)]
pub use emq_wire as wire;

pub use emq_core::*;
pub use emq_keys::{BrandedId, Namespace, NodeId, QueueName, namespace};
pub use emq_scripts::FenceError;
pub use emq_wire::Config;

/// What most programs need.
pub mod prelude {
    pub use emq_core::{
        Backoff, Bus, Durability, EnqueueOptions, Enqueued, Error, Failure, Handler, Job, JobError,
        Lane, NewJob, Queue, TypedLane, TypedQueue, Verdict, Worker,
    };
    #[cfg(feature = "schedules")]
    pub use emq_core::{Missed, Schedule, Timing};
    pub use emq_keys::BrandedId;
    #[cfg(feature = "stores")]
    pub use emq_stores::{Absorbed, Cx, Store, with_stores};
}
