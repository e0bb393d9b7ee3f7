//! The rows themselves, and what is done to them. Nothing here waits.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use emq_keys::BrandedId;

use crate::compaction::{COMPACT_STEP, Progress};
use crate::effect::{Absorbed, Contribution, Effect, JobName};
use crate::error::StoreError;

/// The rows of one kind.
#[derive(Default)]
pub(super) struct Rows {
    rows: BTreeMap<BrandedId, Row>,
    horizon: Option<BrandedId>,
}

#[derive(Default)]
struct Row {
    body: Bytes,
    names: BTreeMap<JobName, Bytes>,
    folded: u64,
}

impl Rows {
    pub(super) fn row(&self, id: BrandedId) -> Option<Bytes> {
        self.rows.get(&id).map(|row| row.body.clone())
    }

    pub(super) fn put(&mut self, id: BrandedId, body: Bytes) {
        self.rows.entry(id).or_default().body = body;
    }

    pub(super) fn page_desc(
        &self,
        limit: usize,
        before: Option<BrandedId>,
    ) -> Vec<(BrandedId, Bytes)> {
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.rows.range((Bound::Unbounded, end)).rev();
        rows.take(limit).map(|(&id, row)| (id, row.body.clone())).collect()
    }

    pub(super) fn window(
        &self,
        lo: BrandedId,
        hi: BrandedId,
        limit: usize,
    ) -> Vec<(BrandedId, Bytes)> {
        if lo >= hi {
            return Vec::new();
        }
        self.rows.range(lo..hi).take(limit).map(|(&id, row)| (id, row.body.clone())).collect()
    }

    /// Nothing is written before the effect has answered, so neither its refusal nor its panic
    /// leaves anything.
    pub(super) fn absorb(
        &mut self,
        id: BrandedId,
        name: JobName,
        effect: Effect,
    ) -> Result<Absorbed, StoreError> {
        let row = self.rows.get(&id);
        if row.is_some_and(|row| row.names.contains_key(&name)) {
            return Ok(Absorbed::Declined);
        }
        match self.horizon {
            Some(horizon) if name.job() < horizon => {
                return Err(StoreError::BeyondHorizon { job: name.job(), horizon });
            }
            _ => {}
        }
        let written = effect(row.map(|row| row.body.clone()))?;
        let row = self.rows.entry(id).or_default();
        row.body = written.row;
        row.names.insert(name, written.contribution);
        Ok(Absorbed::Applied)
    }

    pub(super) fn absorbed(
        &self,
        id: BrandedId,
        limit: usize,
        after: Option<JobName>,
    ) -> Vec<Contribution> {
        let Some(row) = self.rows.get(&id) else { return Vec::new() };
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = row.names.range((start, Bound::Unbounded)).take(limit);
        names
            .map(|(name, contribution)| Contribution {
                name: name.clone(),
                contribution: contribution.clone(),
            })
            .collect()
    }

    pub(super) fn folded(&self, id: BrandedId) -> u64 {
        self.rows.get(&id).map_or(0, |row| row.folded)
    }

    pub(super) fn horizon(&self) -> Option<BrandedId> {
        self.horizon
    }

    /// The horizon never moves back. Answers where it is.
    pub(super) fn move_horizon(&mut self, to: BrandedId) -> BrandedId {
        *self.horizon.insert(self.horizon.map_or(to, |now| now.max(to)))
    }

    /// One step of forgetting names of jobs before the horizon. Answers where to go on.
    pub(super) fn forget(&mut self, before: BrandedId, from: Progress) -> (Progress, bool) {
        let mut progress = from;
        let mut budget = COMPACT_STEP;
        let start = from.row.map_or(Bound::Unbounded, Bound::Included);
        for (&id, row) in self.rows.range_mut((start, Bound::Unbounded)) {
            progress.at(id);
            while let Some(name) = row.names.first_entry()
                && name.key().job() < before
            {
                if budget == 0 {
                    return (progress, true);
                }
                budget -= 1;
                name.remove();
                row.folded += 1;
                progress.forgot(1);
            }
            if budget == 0 {
                return (progress, true);
            }
            budget -= 1;
        }
        (progress, false)
    }
}
