//! What an operator does to jobs and queues.

use std::collections::BTreeSet;

use emq_keys::BrandedId;
use emq_scripts::{Cancelled, RefusalClass, Removed, Requeued, Switched};

use super::{Moment, State, WAKE_MAX, World};
use crate::model::answer::Answer;
use crate::model::step::is_job;

const STATE: Answer = Answer::Refused(RefusalClass::State);

impl World {
    /// `cancel`: what waits is gone, what runs is marked.
    pub(super) fn cancel(&mut self, id: BrandedId) -> Answer {
        if !is_job(id) {
            return Answer::Refused(RefusalClass::Kind);
        }
        let Some(row) = self.rows.get_mut(&id) else { return Answer::Cancelled(Cancelled::NoRow) };
        match row.state {
            State::Dead => STATE,
            State::Active => {
                row.cancel = true;
                Answer::Cancelled(Cancelled::Asked)
            }
            State::Pending | State::Scheduled => {
                self.gone(id);
                Answer::Cancelled(Cancelled::Gone)
            }
        }
    }

    /// `requeue`: a dead job waits again, its caps count from now, its token keeps rising.
    pub(super) fn requeue(&mut self, id: BrandedId) -> Answer {
        match self.rows.get_mut(&id) {
            None => return Answer::Requeued(Requeued::NoRow),
            Some(row) if row.state != State::Dead => return STATE,
            Some(row) => {
                row.forgiven = row.attempts;
                row.lost = 0;
                row.holder = None;
                row.cancel = false;
            }
        }
        self.dead.remove(&id);
        let runnable = self.wait(id, false);
        self.made_runnable(runnable.into());
        Answer::Requeued(Requeued::Done)
    }

    /// `remove`: gone, unless it is leased.
    pub(super) fn remove(&mut self, id: BrandedId) -> Answer {
        match self.rows.get(&id) {
            None => Answer::Removed(Removed::NoRow),
            Some(row) if row.state == State::Active => STATE,
            Some(_) => {
                self.gone(id);
                Answer::Removed(Removed::Done)
            }
        }
    }

    /// `purge`: the oldest dead letters go, those before an id or all.
    pub(super) fn purge(&mut self, before: Option<BrandedId>, limit: u32) -> u64 {
        let old = |id: &&BrandedId| before.is_none_or(|before| **id < before);
        let ids: Vec<BrandedId> =
            self.dead.iter().filter(old).take(limit as usize).copied().collect();
        for id in &ids {
            self.gone(*id);
            self.dead.remove(id);
        }
        ids.len() as u64
    }

    /// `drain`: what waits goes, flat and in lanes, and the schedule too when asked. Which jobs go
    /// first when there are more than the limit is left open, so the server's choice is taken.
    pub(super) fn drain(&mut self, scheduled: bool, limit: u32, moment: &Moment<'_>) -> u64 {
        let waiting = self.lanes.values().flat_map(|lane| &lane.waiting);
        let mut drainable: BTreeSet<BrandedId> =
            self.pending.iter().chain(waiting).copied().collect();
        if scheduled {
            drainable.extend(self.schedule.keys());
        }
        let count = drainable.len().min(limit as usize);
        let kept = moment.standing();
        let mut gone: Vec<BrandedId> =
            drainable.iter().filter(|id| !kept.contains(id.as_str())).copied().collect();
        if gone.len() != count {
            gone = drainable.into_iter().take(count).collect();
        }
        for id in gone {
            self.gone(id);
            // An id without a row goes as well.
            self.pending.remove(&id);
            self.schedule.remove(&id);
            let groups: Vec<BrandedId> = self.lanes.keys().copied().collect();
            for group in groups {
                self.change_lane(group, |lane| lane.drop_waiting(id));
            }
        }
        count as u64
    }

    /// `queue_pause`.
    pub(super) fn queue_pause(&mut self) -> Answer {
        let was = std::mem::replace(&mut self.paused, true);
        Answer::Switched(if was { Switched::Already } else { Switched::Changed })
    }

    /// `queue_resume`: a token if anything is runnable.
    pub(super) fn queue_resume(&mut self) -> Answer {
        let was = std::mem::replace(&mut self.paused, false);
        self.made_runnable(self.has_work().into());
        Answer::Switched(if was { Switched::Changed } else { Switched::Already })
    }

    /// `nudge`: a token, unless all stand.
    pub(super) fn nudge(&mut self) -> Answer {
        self.wake = (self.wake + 1).min(WAKE_MAX);
        Answer::Nudged
    }
}

impl Moment<'_> {
    /// The ids that still wait afterwards.
    fn standing(&self) -> BTreeSet<String> {
        let mut ids: BTreeSet<String> = self.after.zset("pending").into_keys().collect();
        ids.extend(self.after.zset("schedule").into_keys());
        for group in self.after.lanes() {
            ids.extend(self.after.zset(&format!("g:{group}:pending")).into_keys());
        }
        ids
    }
}
