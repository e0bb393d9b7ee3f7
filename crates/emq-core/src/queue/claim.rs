//! Claiming by hand.

use std::time::Duration;

use emq_scripts::{Claim, LaneClaim};

use super::Queue;
use crate::error::Error;
use crate::lease::Lease;

impl Queue {
    /// Takes the oldest job of the flat set under a lease and a fresh ticket. `None` when nothing
    /// waits there or the queue is paused.
    ///
    /// A claimed job must be settled through its [`Lease`] before the lease ends; else it waits
    /// again. A [`Worker`](crate::Worker) does all of this by itself.
    ///
    /// # Errors
    /// See [`Error`]. After [`Error::Disconnected`] a job may be held that nobody works: its
    /// lease ends and it waits again.
    pub async fn claim(&self, lease: Duration) -> Result<Option<Lease>, Error> {
        let ticket = self.bus().0.tickets.next();
        let call = Claim { lease, ticket: Some(&ticket) };
        let claimed = self.call(&call).await.map_err(Error::of_queue)?;
        Ok(claimed.map(|claimed| Lease::new(self.clone(), claimed, Some(ticket.clone()))))
    }

    /// Takes the oldest job of the flat set with a ticket of the caller's, or without one: then
    /// the token alone is what a settle is checked against.
    ///
    /// # Errors
    /// As [`Queue::claim`].
    pub async fn claim_as(
        &self,
        lease: Duration,
        ticket: Option<&str>,
    ) -> Result<Option<Lease>, Error> {
        let claimed = self.call(&Claim { lease, ticket }).await.map_err(Error::of_queue)?;
        Ok(claimed.map(|claimed| Lease::new(self.clone(), claimed, ticket.map(Into::into))))
    }

    /// Turns the ring one step: takes the oldest job of the lane whose turn it is, under a lease
    /// and a fresh ticket. `None` when no lane is serviceable or the queue is paused.
    ///
    /// It looks at lanes alone, as [`Queue::claim`] looks at the flat set alone; a
    /// [`Worker`](crate::Worker) serves both in turn.
    ///
    /// # Errors
    /// As [`Queue::claim`].
    pub async fn claim_lane(&self, lease: Duration) -> Result<Option<Lease>, Error> {
        let ticket = self.bus().0.tickets.next();
        let call = LaneClaim { lease, ticket: Some(&ticket) };
        let claimed = self.call(&call).await.map_err(Error::of_queue)?;
        Ok(claimed.map(|claimed| Lease::new(self.clone(), claimed, Some(ticket.clone()))))
    }

    /// Turns the ring one step with a ticket of the caller's, or without one.
    ///
    /// # Errors
    /// As [`Queue::claim`].
    pub async fn claim_lane_as(
        &self,
        lease: Duration,
        ticket: Option<&str>,
    ) -> Result<Option<Lease>, Error> {
        let claimed = self.call(&LaneClaim { lease, ticket }).await.map_err(Error::of_queue)?;
        Ok(claimed.map(|claimed| Lease::new(self.clone(), claimed, ticket.map(Into::into))))
    }
}
