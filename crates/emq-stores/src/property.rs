//! What a backend does.

use std::pin::Pin;

use bytes::Bytes;
use emq_keys::{BrandedId, Namespace};

use crate::effect::{Absorbed, Compacted, Contribution, Effect, JobName};
use crate::error::StoreError;

/// What a backend's methods answer.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps the rows of one kind, as bytes, keyed by branded id and by nothing else.
///
/// Ids that reach a backend passed the gates of [`Store`](crate::Store): they are of its kind, and
/// jobs are of kind `JOB`. A dropped future changes nothing or all of what it was to change.
pub trait PropertyStore: Send + Sync + 'static {
    /// The kind of its rows.
    fn kind(&self) -> Namespace;

    /// One row.
    fn get(&self, id: BrandedId) -> Answer<'_, Option<Bytes>>;

    /// Writes a row, whatever was there. The names that it absorbed stay.
    fn put(&self, id: BrandedId, row: Bytes) -> Answer<'_, ()>;

    /// The newest rows first, by their ids alone: at most `limit`, those before `before`.
    fn page_desc(
        &self,
        limit: usize,
        before: Option<BrandedId>,
    ) -> Answer<'_, Vec<(BrandedId, Bytes)>>;

    /// Rows of `[lo, hi)`, ascending: at most `limit`.
    fn window(
        &self,
        lo: BrandedId,
        hi: BrandedId,
        limit: usize,
    ) -> Answer<'_, Vec<(BrandedId, Bytes)>>;

    /// The guard: if the row remembers the name, [`Absorbed::Declined`]; else if the job is older
    /// than the horizon, [`StoreError::BeyondHorizon`]; else the effect is written together with
    /// the name. All of it is atomic, also among concurrent callers.
    fn absorb(&self, id: BrandedId, name: JobName, effect: Effect) -> Answer<'_, Absorbed>;

    /// The names that a row remembers, ascending: at most `limit`, those after `after`.
    fn absorbed(
        &self,
        id: BrandedId,
        limit: usize,
        after: Option<JobName>,
    ) -> Answer<'_, Vec<Contribution>>;

    /// How many names of a row were folded into its baseline.
    fn folded(&self, id: BrandedId) -> Answer<'_, u64>;

    /// Moves the horizon (it never moves back), and then forgets the names of jobs before it, in
    /// bounded steps: each folds into its row's baseline.
    fn compact(&self, horizon: BrandedId) -> Answer<'_, Compacted>;

    /// Jobs before it that aren't remembered are refused; `None` as long as nothing was compacted.
    fn horizon(&self) -> Answer<'_, Option<BrandedId>>;
}
