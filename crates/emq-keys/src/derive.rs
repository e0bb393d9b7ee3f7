//! Ids for things that already have an outside name.

use sha2::{Digest, Sha256};

use crate::error::IdError;
use crate::id::{BrandedId, TIMESTAMP_SHIFT};
use crate::namespace::Namespace;

/// Why no id is derived from an outside name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeriveError {
    /// A job named by a hash would not sort by time: it would wait behind every fresh job.
    #[error(
        "a JOB id sorts by time and a derived one does not; mint it, or use derive_at with the \
         time the job belongs to"
    )]
    JobByHash,
    /// The time given to [`BrandedId::derive_at`] has no place in an id.
    #[error("the time of a derived id is out of range")]
    Time(#[source] IdError),
}

impl BrandedId {
    /// A stable id for an outside name, such as a tenant's slug or UUID: the same kind and name give
    /// the same id everywhere. It sorts by hash, so its time, node and sequence mean nothing.
    ///
    /// # Errors
    /// [`DeriveError::JobByHash`] when `namespace` is [`Namespace::JOB`].
    ///
    /// ```
    /// use emq_keys::{BrandedId, DeriveError, Namespace, namespace};
    /// let tenant = BrandedId::derive(namespace!("TEN"), b"acme-corp")?;
    /// assert_eq!(tenant.as_str(), "TEN3XSF0FpGe6H");
    /// assert_eq!(BrandedId::derive(Namespace::JOB, b"x"), Err(DeriveError::JobByHash));
    /// # Ok::<(), DeriveError>(())
    /// ```
    pub fn derive(namespace: Namespace, name: &[u8]) -> Result<BrandedId, DeriveError> {
        if namespace == Namespace::JOB {
            return Err(DeriveError::JobByHash);
        }
        Ok(BrandedId::from_gated(namespace, derived_snowflake(namespace, name)))
    }

    /// A stable id for an outside name at a known time, such as a cron tick: it sorts with what was
    /// minted in that millisecond. Two names in the same millisecond collide with probability 2^-22.
    ///
    /// # Errors
    /// [`DeriveError::Time`] when `unix_ms` is before [`EPOCH_MS`](crate::EPOCH_MS) or after
    /// [`MAX_UNIX_MS`](crate::MAX_UNIX_MS).
    ///
    /// ```
    /// use emq_keys::{BrandedId, Namespace};
    /// let tick = BrandedId::derive_at(Namespace::JOB, 1_769_526_697_641, b"nightly-report")?;
    /// assert_eq!(tick.as_str(), "JOB0KHTOWnSAgl");
    /// # Ok::<(), emq_keys::DeriveError>(())
    /// ```
    pub fn derive_at(
        namespace: Namespace,
        unix_ms: u64,
        name: &[u8],
    ) -> Result<BrandedId, DeriveError> {
        let least = BrandedId::min_for(namespace, unix_ms).map_err(DeriveError::Time)?;
        let low = derived_snowflake(namespace, name) & ((1 << TIMESTAMP_SHIFT) - 1);
        Ok(BrandedId::from_gated(namespace, least.snowflake() | low))
    }
}

fn derived_snowflake(namespace: Namespace, name: &[u8]) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(namespace.as_bytes());
    hasher.update([0]);
    hasher.update(name);
    let digest = hasher.finalize();
    let head = digest.iter().take(8).fold(0, |head: u64, &byte| (head << 8) | u64::from(byte));
    head >> 1
}
