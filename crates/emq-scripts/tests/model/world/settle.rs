//! Settling, by where the job is: the settle table of bundle.md.

use emq_scripts::{Completed, Extended, LAST_ERROR_MAX_BYTES, RefusalClass, Retried};

use super::{Moment, Row, State, World};
use crate::model::answer::Answer;
use crate::model::step::{Failed, Held};

const STALE: Answer = Answer::Refused(RefusalClass::Stale);

/// Token and holder must both be the row's.
fn is_holder(row: &Row, held: &Held) -> bool {
    row.attempts == held.token && row.holder == held.ticket
}

impl World {
    /// `complete`: gone, wherever it sits.
    pub(super) fn complete(&mut self, held: &Held) -> Answer {
        match self.rows.get(&held.id) {
            None => Answer::Completed(Completed::NoRow),
            Some(row) if !is_holder(row, held) => STALE,
            Some(_) => {
                let opened = self.gone(held.id);
                self.made_runnable(opened.into());
                Answer::Completed(Completed::Done)
            }
        }
    }

    /// `retry`: to the schedule, or to the morgue at the cap, or at once when told so. Losses and
    /// what was forgiven aren't failures.
    pub(super) fn retry(&mut self, failed: &Failed, moment: &Moment<'_>) -> Answer {
        let Failed { held, delay_ms, max_attempts, error, force_dead } = failed;
        let Some(row) = self.rows.get(&held.id) else { return Answer::Retried(Retried::NoRow) };
        if !self.is_live(held) {
            return STALE;
        }
        let failures = row.attempts - row.lost - row.forgiven;
        let cap = row.options.max_attempts.unwrap_or(*max_attempts);
        let row = row.clone();
        let opened = self.leave(held.id, &row);
        let row = self.rows.get_mut(&held.id).expect("it is still there");
        row.holder = None;
        row.last_error = (!error.is_empty()).then(|| cut(error).to_owned());
        if *force_dead || failures >= u64::from(cap) {
            row.state = State::Dead;
            self.dead.insert(held.id);
            self.made_runnable(opened.into());
            return Answer::Retried(Retried::Dead);
        }
        row.state = State::Scheduled;
        let due_ms = moment.stamp("schedule", held.id, *delay_ms);
        let earliest = self.is_earliest(due_ms);
        self.schedule.insert(held.id, due_ms);
        self.made_runnable((opened || earliest).into());
        Answer::Retried(Retried::Scheduled)
    }

    /// `release`: back to where it waits, without blame.
    pub(super) fn release(&mut self, held: &Held) -> Answer {
        if !self.is_live(held) {
            return STALE;
        }
        self.active.remove(&held.id);
        let row = self.rows.get_mut(&held.id).expect("a live lease has a row");
        row.holder = None;
        row.forgiven += 1;
        let runnable = self.wait(held.id, true);
        self.made_runnable(runnable.into());
        Answer::Released
    }

    /// `extend`: now + lease, also when it has expired and wasn't reaped. `None` leaves it.
    pub(super) fn extend(
        &mut self,
        held: &Held,
        lease_ms: Option<u64>,
        moment: &Moment<'_>,
    ) -> Answer {
        if !self.is_live(held) {
            return STALE;
        }
        if let Some(lease_ms) = lease_ms {
            self.active.insert(held.id, moment.stamp("active", held.id, lease_ms));
        }
        Answer::Extended(match self.rows[&held.id].cancel {
            true => Extended::CancelAsked,
            false => Extended::Held,
        })
    }

    /// `checkpoint`: as `extend`, and the progress is kept. No field is ever empty.
    pub(super) fn checkpoint(
        &mut self,
        held: &Held,
        lease_ms: Option<u64>,
        data: &[u8],
        moment: &Moment<'_>,
    ) -> Answer {
        let answer = self.extend(held, lease_ms, moment);
        if answer != STALE {
            let row = self.rows.get_mut(&held.id).expect("a live lease has a row");
            row.checkpoint = (!data.is_empty()).then(|| data.to_vec());
        }
        answer
    }

    /// Whether it holds a lease, expired or not, that nobody reaped.
    fn is_live(&self, held: &Held) -> bool {
        let row = self.rows.get(&held.id);
        row.is_some_and(|row| row.state == State::Active && is_holder(row, held))
    }
}

/// The longest head of an error that fits and ends at a character.
fn cut(error: &str) -> &str {
    let fits = |end: &usize| *end <= LAST_ERROR_MAX_BYTES && error.is_char_boundary(*end);
    let end = (0..=error.len()).rev().find(fits).unwrap_or(0);
    &error[..end]
}
