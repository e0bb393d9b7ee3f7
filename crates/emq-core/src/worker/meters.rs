//! What is told to the facade of the crate `metrics`, with the feature of that name.
//!
//! A worker takes its meters when it starts, so the recorder must be installed before. All carry
//! the label `queue`.

#[cfg(not(feature = "metrics"))]
pub(super) use self::off::Meters;
#[cfg(feature = "metrics")]
pub(super) use self::on::Meters;

#[cfg(not(feature = "metrics"))]
mod off {
    use std::time::Duration;

    use emq_keys::{BrandedId, QueueName};

    use crate::worker::status::Tally;

    /// Nobody is told.
    pub(in crate::worker) struct Meters;

    impl Meters {
        pub(in crate::worker) fn new(_queue: &QueueName) -> Meters {
            Meters
        }

        pub(in crate::worker) fn tell(&mut self, _tally: &Tally, _in_flight: usize) {}

        pub(in crate::worker) fn waited(&self, _id: BrandedId) {}

        pub(in crate::worker) fn ran(&self, _took: Duration) {}
    }
}

#[cfg(feature = "metrics")]
mod on {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use emq_keys::{BrandedId, QueueName};
    use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

    use crate::worker::status::{Tally, Totals};

    /// A counter, and which of the totals it tells.
    type Told = (Counter, fn(&Totals) -> u64);

    /// The meters of one worker.
    pub(in crate::worker) struct Meters {
        counters: Vec<Told>,
        in_flight: Gauge,
        wait: Histogram,
        run: Histogram,
        /// What was told so far: workers of one queue share its meters, so that each adds to them.
        told: (Totals, usize),
    }

    impl Meters {
        pub(in crate::worker) fn new(queue: &QueueName) -> Meters {
            let queue = queue.to_string();
            let counter = |name: &'static str, of: fn(&Totals) -> u64| -> Told {
                (counter!(name, "queue" => queue.clone()), of)
            };
            Meters {
                counters: vec![
                    counter("emq_jobs_started_total", |totals| totals.started),
                    counter("emq_jobs_done_total", |totals| totals.done),
                    counter("emq_jobs_retried_total", |totals| totals.retried),
                    counter("emq_jobs_dead_total", |totals| totals.dead),
                    counter("emq_jobs_released_total", |totals| totals.released),
                    counter("emq_jobs_cancelled_total", |totals| totals.cancelled),
                    counter("emq_jobs_lost_total", |totals| totals.lost),
                    counter("emq_jobs_promoted_total", |totals| totals.promoted),
                    counter("emq_jobs_returned_total", |totals| totals.returned),
                    counter("emq_jobs_buried_total", |totals| totals.buried),
                    counter("emq_jobs_stale_total", |totals| totals.stale),
                    counter("emq_jobs_abandoned_total", |totals| totals.abandoned),
                    counter("emq_jobs_panicked_total", |totals| totals.panicked),
                    counter("emq_jobs_timed_out_total", |totals| totals.timed_out),
                    counter("emq_worker_parks_total", |totals| totals.parks),
                    counter("emq_worker_wakes_total", |totals| totals.wakes),
                    counter("emq_worker_reconnects_total", |totals| totals.reconnects),
                ],
                in_flight: gauge!("emq_jobs_in_flight", "queue" => queue.clone()),
                wait: histogram!("emq_job_wait_seconds", "queue" => queue.clone()),
                run: histogram!("emq_job_run_seconds", "queue" => queue.clone()),
                told: (Totals::default(), 0),
            }
        }

        /// Tells what happened since the last time.
        pub(in crate::worker) fn tell(&mut self, tally: &Tally, in_flight: usize) {
            let totals = tally.read();
            for (counter, of) in &self.counters {
                let more = of(&totals) - of(&self.told.0);
                if more > 0 {
                    counter.increment(more);
                }
            }
            if in_flight != self.told.1 {
                self.in_flight.increment(in_flight as f64 - self.told.1 as f64);
            }
            self.told = (totals, in_flight);
        }

        /// From the minting of a job to its first start, on the producer's clock and this one.
        pub(in crate::worker) fn waited(&self, id: BrandedId) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let waited = now.saturating_sub(Duration::from_millis(id.unix_ms()));
            self.wait.record(waited.as_secs_f64());
        }

        /// How long a handler ran.
        pub(in crate::worker) fn ran(&self, took: Duration) {
            self.run.record(took.as_secs_f64());
        }
    }
}
