//! What producers tell the facade of the crate `metrics`, with the feature of that name: counters
//! that carry the label `queue`.

use emq_keys::QueueName;
use emq_scripts::{Admitted, Verdict};

/// Counts what enqueues came to. One whose reply was lost is counted when it is sent again, as a
/// duplicate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Admissions {
    /// New jobs, confirmed or not.
    admitted: u64,
    /// Jobs that were there already, and those whose unique key another job holds.
    duplicate: u64,
}

impl Admissions {
    pub(super) fn of(admitted: &Admitted) -> Admissions {
        let is_new = matches!(admitted, Admitted::Admitted);
        Admissions { admitted: is_new.into(), duplicate: (!is_new).into() }
    }

    pub(super) fn of_list(verdicts: &[Verdict]) -> Admissions {
        let mut admissions = Admissions::default();
        for verdict in verdicts {
            match verdict {
                Verdict::Admitted => admissions.admitted += 1,
                Verdict::Duplicate | Verdict::Held(_) => admissions.duplicate += 1,
                Verdict::Kind => {}
            }
        }
        admissions
    }

    #[cfg(not(feature = "metrics"))]
    pub(super) fn tell(self, _queue: &QueueName) {
        // Nobody is told.
        let Admissions { admitted: _, duplicate: _ } = self;
    }

    #[cfg(feature = "metrics")]
    pub(super) fn tell(self, queue: &QueueName) {
        let counts = [
            ("emq_jobs_admitted_total", self.admitted),
            ("emq_jobs_duplicate_total", self.duplicate),
        ];
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            metrics::counter!(name, "queue" => queue.to_string()).increment(count);
        }
    }
}
