//! The side of the business transaction.

use std::sync::Arc;

use bytes::Bytes;
use emq_core::{NewJob, PAYLOAD_CAP_DEFAULT};
use emq_keys::{Minter, Namespace, QueueName};

use super::error::OutboxError;
use super::row::gated;
#[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
use crate::postgres::PgTransaction;

/// Whether a job is new to the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Placed {
    /// It is there as soon as the transaction is committed.
    Written,
    /// A job of this id waits for this queue already: nothing was written.
    Duplicate,
}

/// Puts jobs into the caller's own transactions. Cheap to clone.
///
/// An id is minted before the row is written, on a node that this program holds alone: by the bus
/// ([`Bus::mint_job`](emq_core::Bus::mint_job)), as long as the bus is in reach, or by a minter on a
/// fixed node ([`Outbox::with_minter`]), so that business goes on while the bus is down.
#[derive(Clone, Debug)]
pub struct Outbox {
    minter: Option<Arc<Minter>>,
    payload_cap: usize,
}

impl Default for Outbox {
    fn default() -> Self {
        Outbox::new()
    }
}

impl Outbox {
    /// For jobs that have their ids from elsewhere.
    #[must_use]
    pub fn new() -> Outbox {
        Outbox { minter: None, payload_cap: PAYLOAD_CAP_DEFAULT }
    }

    /// With names of its own.
    #[must_use]
    pub fn with_minter(minter: Minter) -> Outbox {
        Outbox { minter: Some(Arc::new(minter)), ..Outbox::new() }
    }

    /// The largest payload in bytes; it must not be over the relay's bus' own cap.
    #[must_use]
    pub fn payload_cap(mut self, bytes: usize) -> Outbox {
        self.payload_cap = bytes;
        self
    }

    /// A job under a fresh id.
    ///
    /// # Errors
    /// [`OutboxError::NoMinter`] without a minter, [`OutboxError::Minting`] when the clock is of no
    /// use.
    pub fn job(&self, payload: impl Into<Bytes>) -> Result<NewJob, OutboxError> {
        let minter = self.minter.as_ref().ok_or(OutboxError::NoMinter)?;
        Ok(NewJob::new(minter.mint(Namespace::JOB)?, payload))
    }

    /// Puts a job into the caller's transaction: it exists if and only if that is committed. A
    /// delay counts from now, by the database's clock.
    ///
    /// # Errors
    /// See [`OutboxError`].
    #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
    pub async fn enqueue(
        &self,
        tx: &mut impl PgTransaction,
        queue: impl AsRef<str>,
        job: &NewJob,
    ) -> Result<Placed, OutboxError> {
        let queue = QueueName::new(queue)?;
        let columns = gated(&queue, job, self.payload_cap)?;
        Ok(super::postgres::insert(tx, &columns).await?)
    }

    /// Puts a job into the caller's transaction, as [`Outbox::enqueue`] does; `connection` is a
    /// [`rusqlite::Transaction`] of the caller's.
    ///
    /// # Errors
    /// See [`OutboxError`].
    #[cfg(feature = "sqlite")]
    pub fn enqueue_sqlite(
        &self,
        connection: &rusqlite::Connection,
        queue: impl AsRef<str>,
        job: &NewJob,
    ) -> Result<Placed, OutboxError> {
        let queue = QueueName::new(queue)?;
        let columns = gated(&queue, job, self.payload_cap)?;
        Ok(super::sqlite::insert(connection, &columns)?)
    }
}
