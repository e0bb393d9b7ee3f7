//! The gates that every id passes before a store is touched.

use emq_core::Job;
use emq_keys::{BrandedId, Namespace};

use crate::effect::{JobName, STEP_LEN_MAX};
use crate::error::StoreError;

/// What may be given where an id is asked for. Text and bytes pass the gates of parsing.
pub trait IntoId {
    /// The id.
    ///
    /// # Errors
    /// [`StoreError::Id`] for what is no id.
    fn into_id(self) -> Result<BrandedId, StoreError>;
}

impl IntoId for BrandedId {
    fn into_id(self) -> Result<BrandedId, StoreError> {
        Ok(self)
    }
}

impl IntoId for &BrandedId {
    fn into_id(self) -> Result<BrandedId, StoreError> {
        Ok(*self)
    }
}

impl IntoId for &str {
    fn into_id(self) -> Result<BrandedId, StoreError> {
        Ok(BrandedId::parse(self.as_bytes())?)
    }
}

impl IntoId for &String {
    fn into_id(self) -> Result<BrandedId, StoreError> {
        Ok(BrandedId::parse(self.as_bytes())?)
    }
}

impl IntoId for &[u8] {
    fn into_id(self) -> Result<BrandedId, StoreError> {
        Ok(BrandedId::parse(self)?)
    }
}

/// What may be given where a job's name is asked for: an id, or the job in a handler's hands.
pub trait IntoJob {
    /// The job's id, not yet known to be of kind `JOB`.
    ///
    /// # Errors
    /// [`StoreError::Id`] for what is no id.
    fn into_job(self) -> Result<BrandedId, StoreError>;
}

impl<I: IntoId> IntoJob for I {
    fn into_job(self) -> Result<BrandedId, StoreError> {
        self.into_id()
    }
}

impl<T> IntoJob for &Job<T> {
    fn into_job(self) -> Result<BrandedId, StoreError> {
        Ok(self.id())
    }
}

/// The id, when it is of the kind that the store keeps.
pub(crate) fn of_kind(id: impl IntoId, expected: Namespace) -> Result<BrandedId, StoreError> {
    let id = id.into_id()?;
    if id.namespace() == expected { Ok(id) } else { Err(StoreError::Kind { id, expected }) }
}

/// The job's id, when it names a job.
pub(crate) fn job(job: impl IntoJob) -> Result<BrandedId, StoreError> {
    let id = job.into_job()?;
    if id.namespace() == Namespace::JOB { Ok(id) } else { Err(StoreError::NotAJob { id }) }
}

/// Refuses a name that names no job, or whose step some backend couldn't keep.
pub(crate) fn name(name: &JobName) -> Result<(), StoreError> {
    job(name.job())?;
    let step = name.step_name();
    if step.len() > STEP_LEN_MAX || step.contains('\0') {
        return Err(StoreError::Step { len: step.len() });
    }
    Ok(())
}
