//! Admission: nothing -> pending or scheduled.

use emq_keys::BrandedId;
use emq_scripts::{Admitted, RefusalClass, Verdict};

use super::{Moment, Row, State, World};
use crate::model::answer::Answer;
use crate::model::step::{Admission, Due, is_job};

/// What an admission came to, and whom it wakes.
struct Outcome {
    verdict: Verdict,
    runnable: bool,
    earliest: bool,
}

impl World {
    /// `enqueue` and `schedule`.
    pub(super) fn admit_one(&mut self, job: &Admission, moment: &Moment<'_>) -> Answer {
        let outcome = self.admit(job, moment);
        self.made_runnable((outcome.runnable || outcome.earliest).into());
        match outcome.verdict {
            Verdict::Admitted => Answer::Admitted(Admitted::Admitted),
            Verdict::Duplicate => Answer::Admitted(Admitted::Duplicate),
            Verdict::Held(holder) => Answer::Admitted(Admitted::Held(holder)),
            Verdict::Kind => Answer::Refused(RefusalClass::Kind),
        }
    }

    /// `lane_enqueue`.
    pub(super) fn lane_enqueue(
        &mut self,
        job: &Admission,
        group: BrandedId,
        moment: &Moment<'_>,
    ) -> Answer {
        self.admit_one(&Admission { group: Some(group), due: Due::Now, ..job.clone() }, moment)
    }

    /// `enqueue_many`: each item exactly as alone, in order; their tokens are the batch's.
    pub(super) fn admit_many(&mut self, items: &[Admission], moment: &Moment<'_>) -> Answer {
        let outcomes: Vec<Outcome> = items.iter().map(|item| self.admit(item, moment)).collect();
        let runnable = outcomes.iter().filter(|outcome| outcome.runnable).count();
        let earliest = outcomes.iter().any(|outcome| outcome.earliest);
        self.made_runnable(runnable.max(earliest.into()));
        Answer::Verdicts(outcomes.into_iter().map(|outcome| outcome.verdict).collect())
    }

    /// Policy, then existence, then the unique key, then the write.
    fn admit(&mut self, job: &Admission, moment: &Moment<'_>) -> Outcome {
        let refused = |verdict| Outcome { verdict, runnable: false, earliest: false };
        if !is_job(job.id) {
            return refused(Verdict::Kind);
        }
        if self.rows.contains_key(&job.id) {
            return refused(Verdict::Duplicate);
        }
        if let Some(key) = &job.options.unique {
            if let Some(holder) = self.unique.get(key) {
                return refused(Verdict::Held(*holder));
            }
            self.unique.insert(key.clone(), job.id);
        }
        self.rows.insert(job.id, new_row(job));
        let verdict = Verdict::Admitted;
        match due_ms(job, moment) {
            None => Outcome { verdict, runnable: self.wait(job.id, false), earliest: false },
            Some(due_ms) => {
                let earliest = self.is_earliest(due_ms);
                self.schedule.insert(job.id, due_ms);
                Outcome { verdict, runnable: false, earliest }
            }
        }
    }
}

/// When it is due; `None` for now. Due already means now.
fn due_ms(job: &Admission, moment: &Moment<'_>) -> Option<u64> {
    match job.due {
        Due::Now | Due::In(0) => None,
        Due::In(delay_ms) => Some(moment.stamp("schedule", job.id, delay_ms)),
        Due::At(unix_ms) => moment.is_later("schedule", job.id, unix_ms).then_some(unix_ms),
    }
}

fn new_row(job: &Admission) -> Row {
    let state = match job.due {
        Due::Now | Due::In(0) => State::Pending,
        // `wait` says otherwise when the time has come.
        Due::In(_) | Due::At(_) => State::Scheduled,
    };
    Row {
        state,
        attempts: 0,
        payload: job.payload.clone(),
        group: job.group,
        holder: None,
        lost: 0,
        forgiven: 0,
        last_error: None,
        checkpoint: None,
        options: job.options.clone(),
        cancel: false,
    }
}
