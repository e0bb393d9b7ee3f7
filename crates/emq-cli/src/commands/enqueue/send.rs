//! Sending a list with patience: every job has its id, so that it can be sent again.

use std::time::Duration;

use emq_core::{Durability, Error, ManyError, NewJob, Queue, Verdict};

/// How often a list is sent in all.
const SENDS: u32 = 8;
/// The pause before it is sent again; it doubles.
const PAUSE: Duration = Duration::from_millis(100);

/// Enqueues a list; again, when what went wrong may pass by itself. A full server is left to the
/// caller: it may stay full for long.
pub(super) async fn patiently(
    queue: &Queue,
    jobs: &[NewJob],
    durability: Durability,
) -> Result<Vec<Verdict>, Box<ManyError>> {
    let mut pause = PAUSE;
    for _ in 1..SENDS {
        match queue.enqueue_many_with(jobs, durability).await {
            Err(error) if passes(&error) => tokio::time::sleep(pause).await,
            outcome => return outcome,
        }
        pause *= 2;
    }
    queue.enqueue_many_with(jobs, durability).await
}

fn passes(error: &ManyError) -> bool {
    error.is_retryable() && !matches!(error.cause, Error::OutOfMemory { .. })
}
