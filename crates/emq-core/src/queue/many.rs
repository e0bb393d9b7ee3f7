//! Enqueueing many jobs: a list cut into chunks, each of them atomic.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::PoisonError;

use bytes::Bytes;
use emq_keys::BrandedId;
use emq_scripts::{EnqueueMany, ManyItem, Verdict as ItemVerdict, When};
use emq_wire::Cmd;

use super::meters::Admissions;
use super::{EnqueueOptions, Queue};
use crate::durability::Durability;
use crate::error::Error;

/// How many chunks are under way at once: while the server runs one, the next is on its way.
const CHUNKS_UNDER_WAY: usize = 3;

/// A job to be enqueued with [`Queue::enqueue_many`]. It has its id from the start: the same list
/// can be sent any number of times.
#[derive(Clone, Debug)]
pub struct NewJob {
    id: BrandedId,
    payload: Bytes,
    group: Option<BrandedId>,
    options: EnqueueOptions,
}

impl NewJob {
    /// A job under an id, which [`Bus::mint_job`](crate::Bus::mint_job) gives.
    #[must_use]
    pub fn new(id: BrandedId, payload: impl Into<Bytes>) -> NewJob {
        NewJob { id, payload: payload.into(), group: None, options: EnqueueOptions::new() }
    }

    pub(super) fn of(
        id: BrandedId,
        payload: Bytes,
        group: Option<BrandedId>,
        options: EnqueueOptions,
    ) -> NewJob {
        NewJob { id, payload, group, options }
    }

    /// With options. Its id is the one given to [`NewJob::new`] and its durability the call's,
    /// whatever the options say.
    #[must_use]
    pub fn with(mut self, options: EnqueueOptions) -> NewJob {
        self.options = options;
        self
    }

    /// In a lane: the jobs of one list may be of any number of them.
    #[must_use]
    pub fn lane(mut self, lane: BrandedId) -> NewJob {
        self.group = Some(lane);
        self
    }

    /// Its lane; `None` for the flat set.
    #[must_use]
    pub fn group(&self) -> Option<BrandedId> {
        self.group
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> BrandedId {
        self.id
    }

    /// What is said about it.
    pub fn options(&self) -> &EnqueueOptions {
        &self.options
    }

    /// Its payload.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }
}

/// What became of one job of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The job is new, and acknowledged to the durability asked for.
    Admitted(BrandedId),
    /// A job of this id is there already: an earlier send arrived.
    Duplicate(BrandedId),
    /// Another job holds its unique key. Nothing was written for it.
    Held {
        /// The job of the list.
        id: BrandedId,
        /// The job that holds the key.
        by: BrandedId,
    },
    /// Admitted (or a duplicate), but not acknowledged in time. Sending it again is safe.
    Unconfirmed(BrandedId),
    /// The id names no job. Nothing was written for it.
    Kind(BrandedId),
}

impl Verdict {
    /// The job of the list that this is about.
    #[must_use]
    pub fn id(self) -> BrandedId {
        match self {
            Self::Admitted(id)
            | Self::Duplicate(id)
            | Self::Held { id, .. }
            | Self::Unconfirmed(id)
            | Self::Kind(id) => id,
        }
    }

    fn of(id: BrandedId, verdict: ItemVerdict, confirmed: bool) -> Verdict {
        match verdict {
            ItemVerdict::Held(by) => Self::Held { id, by },
            ItemVerdict::Kind => Self::Kind(id),
            _ if !confirmed => Self::Unconfirmed(id),
            ItemVerdict::Admitted => Self::Admitted(id),
            ItemVerdict::Duplicate => Self::Duplicate(id),
        }
    }
}

/// A list was not enqueued whole. Each of its jobs is in exactly one of the three lists, in the
/// order in which they were given. Sending the whole list again is always safe.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "{} of {} jobs are known to be enqueued or refused, {} may be, {} were not sent; \
     send the whole list again",
    known.len(),
    known.len() + in_doubt.len() + not_sent.len(),
    in_doubt.len(),
    not_sent.len()
)]
pub struct ManyError {
    /// What became of the jobs whose chunk was answered.
    pub known: Vec<Verdict>,
    /// Jobs that were sent and not answered, or whose durability the server refused to promise
    /// when it had run their chunk.
    pub in_doubt: Vec<BrandedId>,
    /// Jobs that were not sent, or whose chunk was refused whole.
    pub not_sent: Vec<BrandedId>,
    /// What ended the call.
    #[source]
    pub cause: Error,
}

impl ManyError {
    /// Whether sending the list again may succeed without anything being repaired by hand.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.cause.is_retryable()
    }
}

/// What is known of one chunk.
#[derive(Clone, Debug)]
enum Chunk {
    NotSent,
    InDoubt,
    Known(Vec<Verdict>),
}

/// The call as its senders share it.
struct Progress {
    /// The next chunk to send; none is sent after an error.
    next: usize,
    chunks: Vec<Chunk>,
    error: Option<Error>,
}

impl Queue {
    /// Enqueues a list, volatile. It is cut into chunks of at most 400 jobs and 1 MiB of payload;
    /// each chunk is atomic, the call as a whole is not. Answers one verdict a job, in order.
    ///
    /// # Errors
    /// [`ManyError`] says what is known of each job. A payload over the cap is found before
    /// anything is sent.
    pub async fn enqueue_many(&self, jobs: &[NewJob]) -> Result<Vec<Verdict>, Box<ManyError>> {
        self.enqueue_many_with(jobs, Durability::Volatile).await
    }

    /// Enqueues a list as [`Queue::enqueue_many`] does, with a durability for all of it.
    ///
    /// # Errors
    /// As [`Queue::enqueue_many`].
    pub async fn enqueue_many_with(
        &self,
        jobs: &[NewJob],
        durability: Durability,
    ) -> Result<Vec<Verdict>, Box<ManyError>> {
        let ranges = cut(jobs);
        let progress = Mutex::new(Progress {
            next: 0,
            chunks: vec![Chunk::NotSent; ranges.len()],
            error: None,
        });
        match self.before_sending(jobs).await {
            Err(error) => lock(&progress).error = Some(error),
            Ok(now_ms) => {
                let send = || self.send_chunks(jobs, &ranges, &progress, now_ms, durability);
                const { assert!(CHUNKS_UNDER_WAY == 3) };
                tokio::join!(send(), send(), send());
            }
        }
        conclude(jobs, &ranges, progress.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks the list, and asks the server for the time where a job has a delay.
    async fn before_sending(&self, jobs: &[NewJob]) -> Result<u64, Error> {
        for job in jobs {
            self.bus().check_payload(job.payload.len())?;
        }
        if jobs.iter().any(|job| matches!(job.options.when, Some(When::In(_)))) {
            return self.server_now_ms().await;
        }
        Ok(0)
    }

    /// Sends one chunk after the other until none is left or one failed.
    async fn send_chunks(
        &self,
        jobs: &[NewJob],
        ranges: &[Range<usize>],
        progress: &Mutex<Progress>,
        now_ms: u64,
        durability: Durability,
    ) {
        loop {
            let at = {
                let mut progress = lock(progress);
                if progress.error.is_some() || progress.next == ranges.len() {
                    return;
                }
                let at = progress.next;
                progress.next += 1;
                // Stays so should this future be dropped, or the answer be lost.
                progress.chunks[at] = Chunk::InDoubt;
                at
            };
            let chunk = &jobs[ranges[at].clone()];
            let outcome = self.send_chunk(chunk, now_ms, durability).await;
            let mut progress = lock(progress);
            match outcome {
                Ok(verdicts) => progress.chunks[at] = Chunk::Known(verdicts),
                Err(error) => {
                    if !may_have_run(&error) {
                        progress.chunks[at] = Chunk::NotSent;
                    }
                    progress.error.get_or_insert(error);
                    return;
                }
            }
        }
    }

    async fn send_chunk(
        &self,
        jobs: &[NewJob],
        now_ms: u64,
        durability: Durability,
    ) -> Result<Vec<Verdict>, Error> {
        let items: Vec<ManyItem<'_>> = jobs.iter().map(|job| item(job, now_ms)).collect();
        let call = EnqueueMany { items: &items, durable: durability.waits() };
        let (verdicts, confirmed) = if durability.waits() {
            self.call_durably(None, &call, durability).await?
        } else {
            (self.call(&call).await.map_err(Error::of_queue)?, Ok(true))
        };
        Admissions::of_list(&verdicts).tell(self.name());
        let refused = |reason| Error::NotDurable { id: None, reason, written: true };
        let confirmed = confirmed.map_err(refused)?;
        let of = |(job, verdict): (&NewJob, ItemVerdict)| Verdict::of(job.id, verdict, confirmed);
        Ok(jobs.iter().zip(verdicts).map(of).collect())
    }

    /// The server's clock, in unix milliseconds.
    pub(crate) async fn server_now_ms(&self) -> Result<u64, Error> {
        let reply = self.read(Cmd::new("TIME")).await?;
        super::timers::server_ms(&reply).ok_or_else(|| super::browse::misread("TIME", &reply))
    }
}

pub(super) fn item(job: &NewJob, now_ms: u64) -> ManyItem<'_> {
    let run_at_ms = job.options.when.map(|when| match when {
        When::At(unix_ms) => unix_ms,
        When::In(delay) => {
            let delay_ms = delay.as_nanos().div_ceil(1_000_000);
            now_ms.saturating_add(u64::try_from(delay_ms).unwrap_or(u64::MAX))
        }
    });
    let options = job.options.admit();
    ManyItem { id: job.id, payload: &job.payload, group: job.group, run_at_ms, options }
}

/// Whether a chunk that failed so may be at the server all the same.
fn may_have_run(error: &Error) -> bool {
    match error {
        Error::Disconnected { written, .. } | Error::NotDurable { written, .. } => *written,
        // A chunk refused by its script or for want of memory wrote nothing.
        Error::OutOfMemory { .. } | Error::Overloaded { .. } | Error::Refused(_) => false,
        Error::Call(source) => source.refusal().is_none(),
        Error::State { .. } => false,
        _ => true,
    }
}

/// Cuts a list at the bounds of one call.
fn cut(jobs: &[NewJob]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    while start < jobs.len() {
        let sizes = jobs[start..].iter().map(|job| job.payload.len());
        let end = start + fit(sizes, EnqueueMany::MAX_ITEMS);
        ranges.push(start..end);
        start = end;
    }
    ranges
}

/// How many of these payloads one call can carry; one that no call can hold goes alone, for the
/// script to refuse.
pub(super) fn fit(sizes: impl Iterator<Item = usize>, jobs_max: usize) -> usize {
    let mut bytes = 0;
    let within = sizes.take(jobs_max).take_while(|size| {
        bytes += size;
        bytes <= EnqueueMany::MAX_PAYLOAD_BYTES
    });
    within.count().max(1)
}

fn conclude(
    jobs: &[NewJob],
    ranges: &[Range<usize>],
    progress: Progress,
) -> Result<Vec<Verdict>, Box<ManyError>> {
    let mut known = Vec::with_capacity(jobs.len());
    let (mut in_doubt, mut not_sent) = (Vec::new(), Vec::new());
    for (range, chunk) in ranges.iter().zip(progress.chunks) {
        let ids = jobs[range.clone()].iter().map(NewJob::id);
        match chunk {
            Chunk::Known(verdicts) => known.extend(verdicts),
            Chunk::InDoubt => in_doubt.extend(ids),
            Chunk::NotSent => not_sent.extend(ids),
        }
    }
    match progress.error {
        None => Ok(known),
        Some(cause) => Err(Box::new(ManyError { known, in_doubt, not_sent, cause })),
    }
}

fn lock(progress: &Mutex<Progress>) -> std::sync::MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(sizes: &[usize]) -> Vec<NewJob> {
        let id: BrandedId = "JOB0NgWEfAEJfs".parse().unwrap();
        sizes.iter().map(|size| NewJob::new(id, vec![b'x'; *size])).collect()
    }

    #[test]
    fn a_list_is_cut_at_four_hundred_jobs_and_at_a_mebibyte() {
        assert_eq!(cut(&jobs(&[])), Vec::<Range<usize>>::new());
        assert_eq!(cut(&jobs(&[1; 400])), vec![0..400; 1]);
        assert_eq!(cut(&jobs(&[1; 801])), [0..400, 400..800, 800..801]);
        let half = EnqueueMany::MAX_PAYLOAD_BYTES / 2;
        assert_eq!(cut(&jobs(&[half, half, 1, half])), [0..2, 2..4]);
        assert_eq!(cut(&jobs(&[1, half * 3, 1])), [0..1, 1..2, 2..3]);
    }
}
