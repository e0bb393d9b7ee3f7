//! What can go wrong with schedules.

use super::timing::TimingError;

/// Why something can't be done with a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// No schedule can be called so. Nothing was sent.
    #[error("no schedule can be called `{}`; take 1 to 128 bytes of A-Z, a-z, 0-9, . _ and -",
        name.escape_debug())]
    Name {
        /// What was given.
        name: String,
    },
    /// It doesn't say when it ticks. Nothing was sent.
    #[error("the timing can't be used")]
    Timing(#[from] TimingError),
    /// There is no tick to come. Nothing was written.
    #[error("{name} would never tick (again); give it another timing")]
    Over {
        /// The schedule.
        name: String,
    },
    /// There is no such schedule.
    #[error("the queue has no schedule {name}; list them, or put it")]
    Unknown {
        /// The schedule.
        name: String,
    },
    /// Its jobs would have the ids of another schedule's. Nothing was written.
    #[error("the jobs of {name} would have the ids of another schedule's; choose another name")]
    Clash {
        /// The schedule.
        name: String,
    },
    /// The queue has as many schedules as it can have. Nothing was written.
    #[error("the queue has a thousand schedules; remove some, or take another queue")]
    Full,
    /// It was changed by others again and again, or it ticks faster than the server answers.
    #[error("{name} could not be changed, others change it meanwhile; try again")]
    Contended {
        /// The schedule.
        name: String,
    },
    /// What the timetable has isn't understood: a newer version may have written it.
    #[error("the definition of {name} isn't understood ({reason}); upgrade, or put it anew")]
    Unreadable {
        /// The schedule.
        name: String,
        /// Why.
        reason: String,
    },
}
