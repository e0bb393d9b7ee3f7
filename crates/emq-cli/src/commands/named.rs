//! Commands that are about jobs by their ids, of which one may be told without its queue.

use emq_core::{Bus, Queue};
use emq_keys::BrandedId;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::Out;

/// The queue that a job is in.
pub(crate) async fn home(bus: &Bus, id: BrandedId, said: Option<&str>) -> Result<Queue, Failure> {
    if let Some(name) = said {
        let queue = bus.queue(name)?;
        if queue.exists().await? {
            return Ok(queue);
        }
        return Err(Failure::new(
            Exit::NotFound,
            format!("there is no queue {name:?}; see emq ls"),
        ));
    }
    let found = bus.queues_with(id).await?;
    match &found[..] {
        [] => Err(Failure::new(
            Exit::NotFound,
            format!("no queue has a job {id}: it was completed, removed or never admitted"),
        )),
        [name] => Ok(bus.queue(name.as_str())?),
        several => {
            let names: Vec<&str> = several.iter().map(emq_keys::QueueName::as_str).collect();
            Err(Failure::usage(format!(
                "{id} is in several queues, {}: name one with --queue",
                names.join(" and ")
            )))
        }
    }
}

/// What became of one job.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) id: BrandedId,
    pub(crate) queue: Option<String>,
    pub(crate) outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// Does something to each job and tells of each. One failure among several jobs is said and passed
/// over, and then the exit code says that some weren't done; a lost server ends it.
pub(crate) async fn each(
    out: Out,
    ids: &[BrandedId],
    mut act: impl AsyncFnMut(BrandedId) -> Result<Outcome, Failure>,
) -> Result<(), Failure> {
    let mut failed = None;
    for id in ids {
        match act(*id).await {
            Ok(done) => {
                let queue = done.queue.as_deref().unwrap_or("-");
                out.tell(&done, || format!("{} {} ({queue})", done.id, done.outcome))?;
            }
            Err(failure) if ids.len() == 1 || failure.exit() == Exit::Unreachable => {
                return Err(failure);
            }
            Err(failure) => {
                let said = Outcome {
                    id: *id,
                    queue: None,
                    outcome: "failed",
                    error: Some(failure.to_string()),
                };
                out.tell(&said, || format!("{id} failed: {failure}"))?;
                failed = Some(failed.unwrap_or(0) + 1);
            }
        }
    }
    match failed {
        None => Ok(()),
        Some(n) => Err(Failure::new(Exit::Partial, format!("{n} of {} jobs failed", ids.len()))),
    }
}
