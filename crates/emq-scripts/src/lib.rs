//! The contract of EchoMQ: the Lua bundle, its typed calls, the fence and the refusals.
//!
//! Every change of a job's state is one script run by the server. This crate embeds the scripts,
//! gives each a typed call, and lets nobody call them before the fence was passed:
//!
//! * [`Fenced`] is a connection whose server runs this wire version. There is no other way to get
//!   one than [`Fenced::connect`], and the fence stands again at every reconnect.
//! * A [`ScriptCall`] is one call, [`Claim`] for instance, with a type of its own for the reply.
//!   String arrays stop here.
//! * A refusal is a [`CallError::Refused`] with a [`RefusalClass`]; [`REFUSALS`] is the one table
//!   of them. A cold script cache and a warm one answer alike.
//! * [`CONTRACTS`] says what each script takes; the headers of the Lua files are compared with it.
//!
//! It knows nothing of retry policies, handlers and tasks: that is the layer above.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use emq_keys::{QueueKeys, QueueName};
//! use emq_scripts::{Claim, FenceOptions, Fenced};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let fenced = Fenced::connect("valkey://127.0.0.1".parse()?, FenceOptions::default()).await?;
//! let keys = QueueKeys::new(QueueName::new("orders")?);
//! let claim = Claim { lease: Duration::from_secs(30), ticket: Some("worker-1.1") };
//! if let Some(job) = fenced.call(&keys, &claim).await? {
//!     println!("{} under token {}", job.id, job.token);
//! }
//! # Ok(()) }
//! ```

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod bundle;
mod call;
mod calls;
mod checkup;
mod contract;
mod fence;
mod fenced;
mod finding;
mod manifest;
mod name;
mod read;
mod refusal;

// The public interface is:
pub use crate::bundle::{Bundle, BundleError};
pub use crate::call::ScriptCall;
pub use crate::calls::{
    AdmitOptions, Admitted, Cancel, Cancelled, Checkpoint, Claim, Claimed, Complete, Completed,
    Doctor, Doctored, Drain, Enqueue, EnqueueMany, Extend, ExtendVerdict, Extended, Extension,
    LAST_ERROR_MAX_BYTES, LaneClaim, LaneEnqueue, LaneLimit, LanePause, LaneReassign,
    LaneReassignBacklog, LaneResume, LaneWeight, Look, ManyItem, Next, NodeLease, NodeLeased,
    Nudge, Obliterate, Obliterated, Promote, Purge, QueuePause, QueueResume, Reap, Reaped,
    Reassigned, Release, Remove, Removed, Requeue, Requeued, Retried, Retry, Schedule, Seat,
    Settle, SettleOutcome, SettleVerdict, Standing, Switched, Tick, TickVerdict, Ticked,
    TimetablePause, TimetablePaused, TimetablePut, TimetableRemove, TimetableSet, TimetableWritten,
    Turn, TurnJob, Turned, Verdict, When,
};
pub use crate::checkup::{Checkup, CheckupOptions, CheckupStep, Examined};
pub use crate::contract::{CONTRACTS, Contract, ContractKey};
pub use crate::fence::{
    Engine, EngineVersion, FenceError, FenceEvent, FenceFailure, WIRE_VERSION, fence_error,
};
pub use crate::fenced::{FenceOptions, Fenced};
pub use crate::finding::{Diagnosis, Finding, Name, Place};
pub use crate::name::ScriptName;
pub use crate::refusal::{CallError, REFUSALS, RefusalClass, RefusalRow};
