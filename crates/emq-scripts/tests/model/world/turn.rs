//! The worker's beat: each of its items is exactly the transition of its single verb.

use emq_scripts::{
    Claimed, Completed, ExtendVerdict, Extended, Reaped, RefusalClass, Retried, SettleVerdict,
    TurnJob,
};

use super::{Moment, World};
use crate::model::answer::{Answer, Beaten};
use crate::model::step::{Beat, Failed, Held, Outcome, Settled};

impl World {
    /// `turn`: settle, extend, reap, promote, claim, cascade, in this order.
    pub(super) fn turn(&mut self, beat: &Beat, moment: &Moment<'_>) -> Answer {
        let settles = beat.settles.iter();
        let verdicts = settles.map(|it| self.settle(it, beat.max_attempts, moment)).collect();
        let extensions = beat.extensions.iter();
        let extensions = extensions.map(|it| self.extension(it, beat.lease_ms, moment)).collect();
        let (returned, buried) = self.reap(beat.reap, beat.lost_cap, moment);
        let promoted = self.promote(beat.promote, moment);
        let mut jobs = Vec::new();
        while !self.paused && jobs.len() < beat.claim as usize {
            let Some(claimed) = self.serve(beat.lease_ms, beat.ticket.as_deref(), moment) else {
                break;
            };
            jobs.push(self.turn_job(claimed));
        }
        self.cascade();
        let next_ms = self.next_ms(moment);
        let reaped = Reaped { returned, buried };
        Answer::Turned(Beaten { verdicts, extensions, jobs, next_ms, reaped, promoted })
    }

    fn settle(&mut self, settled: &Settled, cap: u32, moment: &Moment<'_>) -> SettleVerdict {
        let held = settled.held.clone();
        let answer = match &settled.outcome {
            Outcome::Complete => self.complete(&held),
            Outcome::Release => self.release(&held),
            Outcome::Retry { delay_ms, error, force_dead } => {
                let (delay_ms, error, force_dead) = (*delay_ms, error.clone(), *force_dead);
                let failed = Failed { held, delay_ms, max_attempts: cap, error, force_dead };
                self.retry(&failed, moment)
            }
        };
        match answer {
            Answer::Completed(Completed::Done) | Answer::Released => SettleVerdict::Done,
            Answer::Retried(Retried::Scheduled) => SettleVerdict::Scheduled,
            Answer::Retried(Retried::Dead) => SettleVerdict::Dead,
            Answer::Completed(Completed::NoRow) | Answer::Retried(Retried::NoRow) => {
                SettleVerdict::NoRow
            }
            Answer::Refused(RefusalClass::Stale) => SettleVerdict::Stale,
            other => unreachable!("a settle answers {other:?}"),
        }
    }

    fn extension(&mut self, held: &Held, lease_ms: u64, moment: &Moment<'_>) -> ExtendVerdict {
        match self.extend(held, Some(lease_ms), moment) {
            Answer::Extended(Extended::Held) => ExtendVerdict::Held,
            Answer::Extended(Extended::CancelAsked) => ExtendVerdict::CancelAsked,
            _ => ExtendVerdict::Stale,
        }
    }

    /// One job, of the flat set or of the lane whose turn it is: the flat set counts as one more
    /// lane, and is due when `left` is 0 or the ring is empty.
    fn serve(
        &mut self,
        lease_ms: u64,
        ticket: Option<&str>,
        moment: &Moment<'_>,
    ) -> Option<Claimed> {
        while self.has_work() {
            let due = self.left.unwrap_or(0) == 0 || self.ring.is_empty();
            let claimed = match due && !self.pending.is_empty() {
                true => self.serve_flat(lease_ms, ticket, moment),
                false => self.serve_lane(lease_ms, ticket, moment),
            };
            // What had nothing but ids without rows isn't due any more.
            if claimed.is_some() {
                return claimed;
            }
        }
        None
    }

    fn turn_job(&self, claimed: Claimed) -> TurnJob {
        let kind = self.rows[&claimed.id].options.kind;
        TurnJob {
            id: claimed.id,
            payload: claimed.payload,
            token: claimed.token,
            group: claimed.group,
            checkpoint: claimed.checkpoint,
            kind: kind.map(|kind| kind.as_bytes().into()),
        }
    }

    /// How long until a job is due or a lease expires. The server's own figure, if it fits.
    fn next_ms(&self, moment: &Moment<'_>) -> Option<u64> {
        let soonest = *self.active.values().chain(self.schedule.values()).min()?;
        let most = soonest.saturating_sub(moment.from_ms);
        let allowed = soonest.saturating_sub(moment.to_ms)..=most;
        Some(moment.next_ms.filter(|ms| allowed.contains(ms)).unwrap_or(most))
    }
}
