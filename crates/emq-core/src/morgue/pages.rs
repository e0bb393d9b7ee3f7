//! The morgue in pages, newest first.

use emq_keys::BrandedId;
use emq_wire::{Cmd, Reply};

use super::Morgue;
use crate::error::Error;
use crate::queue::{ids, misread};

impl Morgue {
    /// The ids of the newest dead letters by mint time, newest first, at most `n`; those minted
    /// before a given one, to read on from where the last page ended.
    ///
    /// ```
    /// # use emq_core::{Bus, Failure};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let valkey = emq_testkit::Valkey::start()?;
    /// let orders = Bus::connect(&valkey.url()).await?.queue("orders")?;
    /// for n in 0..3 {
    ///     orders.enqueue(n.to_string()).await?;
    ///     let lease = orders.claim(Duration::from_secs(30)).await?.expect("a job waits");
    ///     lease.retry(&Failure::new("no use").dead()).await?;
    /// }
    /// let newest = orders.morgue().page(None, 2).await?;
    /// let rest = orders.morgue().page(newest.last().copied(), 2).await?;
    /// assert_eq!((newest.len(), rest.len()), (2, 1));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn page(&self, before: Option<BrandedId>, n: usize) -> Result<Vec<BrandedId>, Error> {
        let from = before.map_or_else(|| "+".to_owned(), |id| format!("({id}"));
        let cmd = Cmd::new("ZRANGE").arg(self.queue.keys().dead()).arg(&from).arg("-");
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        let reply = self.queue.read(cmd.arg("BYLEX").arg("REV").arg("LIMIT").int(0).int(n)).await?;
        match reply {
            Reply::Array(_) => Ok(ids(&reply).collect()),
            other => Err(misread("ZRANGE", &other)),
        }
    }
}
