//! Why a store did not do what it was asked.

use std::error::Error as StdError;

use emq_keys::{BrandedId, IdError, Namespace};

use crate::effect::STEP_LEN_MAX;

type Cause = Box<dyn StdError + Send + Sync>;

/// Why a store did not do what it was asked. Nothing was written, except perhaps where a database
/// was lost or its disk failed in the middle of a commit ([`StoreError::Unavailable`],
/// [`StoreError::Database`]): then nobody knows, and the same absorb again finds out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// What was given as an id is none.
    #[error("not an id: give the 14 bytes of a branded id, not a number or a slug")]
    Id(#[from] IdError),
    /// The id names something else than this store keeps.
    #[error("{id} is of kind {}, and this store keeps {expected}", id.namespace())]
    Kind {
        /// The id.
        id: BrandedId,
        /// The kind that the store keeps.
        expected: Namespace,
    },
    /// What was given as a job is of another kind.
    #[error("{id} is of kind {}, and only a JOB is absorbed", id.namespace())]
    NotAJob {
        /// The id.
        id: BrandedId,
    },
    /// A step's name is too long, or has a NUL in it.
    #[error("a step's name has at most {STEP_LEN_MAX} bytes and no NUL, this one has {len} bytes")]
    Step {
        /// Its length, in bytes.
        len: usize,
    },
    /// The row doesn't remember the job, but has forgotten the names of its age: nobody can know
    /// whether it was absorbed. The job is dead: look at it by hand.
    #[error("{job} is older than the horizon {horizon}, so whether it was absorbed is forgotten")]
    BeyondHorizon {
        /// The job.
        job: BrandedId,
        /// The oldest job that is remembered for sure.
        horizon: BrandedId,
    },
    /// A row or a contribution could not be encoded.
    #[error("the row can't be encoded")]
    Encode(#[source] Cause),
    /// What is stored under the id is no row of this type.
    #[error("{id} is not stored as a row of this type")]
    Decode {
        /// The row.
        id: BrandedId,
        /// What the codec says.
        #[source]
        source: Cause,
    },
    /// The effect refused, and nothing was written.
    #[error("the effect refused")]
    Refused(#[source] Cause),
    /// The owner of the store is gone, or its database is closed.
    #[error("the store is closed")]
    Closed,
    /// The database is busy, out of reach, or lost a race for the row: the same call may succeed
    /// later.
    #[error("the database could not do it now")]
    Unavailable(#[source] Cause),
    /// The database refused for a reason that a repetition doesn't cure.
    #[error("the database refused")]
    Database(#[source] Cause),
    /// The database's tables are of a newer version than this program knows, or not ours.
    #[error("the tables are of version {found}, this program knows up to {known}; upgrade it")]
    Schema {
        /// What is there.
        found: i64,
        /// What this program knows.
        known: i64,
    },
}

impl StoreError {
    /// Whether the same call may succeed later without anything being repaired by hand.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Closed)
    }
}
