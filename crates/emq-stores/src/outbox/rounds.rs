//! The relay's rounds: a batch taken, sent, and concluded; then the next, or a pause.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use emq_core::{Durability, Error};
use tokio_util::sync::CancellationToken;

use super::deliver::{Delivered, deliver, words};
use super::error::RelayError;
use super::pace::{Pause, Stuck};
use super::relay::Relay;
use super::shelf::Batch;
use super::status::{Done, tell};
use crate::error::StoreError;

/// How often what waits is counted while rounds follow each other, or fail.
const MEASURED_EVERY: Duration = Duration::from_secs(1);

/// What a relay remembers between its rounds.
pub(super) struct Rounds<'a> {
    relay: &'a Relay,
    pause: Pause,
    stuck: Stuck,
    /// Whether a round has passed. A server that can't sync ends a relay that has just started;
    /// later it is a state of the server that passes.
    proven: bool,
    measured: Option<Instant>,
}

/// What comes after a round.
enum Next {
    /// Another one: there may be more.
    AtOnce,
    /// Another one when there is news, or after this time.
    News(Duration),
    /// Another one after this time. A wake doesn't cut it short: the bus is no nearer for one more
    /// row.
    Pause(Duration),
}

impl<'a> Rounds<'a> {
    pub(super) fn new(relay: &'a Relay) -> Rounds<'a> {
        let (pause, stuck) = (Pause::default(), Stuck::default());
        Rounds { relay, pause, stuck, proven: false, measured: None }
    }

    pub(super) async fn run(mut self, stop: &CancellationToken) -> Result<(), RelayError> {
        while !stop.is_cancelled() {
            match self.next().await? {
                Next::AtOnce => {}
                Next::News(within) => tokio::select! {
                    () = stop.cancelled() => {}
                    () = self.relay.wake.notified() => {}
                    () = tokio::time::sleep(within) => {}
                },
                Next::Pause(pause) => tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(pause) => {}
                },
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Next, RelayError> {
        let outcome = match self.round().await {
            Ok(0) => self.measure().await.map(|()| 0),
            Ok(taken) => self.measure_if_due().await.map(|()| taken),
            Err(failure) => Err(failure),
        };
        let taken = match outcome {
            Ok(taken) => taken,
            Err(failure) => {
                self.note_failure(failure)?;
                // What waits grows now; a database that doesn't answer has been noted, or will be.
                let _ = self.measure_if_due().await;
                return Ok(Next::Pause(self.pause.grow()));
            }
        };
        self.pause = Pause::default();
        self.proven = true;
        self.relay.status.send_modify(|status| {
            status.last_error = None;
            status.not_durable = None;
        });
        if taken > 0 {
            return Ok(Next::AtOnce);
        }
        let sweep = self.relay.settings.sweep;
        Ok(Next::News(self.stuck.until_next().map_or(sweep, |turn| turn.min(sweep))))
    }

    /// One batch. Answers how many rows it had.
    async fn round(&mut self) -> Result<usize, Failure> {
        let durability = self.durability().await?;
        let looked = Instant::now();
        let left_out = self.stuck.left_out(looked);
        let batch = self.relay.take(mark(), &left_out).await?;
        let taken = batch.len();
        if taken == 0 {
            batch.conclude(Vec::new(), Vec::new()).await?;
            self.stuck.forget_before(looked);
            self.tell_stuck();
            return Ok(0);
        }
        self.move_on(batch, durability).await?;
        Ok(taken)
    }

    async fn move_on(&mut self, batch: Batch, durability: Durability) -> Result<(), Failure> {
        let delivered = deliver(&self.relay.bus, &batch.rows, durability).await;
        if let Some(hook) = &self.relay.before_delete {
            hook().await;
        }
        let Delivered { settled, mut refused, admitted, duplicates, held, .. } = delivered;
        refused.extend(batch.unreadable.iter().cloned());
        for (queue, id, reason) in &refused {
            tracing::warn!(queue, id, reason, "the bus will never take a job of the outbox");
        }
        batch.conclude(settled, refused).await?;
        let failures = u64::from(!delivered.stuck.is_empty());
        for queue in delivered.passed {
            self.stuck.pass(&queue);
        }
        for (queue, error) in delivered.stuck {
            let why = words(&error);
            tracing::warn!(queue, why, "a queue takes no jobs; its rows stay, the others go on");
            self.stuck.fail(queue, why);
        }
        let done = Done { admitted, duplicates, held, failures };
        self.relay.status.send_modify(|status| status.add(done));
        self.tell_stuck();
        delivered.error.map_or(Ok(()), |error| Err(Failure::Bus(error)))
    }

    /// What the server can promise. It is asked before each batch (the answer is kept as long as
    /// the connection), since it may have come back without its append-only file.
    async fn durability(&self) -> Result<Durability, Failure> {
        match self.relay.bus.check_fsynced().await {
            Ok(()) => Ok(Durability::Fsynced),
            Err(Error::NotDurable { .. }) if self.relay.settings.volatile => {
                Ok(Durability::Volatile)
            }
            Err(error) => Err(Failure::Bus(error)),
        }
    }

    async fn measure_if_due(&mut self) -> Result<(), Failure> {
        match self.measured {
            Some(last) if last.elapsed() < MEASURED_EVERY => Ok(()),
            _ => self.measure().await,
        }
    }

    async fn measure(&mut self) -> Result<(), Failure> {
        let depth = self.relay.shelf.depth().await?;
        self.measured = Some(Instant::now());
        self.relay.status.send_modify(|status| {
            status.depth = depth.waiting;
            status.refused = depth.refused;
            status.lag = depth.oldest;
            tell(status);
        });
        Ok(())
    }

    fn tell_stuck(&self) {
        let reasons = self.stuck.reasons();
        self.relay.status.send_if_modified(|status| {
            let news = status.stuck != reasons;
            status.stuck = reasons;
            news
        });
    }

    /// Notes a failure, and answers an error when no repetition helps.
    fn note_failure(&self, failure: Failure) -> Result<(), RelayError> {
        let why = words(&failure);
        tracing::warn!(why, "the relay failed; the rows stay");
        self.relay.status.send_modify(|status| {
            status.add(Done { failures: 1, ..Done::default() });
            status.last_error = Some(why);
            status.not_durable = match &failure {
                Failure::Bus(Error::NotDurable { reason, .. }) => Some(*reason),
                _ => None,
            };
        });
        match failure {
            Failure::Bus(error @ Error::NotDurable { .. }) if !self.proven => {
                Err(RelayError::NotDurable(error))
            }
            Failure::Bus(error @ (Error::Closed | Error::Refused(_) | Error::Config(_)))
                if !error.is_retryable() =>
            {
                Err(RelayError::Bus(error))
            }
            Failure::Store(error) if !error.is_retryable() => Err(RelayError::Store(error)),
            Failure::Store(error @ StoreError::Closed) => Err(RelayError::Store(error)),
            Failure::Bus(_) | Failure::Store(_) => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the bus did not take the jobs")]
    Bus(#[source] Error),
    #[error("the outbox could not be read or written")]
    Store(#[from] StoreError),
}

/// A mark that no other batch of any process has.
fn mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{since}-{next}", std::process::id())
}
