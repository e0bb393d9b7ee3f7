//! What a verb came to, where the scripts' own outcome isn't enough.

use emq_keys::BrandedId;
use emq_scripts::Admitted;

use crate::error::Error;

/// What an enqueue came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Enqueued {
    /// The job is new, and acknowledged to the durability asked for.
    Admitted(BrandedId),
    /// A job of this id is there already, in whatever state. This is a success: it says that an
    /// earlier send of the same job arrived.
    Duplicate(BrandedId),
    /// Another job holds the unique key. Nothing was written.
    Held {
        /// The job that holds it.
        by: BrandedId,
    },
    /// Admitted (or a duplicate), but fewer acknowledgements came in time than were asked for.
    /// Enqueueing it again under this id is safe.
    Unconfirmed(BrandedId),
}

impl Enqueued {
    /// The job that stands for this call: its own, or the holder of the unique key.
    #[must_use]
    pub fn id(self) -> BrandedId {
        match self {
            Self::Admitted(id) | Self::Duplicate(id) | Self::Unconfirmed(id) => id,
            Self::Held { by } => by,
        }
    }

    /// Turns a missing acknowledgement into an error.
    ///
    /// # Errors
    /// [`Error::Unconfirmed`] for [`Enqueued::Unconfirmed`].
    pub fn confirmed(self) -> Result<Enqueued, Error> {
        match self {
            Self::Unconfirmed(id) => Err(Error::Unconfirmed { id }),
            other => Ok(other),
        }
    }

    pub(crate) fn of(id: BrandedId, admitted: Admitted, confirmed: bool) -> Enqueued {
        match admitted {
            Admitted::Held(by) => Self::Held { by },
            _ if !confirmed => Self::Unconfirmed(id),
            Admitted::Admitted => Self::Admitted(id),
            Admitted::Duplicate => Self::Duplicate(id),
        }
    }
}

/// Which jobs a drain deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainScope {
    /// Those that wait.
    Waiting,
    /// Those that wait and those that are scheduled.
    WaitingAndScheduled,
}
