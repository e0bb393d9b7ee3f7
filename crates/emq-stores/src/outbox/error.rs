//! Why a job was not put into the outbox, and why a relay ended.

use emq_core::Error;
use emq_keys::{BrandedId, MintError, QueueNameError};

use crate::error::StoreError;

/// Why a job was not put into the outbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// Not the name of a queue. Nothing was written, and the transaction can go on.
    #[error("no queue can have this name; choose another")]
    QueueName(#[from] QueueNameError),
    /// The id names no job. Nothing was written, and the transaction can go on.
    #[error("{id} is no job's id; mint it in the namespace JOB")]
    Kind {
        /// The id.
        id: BrandedId,
    },
    /// The payload is over the cap. Nothing was written, and the transaction can go on.
    #[error("a payload of {bytes} bytes is over the cap of {limit}; store the artifact, name it")]
    PayloadTooLarge {
        /// How large it is.
        bytes: usize,
        /// The cap of this outbox.
        limit: usize,
    },
    /// Something said about the job is outside what the bus takes. Nothing was written, and the
    /// transaction can go on.
    #[error("{what} must be {range}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What it may be.
        range: &'static str,
    },
    /// No id could be minted. Nothing was written, and the transaction can go on.
    #[error("no id was minted")]
    Minting(#[from] MintError),
    /// The outbox has no names of its own to give.
    #[error("this outbox mints no ids: make it with a minter, or mint the job's id on the bus")]
    NoMinter,
    /// The database did not do it; the transaction is over, roll it back.
    #[error("the database did not take the job")]
    Store(#[from] StoreError),
}

/// Why a relay ended before it was told to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The server can't promise that an admitted job survives its crash, so nothing may be deleted
    /// here for it. Turn its append-only file on, or allow a volatile server.
    #[error("the relay needs a server that syncs; allow_volatile() says that losing jobs is fine")]
    NotDurable(#[source] Error),
    /// The bus is closed, or refused for good.
    #[error("the bus can't be used any more")]
    Bus(#[source] Error),
    /// The tables aren't there, or the database refuses for good.
    #[error("the database can't be used")]
    Store(#[source] StoreError),
}
