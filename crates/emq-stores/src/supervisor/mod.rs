//! Owners that are restarted alone.
//!
//! A [`Supervisor`] starts [`Owner`]s one after the other, each when the one before it is ready,
//! as tokio tasks: stores, relays and workers alike. One that fails, panics or is killed is
//! restarted alone, after a pause of 10 ms that doubles up to 1 s while it goes on failing. More
//! restarts within the window than the tree's intensity allows end the tree, with an error that
//! names the owner and its failure. It is stopped in reverse order, each owner within its grace.
//!
//! ```
//! use emq_stores::supervisor::{Killed, Owner, OwnerPhase, Supervisor};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tree = Supervisor::new()
//!     .owner(Owner::new("clock", |context| async move {
//!         context.ready();
//!         context.stopping().cancelled().await;
//!         Ok(())
//!     }))
//!     .start()?;
//! tree.ready().await?;
//!
//! assert_eq!(tree.kill("clock").await, Killed::Aborted);
//! let back = |owner: &str| {
//!     let owner = owner.to_owned();
//!     move |status: &emq_stores::supervisor::TreeStatus| {
//!         status.owner(&owner).is_some_and(|o| o.restarts == 1 && o.phase == OwnerPhase::Running)
//!     }
//! };
//! tree.status().wait_for(back("clock")).await?;
//! assert!(tree.stop().await.is_clean());
//! # Ok(()) }
//! ```
//!
//! An owner that blocks its thread can't be aborted. Give the runtime more threads than owners that
//! may block at once, so that the supervisor still runs; the owner is then reported as left. Each
//! tree has a thread outside the runtime for its deadlines: the runtime's timers stand still when
//! the thread that runs them is the one that an owner blocks. Such timers of other tasks are theirs
//! to care for.

mod context;
mod deadline;
mod failure;
mod kinds;
mod owner;
mod place;
mod status;
mod tend;
mod tree;

pub use self::context::OwnerContext;
pub use self::failure::{GaveUp, OwnerError, OwnerFailure, TreeError};
pub use self::owner::{Owner, Restart};
pub use self::status::{OwnerEnd, OwnerPhase, OwnerReport, OwnerStatus, TreeReport, TreeStatus};
pub use self::tree::{Killed, Supervisor, Tree};
