//! What can go wrong in this layer.

use emq_keys::{BrandedId, NodeIdError, QueueNameError};
use emq_scripts::{CallError, FenceError, FenceFailure, RefusalClass};
use emq_wire::{ConfigError, ServerError, WireError};

use crate::bus::MintingError;
use crate::payload::CodecError;

/// An error of the bus. Match on the variant; [`Error::is_retryable`] says whether the same call
/// may succeed later by itself.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection can't be configured so.
    #[error("the bus is misconfigured; correct its URL or its settings")]
    Config(#[from] ConfigError),

    /// `EMQ_NODE` names no node.
    #[error("EMQ_NODE is of no use; unset it or give a node")]
    Node(#[from] NodeIdError),

    /// Not the name of a queue.
    #[error("no queue can have this name; choose another")]
    QueueName(#[from] QueueNameError),

    /// No id could be minted. Nothing was sent.
    #[error("no id was minted and nothing was enqueued; mend the cause or give an id of your own")]
    Minting(#[from] MintingError),

    /// A value didn't become bytes, or bytes no value.
    #[error("the payload doesn't pass its codec; look at the type on both sides")]
    Codec(#[from] CodecError),

    /// The payload is over the cap. Nothing was sent.
    #[error(
        "a payload of {bytes} bytes is over the cap of {limit}; \
         store the artifact and enqueue its name, or raise the cap"
    )]
    PayloadTooLarge {
        /// How large it is.
        bytes: usize,
        /// The cap of this bus.
        limit: usize,
    },

    /// A setting is outside what the scripts take. Nothing was sent.
    #[error("{what} must be {range}; choose another value")]
    Setting {
        /// Which.
        what: &'static str,
        /// What it may be.
        range: &'static str,
    },

    /// The caller doesn't hold the job's lease (any more).
    #[error("the lease of {id} isn't yours (any more); drop the work, it is decided elsewhere")]
    Stale {
        /// The job.
        id: BrandedId,
    },

    /// There is no such job.
    #[error("{id} is gone: completed, removed or never admitted; look in the store it wrote to")]
    Gone {
        /// The job.
        id: BrandedId,
    },

    /// The id is well formed, but names no job.
    #[error("{id} is no job's id; mint it in the namespace JOB")]
    Kind {
        /// The id.
        id: BrandedId,
    },

    /// The job or the queue is not in the state that the verb needs.
    #[error("{}", if id.is_some() {
        "the verb doesn't fit the state of the job; read it with `get` and choose another"
    } else {
        "the verb doesn't fit the state of the queue; bring it into the one that the cause names"
    })]
    State {
        /// The job, where the verb names one.
        id: Option<BrandedId>,
        /// The script's own words.
        #[source]
        source: Box<CallError>,
    },

    /// The acknowledgement of a durable write didn't come in time; see
    /// [`Enqueued::confirmed`](crate::Enqueued::confirmed).
    #[error("{id} is admitted but not confirmed as durable; enqueue it again under the same id")]
    Unconfirmed {
        /// The job.
        id: BrandedId,
    },

    /// The server can't give the durability asked for. It is found out before anything is written,
    /// unless the server hides its configuration and refuses only the wait itself.
    #[error(
        "the server can't promise this durability: {reason}; {}change the server or ask for less",
        if *.written { "what was asked ran all the same; " } else { "" }
    )]
    NotDurable {
        /// The job of the verb; with `written` it is there, or was already.
        id: Option<BrandedId>,
        /// Why.
        reason: NotDurable,
        /// Whether the verb ran, volatile.
        written: bool,
    },

    /// Over a bound of this process' own. Nothing was sent.
    #[error("too much is in flight on this bus; slow down or raise its bounds")]
    Overloaded {
        /// Which bound.
        #[source]
        source: WireError,
    },

    /// The connection was lost, or is not there.
    #[error("the server is out of reach{}", if *.written {
        "; the verb may have run, so send it again only where it is idempotent"
    } else {
        " and the verb did not run; try again"
    })]
    Disconnected {
        /// The job of the verb; an enqueue is sent again safely under this id.
        id: Option<BrandedId>,
        /// Whether the verb may have run.
        written: bool,
        /// What happened.
        #[source]
        source: WireError,
    },

    /// The fence refused this server, for good.
    #[error("the fence refused this server; every call on this bus says so")]
    Refused(#[source] Box<FenceError>),

    /// The server is full and takes no new jobs. Nothing was written.
    #[error("the server is out of memory; let workers drain it, then enqueue again")]
    OutOfMemory {
        /// Which script was refused.
        #[source]
        source: Box<CallError>,
    },

    /// Something is wrong with a schedule.
    #[cfg(feature = "schedules")]
    #[error("the schedule can't be had so")]
    Schedule(#[from] crate::schedules::ScheduleError),

    /// The bus was closed.
    #[error("the bus is closed; connect another")]
    Closed,

    /// The server or a script refused in another way.
    #[error("the server did not run the verb")]
    Call(#[source] Box<CallError>),
}

/// Why a server can't promise a durable write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotDurable {
    /// It keeps no append-only file.
    #[error("it keeps no append-only file (appendonly no)")]
    NoAppendOnlyFile,
    /// It leaves syncing to the operating system.
    #[error("it never syncs its append-only file by itself (appendfsync no)")]
    NeverSynced,
    /// It doesn't know how to wait for a sync, or doesn't let this user wait.
    #[error("it can't say when a write is synced (no WAITAOF for this user)")]
    NoWait,
}

impl Error {
    /// Whether the same call may succeed later without anything being repaired by hand.
    ///
    /// After [`Error::Disconnected`] with `written` the verb may have run already: the verbs that
    /// name their job or its lease can be repeated all the same, since a second run changes
    /// nothing; an enqueue can be when it is given the id that the error carries.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Minting(error) => error.is_retryable(),
            Self::Disconnected { .. }
            | Self::Overloaded { .. }
            | Self::OutOfMemory { .. }
            | Self::Unconfirmed { .. } => true,
            Self::Refused(error) => error.is_retryable(),
            Self::Call(error) => error.is_retryable(),
            #[cfg(feature = "schedules")]
            Self::Schedule(error) => {
                matches!(error, crate::schedules::ScheduleError::Contended { .. })
            }
            Self::Config(_)
            | Self::Node(_)
            | Self::QueueName(_)
            | Self::Codec(_)
            | Self::PayloadTooLarge { .. }
            | Self::Setting { .. }
            | Self::Stale { .. }
            | Self::Gone { .. }
            | Self::Kind { .. }
            | Self::State { .. }
            | Self::NotDurable { .. }
            | Self::Closed => false,
        }
    }

    /// Whether the server doesn't let this user in, or not do what was asked: a wrong password, none
    /// where one is needed, or a right that the user doesn't have.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(server) = error.downcast_ref::<ServerError>() {
                return matches!(server.class(), "WRONGPASS" | "NOAUTH" | "NOPERM");
            }
            cause = error.source();
        }
        false
    }

    /// The fence's own reason, when it refused.
    #[must_use]
    pub fn fence(&self) -> Option<&FenceError> {
        match self {
            Self::Refused(error) => Some(error),
            _ => None,
        }
    }

    /// Says which job a loss, or a missing promise, is about.
    pub(crate) fn about(self, id: Option<BrandedId>) -> Error {
        match self {
            Self::Disconnected { id: None, written, source } => {
                Self::Disconnected { id, written, source }
            }
            Self::NotDurable { id: None, reason, written } => {
                Self::NotDurable { id, reason, written }
            }
            other => other,
        }
    }

    /// Sorts the error of a call that is about a job.
    pub(crate) fn of_job(id: BrandedId, error: CallError) -> Error {
        match error.refusal() {
            Some(RefusalClass::Stale) => Error::Stale { id },
            Some(RefusalClass::Kind) => Error::Kind { id },
            _ => Error::sort(Some(id), error),
        }
    }

    /// Sorts the error of a call that is about the whole queue.
    pub(crate) fn of_queue(error: CallError) -> Error {
        Error::sort(None, error)
    }

    fn sort(id: Option<BrandedId>, error: CallError) -> Error {
        match error {
            CallError::Wire(error) => Error::of_wire(id, error),
            CallError::OutOfMemory { .. } => Error::OutOfMemory { source: Box::new(error) },
            CallError::Refused { class: RefusalClass::State, .. } => {
                Error::State { id, source: Box::new(error) }
            }
            other => Error::Call(Box::new(other)),
        }
    }

    pub(crate) fn of_wire(id: Option<BrandedId>, error: WireError) -> Error {
        if let Some(refused) = emq_scripts::fence_error(&error) {
            return Error::Refused(Box::new(refused.clone()));
        }
        let written = match &error {
            WireError::Disconnected { written } => *written,
            WireError::Timeout { .. } => true,
            WireError::NotReady | WireError::Connect { .. } => false,
            WireError::Overloaded { .. } => return Error::Overloaded { source: error },
            WireError::Closed => return Error::Closed,
            _ => return Error::Call(Box::new(CallError::Wire(error))),
        };
        Error::Disconnected { id, written, source: error }
    }
}

impl From<FenceFailure> for Error {
    fn from(failure: FenceFailure) -> Error {
        match failure {
            FenceFailure::Fence(error) => Error::Refused(Box::new(error)),
            FenceFailure::Wire(WireError::Config(error)) => Error::Config(error),
            FenceFailure::Wire(error) => Error::of_wire(None, error),
            other => Error::Disconnected {
                id: None,
                written: false,
                source: WireError::Unexpected { step: "the fence", found: other.to_string() },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> BrandedId {
        "JOB0NgWEfAEJfs".parse().unwrap()
    }

    #[test]
    fn a_loss_says_whether_the_verb_may_have_run_and_keeps_the_id() {
        for (error, ran) in [
            (WireError::Disconnected { written: true }, true),
            (WireError::Disconnected { written: false }, false),
            (WireError::NotReady, false),
            (WireError::Timeout { after: std::time::Duration::from_secs(1) }, true),
        ] {
            let sorted = Error::of_job(id(), CallError::Wire(error));
            assert!(sorted.is_retryable());
            let Error::Disconnected { id: Some(kept), written, .. } = sorted else {
                panic!("{sorted:?}")
            };
            assert_eq!((kept, written), (id(), ran));
        }
    }

    #[test]
    fn a_closed_bus_and_a_bound_are_told_apart_from_a_loss() {
        assert!(matches!(Error::of_queue(CallError::Wire(WireError::Closed)), Error::Closed));
        let bound = WireError::Overloaded { limit: 1, what: "commands" };
        let sorted = Error::of_queue(CallError::Wire(bound));
        assert!(matches!(sorted, Error::Overloaded { .. }) && sorted.is_retryable());
    }
}
