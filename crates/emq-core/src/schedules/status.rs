//! What a scheduler tells of itself.

/// What a scheduler is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchedulerPhase {
    /// It has not read its timetables yet.
    #[default]
    Starting,
    /// It ticks, or sleeps until the next tick or beat.
    Running,
    /// The server is out of reach, or full.
    Reconnecting,
    /// It has ended.
    Stopped,
}

/// A scheduler's state at one moment, and what it has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerStatus {
    /// What it is doing.
    pub phase: SchedulerPhase,
    /// How many schedules it knows.
    pub schedules: usize,
    /// What it has done.
    pub totals: SchedulerTotals,
}

/// What a scheduler has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerTotals {
    /// Jobs that it admitted.
    pub admitted: u64,
    /// Decisions by which missed ticks were passed over.
    pub passed: u64,
    /// Ticks without a new job, because one of that id was there already.
    pub duplicate: u64,
    /// Ticks without a job, because another one holds their unique key.
    pub held: u64,
    /// Ticks that another scheduler had decided first.
    pub elsewhere: u64,
    /// Calls that were too early or too late by the server's clock.
    pub off_time: u64,
    /// Looks for changed definitions.
    pub looks: u64,
    /// Definitions read anew.
    pub reads: u64,
}
