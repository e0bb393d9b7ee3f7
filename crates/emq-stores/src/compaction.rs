//! How a compaction goes through the rows, whatever keeps them.

use emq_keys::BrandedId;

use crate::effect::Compacted;

/// How many names one step of a compaction forgets, and how many rows it looks at. Others get in
/// between two steps.
pub(crate) const COMPACT_STEP: usize = 256;

/// Where a compaction is.
#[derive(Clone, Copy, Default)]
pub(crate) struct Progress {
    /// The row that was looked at last. Those before it are done, and itself is unless the step
    /// ended in the middle of it.
    pub(crate) row: Option<BrandedId>,
    /// Whether that row has forgotten a name, and so was counted.
    counted: bool,
    pub(crate) done: Compacted,
}

impl Progress {
    /// Goes on to a row, or stays at it.
    pub(crate) fn at(&mut self, row: BrandedId) {
        if self.row != Some(row) {
            self.row = Some(row);
            self.counted = false;
        }
    }

    /// Counts names that the row has forgotten.
    pub(crate) fn forgot(&mut self, names: u64) {
        if names == 0 {
            return;
        }
        self.done.names += names;
        self.done.rows += u64::from(!self.counted);
        self.counted = true;
    }
}
