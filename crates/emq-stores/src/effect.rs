//! What a job does to a row, and under which name the row remembers it.

use bytes::Bytes;
use emq_keys::BrandedId;

use crate::error::StoreError;

/// The longest name of a step, in bytes.
pub const STEP_LEN_MAX: usize = 255;

/// The name under which a row remembers an effect: the job's, and the step's for a job that writes
/// one row more than once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName {
    job: BrandedId,
    step: Box<str>,
}

impl JobName {
    /// A job's only effect on a row.
    #[must_use]
    pub fn new(job: BrandedId) -> JobName {
        JobName { job, step: Box::from("") }
    }

    /// One of several effects of a job on the same row. The step's name has at most
    /// [`STEP_LEN_MAX`] bytes and no NUL: [`Store`](crate::Store) refuses others.
    #[must_use]
    pub fn step(job: BrandedId, step: &str) -> JobName {
        JobName { job, step: Box::from(step) }
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> BrandedId {
        self.job
    }

    /// The step; empty for a job's only effect.
    #[must_use]
    pub fn step_name(&self) -> &str {
        &self.step
    }
}

/// What an effect writes: the row as it shall be, and what the job contributed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The whole row, encoded.
    pub row: Bytes,
    /// What is kept beside the job's name, encoded.
    pub contribution: Bytes,
}

/// From the row as it is (`None`: there is none) to what is written. It runs at most once, inside
/// the backend's transaction; an error undoes everything, the name included.
pub type Effect = Box<dyn FnOnce(Option<Bytes>) -> Result<Written, StoreError> + Send>;

/// Whether a row took an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Absorbed {
    /// The effect was written together with the job's name.
    Applied,
    /// The row has absorbed this name before: nothing was written.
    Declined,
}

/// A name that a row remembers, and what it contributed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contribution {
    /// The job, and the step.
    pub name: JobName,
    /// As the effect wrote it.
    pub contribution: Bytes,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Rows that forgot at least one name.
    pub rows: u64,
    /// Names that were folded into their rows' baselines.
    pub names: u64,
}
