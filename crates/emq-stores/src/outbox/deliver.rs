//! A batch on its way to the bus, and what became of each row.

use std::collections::BTreeMap;

use emq_core::{Bus, Durability, Error, NewJob, Verdict};

use super::row::Row;

/// What became of a batch.
#[derive(Default)]
pub(super) struct Delivered {
    /// Queue and id of what the bus has for sure: deleted here.
    pub(super) settled: Vec<(String, String)>,
    /// Queue, id and reason of what the bus will never take: kept for a human.
    pub(super) refused: Vec<(String, String, String)>,
    pub(super) admitted: u64,
    pub(super) duplicates: u64,
    /// Settled because another job holds their unique key.
    pub(super) held: u64,
    /// Queues that took all that they were sent.
    pub(super) passed: Vec<String>,
    /// Queues that refuse whatever they are sent, and why.
    pub(super) stuck: Vec<(String, Error)>,
    /// Why the rest stays where it is.
    pub(super) error: Option<Error>,
}

/// Sends a batch, queue by queue. A failure of the bus leaves the rest of the batch where it is; a
/// queue that can't take its jobs doesn't keep the others from theirs.
pub(super) async fn deliver(bus: &Bus, rows: &[Row], durability: Durability) -> Delivered {
    let mut delivered = Delivered::default();
    let mut queues: BTreeMap<&str, Vec<NewJob>> = BTreeMap::new();
    for row in rows {
        let bytes = row.job.payload().len();
        if bytes > bus.payload_cap() {
            let reason = format!("{bytes} bytes are over the bus' cap of {}", bus.payload_cap());
            delivered.refuse(&row.queue, &row.job, reason);
        } else {
            queues.entry(&row.queue).or_default().push(row.job.clone());
        }
    }
    for (queue, jobs) in queues {
        match delivered.send(bus, queue, &jobs, durability).await {
            Ok(()) => delivered.passed.push(queue.to_owned()),
            Err(error) if is_of_the_queue(&error) => {
                delivered.stuck.push((queue.to_owned(), error));
            }
            Err(error) => delivered.error = Some(error),
        }
        if delivered.error.is_some() {
            break;
        }
    }
    delivered
}

impl Delivered {
    /// One job that the bus refuses has its whole chunk refused, unnamed: what is left is halved
    /// until the job stands alone, and only then is it to blame.
    async fn send(
        &mut self,
        bus: &Bus,
        name: &str,
        jobs: &[NewJob],
        durability: Durability,
    ) -> Result<(), Error> {
        let queue = match bus.queue(name) {
            Ok(queue) => queue,
            Err(error) => {
                jobs.iter().for_each(|job| self.refuse(name, job, error.to_string()));
                return Ok(());
            }
        };
        let mut left = vec![jobs.to_vec()];
        while let Some(jobs) = left.pop() {
            let error = match queue.enqueue_many_with(&jobs, durability).await {
                Ok(verdicts) => {
                    verdicts.into_iter().for_each(|verdict| self.note(name, verdict));
                    continue;
                }
                Err(error) => error,
            };
            error.known.iter().for_each(|verdict| self.note(name, *verdict));
            if !is_about_the_jobs(&error.cause) {
                return Err(error.cause);
            }
            let open = |job: &&NewJob| !error.known.iter().any(|known| known.id() == job.id());
            let open: Vec<NewJob> = jobs.iter().filter(open).cloned().collect();
            match &open[..] {
                [] => {}
                [job] => self.refuse(name, job, words(&error.cause)),
                open => {
                    let (first, second) = open.split_at(open.len() / 2);
                    left.push(second.to_vec());
                    left.push(first.to_vec());
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, queue: &str, verdict: Verdict) {
        let id = verdict.id().to_string();
        match verdict {
            Verdict::Admitted(_) => self.admitted += 1,
            Verdict::Duplicate(_) => self.duplicates += 1,
            Verdict::Held { .. } => self.held += 1,
            Verdict::Kind(_) => {
                self.refused.push((queue.to_owned(), id, "the id names no job".to_owned()));
                return;
            }
            Verdict::Unconfirmed(id) => {
                self.error.get_or_insert(Error::Unconfirmed { id });
                return;
            }
        }
        self.settled.push((queue.to_owned(), id));
    }

    fn refuse(&mut self, queue: &str, job: &NewJob, reason: String) {
        self.refused.push((queue.to_owned(), job.id().to_string(), reason));
    }
}

/// Whether the error can be one job's fault, and not the server's or the connection's.
fn is_about_the_jobs(error: &Error) -> bool {
    match error {
        Error::PayloadTooLarge { .. } | Error::Setting { .. } | Error::Kind { .. } => true,
        Error::Call(call) => {
            call.refusal().is_some_and(|class| matches!(class.word(), "EMQARG" | "EMQLIMIT"))
        }
        _ => false,
    }
}

/// Whether the error is one queue's, such as a key of a foreign type, or one that this user may not
/// touch. What passes by itself is the server's or the connection's.
fn is_of_the_queue(error: &Error) -> bool {
    matches!(error, Error::Call(_) | Error::State { .. }) && !error.is_retryable()
}

/// An error and its causes.
pub(super) fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}
