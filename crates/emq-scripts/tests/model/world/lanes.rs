//! Lanes and the ring, and what an operator does to them.

use emq_keys::BrandedId;
use emq_scripts::{Reassigned, RefusalClass, Switched};

use super::{Lane, State, World};
use crate::model::answer::Answer;

impl World {
    /// Changes a lane and keeps the ring: it holds exactly the serviceable lanes, and one that
    /// became serviceable goes to its tail. Answers whether it did.
    pub(super) fn change_lane(&mut self, group: BrandedId, change: impl FnOnce(&mut Lane)) -> bool {
        let lane = self.lanes.entry(group).or_default();
        let before = lane.is_serviceable();
        change(lane);
        let after = lane.is_serviceable();
        if before && !after {
            self.ring.retain(|other| *other != group);
            self.void_share(group);
        }
        if after && !before {
            self.ring.push_back(group);
        }
        after && !before
    }

    /// `lane_limit`: 0 removes the ceiling; a lowered one takes effect as leases settle.
    pub(super) fn lane_limit(&mut self, group: BrandedId, limit: u32) -> Answer {
        let ceiling = (limit > 0).then_some(limit);
        if self.lanes.entry(group).or_default().ceiling == ceiling {
            return Answer::Switched(Switched::Already);
        }
        let opened = self.change_lane(group, |lane| lane.ceiling = ceiling);
        self.made_runnable(opened.into());
        Answer::Switched(Switched::Changed)
    }

    /// `lane_pause` and `lane_resume`: the backlog stays, flight is untouched.
    pub(super) fn lane_park(&mut self, group: BrandedId, parked: bool) -> Answer {
        if self.lanes.entry(group).or_default().parked == parked {
            return Answer::Switched(Switched::Already);
        }
        let opened = self.change_lane(group, |lane| lane.parked = parked);
        self.made_runnable(opened.into());
        Answer::Switched(Switched::Changed)
    }

    /// `lane_weight`: an interrupted share is void when the lane changes weight.
    pub(super) fn lane_weight(&mut self, group: BrandedId, weight: u32) -> Answer {
        let lane = self.lanes.entry(group).or_default();
        let weight = (weight > 1).then_some(weight);
        if lane.weight == weight {
            return Answer::Switched(Switched::Already);
        }
        lane.weight = weight;
        self.void_share(group);
        Answer::Switched(Switched::Changed)
    }

    /// `lane_reassign`: a job moves to a lane or to the flat set; one that isn't pending when it
    /// waits again. A leased one stays: its lease counts for its lane.
    pub(super) fn reassign(&mut self, id: BrandedId, to: Option<BrandedId>) -> Answer {
        let Some(row) = self.rows.get(&id) else { return Answer::Reassigned(Reassigned::NoRow) };
        if row.group == to {
            return Answer::Reassigned(Reassigned::Already);
        }
        match row.state {
            State::Active => return Answer::Refused(RefusalClass::State),
            State::Pending => {
                let woken = self.move_waiting(id, to);
                self.made_runnable(woken.into());
            }
            State::Scheduled | State::Dead => {
                self.rows.entry(id).and_modify(|row| row.group = to);
            }
        }
        Answer::Reassigned(Reassigned::Moved)
    }

    /// The same for the oldest of a backlog. An id without a row is dropped.
    pub(super) fn reassign_backlog(
        &mut self,
        from: Option<BrandedId>,
        to: Option<BrandedId>,
        limit: u32,
    ) -> Answer {
        if from == to {
            return Answer::Refused(RefusalClass::Arg);
        }
        let waiting = match from {
            Some(group) => &self.lanes.entry(group).or_default().waiting,
            None => &self.pending,
        };
        let ids: Vec<BrandedId> = waiting.iter().take(limit as usize).copied().collect();
        let mut woken = 0;
        for id in &ids {
            if self.rows.contains_key(id) {
                woken += usize::from(self.move_waiting(*id, to));
            } else if let Some(group) = from {
                self.change_lane(group, |lane| lane.drop_waiting(*id));
            } else {
                self.pending.remove(id);
            }
        }
        self.made_runnable(woken);
        Answer::Count(ids.len() as u64)
    }

    /// Answers whether the job is runnable now and wasn't before.
    fn move_waiting(&mut self, id: BrandedId, to: Option<BrandedId>) -> bool {
        let row = self.rows[&id].clone();
        let was_runnable = row.group.is_none_or(|group| self.lanes[&group].is_serviceable());
        self.leave(id, &row);
        self.rows.entry(id).and_modify(|row| row.group = to);
        self.wait(id, false) && !was_runnable
    }

    /// An interrupted share is void when its lane rotates, leaves, or changes weight.
    fn void_share(&mut self, group: BrandedId) {
        self.spent.take_if(|(lane, _)| *lane == group);
    }
}
