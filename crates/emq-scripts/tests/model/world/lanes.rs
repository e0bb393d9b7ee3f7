//! Lanes and the ring, and what an operator does to them.

use emq_keys::BrandedId;
use emq_scripts::Switched;

use super::{Lane, World};
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

    /// An interrupted share is void when its lane rotates, leaves, or changes weight.
    fn void_share(&mut self, group: BrandedId) {
        self.spent.take_if(|(lane, _)| *lane == group);
    }
}
