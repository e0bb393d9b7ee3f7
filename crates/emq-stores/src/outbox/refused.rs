//! Rows that the bus will never take: listed, sent once more, or thrown away by whoever decides.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::shelf::Shelf;
use crate::error::StoreError;

/// A row that the bus refused for good.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The queue that it was for.
    pub queue: String,
    /// The job's id as it is written there, which may be none.
    pub id: String,
    /// Why it was refused.
    pub reason: String,
    /// The job's payload.
    pub payload: Bytes,
    /// The lane that it was for; `None` for the flat set.
    pub lane: Option<String>,
    /// The job's kind, where one was said.
    pub kind: Option<String>,
    /// When it was written, by the database's clock.
    pub written_at: SystemTime,
}

/// What became of a refused row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ruling {
    /// It waits again, and is sent like any other.
    Readmitted,
    /// It is gone, and its job never was.
    Discarded,
    /// There is no refused row of this queue and id: nothing was changed.
    NotRefused,
}

impl Shelf {
    /// Up to `limit` refused rows in the order of queue and id, from the first or from behind
    /// `after`.
    ///
    /// ```no_run
    /// use emq_stores::outbox::{Ruling, Shelf};
    ///
    /// # async fn example(outbox: Shelf) -> Result<(), emq_stores::StoreError> {
    /// for row in outbox.refused(100, None).await? {
    ///     println!("{} for {}: {}", row.id, row.queue, row.reason);
    ///     let _: Ruling = outbox.discard(&row.queue, &row.id).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn refused(
        &self,
        limit: usize,
        after: Option<&Refused>,
    ) -> Result<Vec<Refused>, StoreError> {
        let (queue, id) = after.map_or(("", ""), |row| (&row.queue, &row.id));
        match self {
            #[cfg(feature = "sqlite")]
            Shelf::Sqlite(db) => {
                super::sqlite::refused(db, limit, (queue.to_owned(), id.to_owned())).await
            }
            #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
            Shelf::Postgres(db) => super::postgres::refused(db, limit, (queue, id)).await,
        }
    }

    /// Has a refused row sent once more, when what kept it from the bus is mended. A relay finds it
    /// as it finds a commit.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn readmit(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
    ) -> Result<Ruling, StoreError> {
        let (queue, id) = (queue.as_ref(), id.as_ref());
        let changed = match self {
            #[cfg(feature = "sqlite")]
            Shelf::Sqlite(db) => super::sqlite::readmit(db, queue, id).await?,
            #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
            Shelf::Postgres(db) => super::postgres::readmit(db, queue, id).await?,
        };
        Ok(if changed { Ruling::Readmitted } else { Ruling::NotRefused })
    }

    /// Throws a refused row away. A row that waits is never touched.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn discard(
        &self,
        queue: impl AsRef<str>,
        id: impl AsRef<str>,
    ) -> Result<Ruling, StoreError> {
        let (queue, id) = (queue.as_ref(), id.as_ref());
        let changed = match self {
            #[cfg(feature = "sqlite")]
            Shelf::Sqlite(db) => super::sqlite::discard(db, queue, id).await?,
            #[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
            Shelf::Postgres(db) => super::postgres::discard(db, queue, id).await?,
        };
        Ok(if changed { Ruling::Discarded } else { Ruling::NotRefused })
    }
}

/// A column in unix milliseconds.
pub(super) fn moment(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}
