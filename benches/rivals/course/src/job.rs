//! What every rival carries, and what its handlers do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use contender::{Effects, PAYLOAD_BYTES};
use serde::{Deserialize, Serialize};

/// A job as a rival with typed arguments carries it. As JSON it is `contender::payload`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Counts from 0.
    pub id: usize,
    /// Fills up.
    pub data: String,
}

impl Job {
    /// Job `i` of a row.
    #[must_use]
    pub fn of(i: usize) -> Job {
        let digits = i.checked_ilog10().map_or(1, |log| log as usize + 1);
        let frame = "{\"id\":,\"data\":\"\"}".len();
        Job { id: i, data: "x".repeat(PAYLOAD_BYTES.saturating_sub(frame + digits)) }
    }
}

/// What a worker does with a job.
#[derive(Clone)]
pub struct Handler {
    effects: Arc<Effects>,
    takes: Duration,
    on_start: Arc<dyn Fn(usize) + Send + Sync>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("takes", &self.takes).finish_non_exhaustive()
    }
}

impl Handler {
    /// Nothing, but that its effect is counted.
    #[must_use]
    pub fn no_op(effects: &Arc<Effects>) -> Handler {
        Handler { effects: effects.clone(), takes: Duration::ZERO, on_start: Arc::new(|_| ()) }
    }

    /// Tells at each start which job it is.
    #[must_use]
    pub fn on_start(mut self, tell: impl Fn(usize) + Send + Sync + 'static) -> Handler {
        self.on_start = Arc::new(tell);
        self
    }

    /// Takes this long between start and effect.
    #[must_use]
    pub fn takes(mut self, takes: Duration) -> Handler {
        self.takes = takes;
        self
    }

    /// Does job `i`.
    pub async fn handle(&self, i: usize) {
        (self.on_start)(i);
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        self.effects.happened(i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_the_payload_that_all_sides_carry() {
        for i in [0, 9, 10, 99, 100, 123_456, 99_999_999] {
            assert_eq!(serde_json::to_string(&Job::of(i)).unwrap(), contender::payload(i));
        }
    }
}
