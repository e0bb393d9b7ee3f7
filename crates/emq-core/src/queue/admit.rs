//! Enqueueing one job.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use emq_keys::BrandedId;
use emq_scripts::{Admitted, Enqueue, LaneEnqueue, Schedule, ScriptCall};

use super::meters::Admissions;
use super::{EnqueueOptions, NewJob, Queue};
use crate::durability::Durability;
use crate::error::{Error, NotDurable};
use crate::outcome::Enqueued;

impl Queue {
    /// Enqueues a job under a fresh id.
    ///
    /// # Errors
    /// See [`Error`]. [`Error::Disconnected`] carries the id: the job may be there, and enqueueing
    /// it again under that id, with [`EnqueueOptions::id`], is safe.
    pub async fn enqueue(&self, payload: impl AsRef<[u8]>) -> Result<Enqueued, Error> {
        self.enqueue_with(payload, &EnqueueOptions::new()).await
    }

    /// Enqueues a job that runs at a time, by the server's clock.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub async fn enqueue_at(
        &self,
        payload: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<Enqueued, Error> {
        self.enqueue_with(payload, &EnqueueOptions::new().at(time)).await
    }

    /// Enqueues a job that runs after a delay, on the server's clock.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub async fn enqueue_in(
        &self,
        payload: impl AsRef<[u8]>,
        delay: Duration,
    ) -> Result<Enqueued, Error> {
        self.enqueue_with(payload, &EnqueueOptions::new().delay(delay)).await
    }

    /// Enqueues a job with options.
    ///
    /// # Errors
    /// As [`Queue::enqueue`]; [`Error::Kind`] when the id given is no job's;
    /// [`Error::NotDurable`] when the server can't give the durability asked for; it says whether
    /// the job was enqueued all the same.
    pub async fn enqueue_with(
        &self,
        payload: impl AsRef<[u8]>,
        options: &EnqueueOptions,
    ) -> Result<Enqueued, Error> {
        self.enqueue_into(None, payload.as_ref(), options).await
    }

    /// Enqueues a job in a lane, or in the flat set.
    pub(crate) async fn enqueue_into(
        &self,
        group: Option<BrandedId>,
        payload: &[u8],
        options: &EnqueueOptions,
    ) -> Result<Enqueued, Error> {
        self.bus().check_payload(payload.len())?;
        let id = match options.id {
            Some(id) => id,
            None => self.bus().mint_job().await?,
        };
        let durable = options.durability.waits();
        let gathers = options.when.is_none() && !durable;
        let under_way = gathers.then(|| self.bus().0.gatherer.begin());
        if under_way.as_ref().is_some_and(|under_way| !under_way.alone) {
            let job = NewJob::of(id, Bytes::copy_from_slice(payload), group, options.clone());
            if let Some(outcome) = self.gathered(job).await {
                return outcome;
            }
        }
        let admit = options.admit();
        match (options.when, group) {
            (None, None) => {
                let call = Enqueue { id, payload, options: admit, durable };
                self.admit(id, &call, options.durability).await
            }
            (None, Some(group)) => {
                let call = LaneEnqueue { id, payload, group, options: admit, durable };
                self.admit(id, &call, options.durability).await
            }
            (Some(when), group) => {
                let call = Schedule { id, payload, group, when, options: admit, durable };
                self.admit(id, &call, options.durability).await
            }
        }
    }

    /// Counts a job that was admitted by another script than an enqueue's.
    #[cfg(feature = "schedules")]
    pub(crate) fn count_admission(&self, admitted: &Admitted) {
        Admissions::of(admitted).tell(self.name());
    }

    async fn admit<C>(
        &self,
        id: BrandedId,
        call: &C,
        durability: Durability,
    ) -> Result<Enqueued, Error>
    where
        C: ScriptCall<Reply = Admitted>,
    {
        if !durability.waits() {
            let admitted = self.call(call).await.map_err(|error| Error::of_job(id, error))?;
            Admissions::of(&admitted).tell(self.name());
            return Ok(Enqueued::of(id, admitted, true));
        }
        let (admitted, confirmed) = self.call_durably(Some(id), call, durability).await?;
        Admissions::of(&admitted).tell(self.name());
        match (admitted, confirmed) {
            // Nothing was written, so there was nothing to wait for.
            (Admitted::Held(by), _) => Ok(Enqueued::Held { by }),
            (admitted, Ok(confirmed)) => Ok(Enqueued::of(id, admitted, confirmed)),
            (_, Err(reason)) => Err(Error::NotDurable { id: Some(id), reason, written: true }),
        }
    }

    /// One call over the durable lane, and whether it was acknowledged as asked; or why the server
    /// refused to wait, when the call had run.
    pub(super) async fn call_durably<C: ScriptCall>(
        &self,
        id: Option<BrandedId>,
        call: &C,
        durability: Durability,
    ) -> Result<(C::Reply, Result<bool, NotDurable>), Error> {
        let shared = &self.bus().0;
        let cmd = shared.fenced.command(self.keys(), call);
        let within = shared.durable_within;
        let answer = shared
            .durable
            .call(&shared.fenced, cmd, durability, within)
            .await
            .map_err(|error| error.about(id))?;
        let decoded = call.decode(answer.reply).map_err(|error| match id {
            Some(id) => Error::of_job(id, error),
            None => Error::of_queue(error),
        })?;
        Ok((decoded, answer.confirmed))
    }
}
