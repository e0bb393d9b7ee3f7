//! Sending a list with patience: every job has its id, so that it can be sent again.

use std::time::{Duration, Instant};

use emq_core::{Durability, Error, ManyError, NewJob, Queue, Verdict};

/// How long a list is sent again for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before it is sent again; it doubles.
const PAUSE: Duration = Duration::from_millis(100);

/// Enqueues a list; again, when what went wrong may pass by itself. A full server is left to the
/// caller: it may stay full for long.
pub(super) async fn patiently(
    queue: &Queue,
    jobs: &[NewJob],
    durability: Durability,
) -> Result<Vec<Verdict>, Box<ManyError>> {
    let (begun, mut pause) = (Instant::now(), PAUSE);
    loop {
        match queue.enqueue_many_with(jobs, durability).await {
            Err(error) if passes(&error) && begun.elapsed() < PATIENCE => {}
            outcome => return outcome,
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

fn passes(error: &ManyError) -> bool {
    error.is_retryable() && !matches!(error.cause, Error::OutOfMemory { .. })
}
