//! Claims: pending -> active, over the flat set or over the ring.

use bytes::Bytes;
use emq_keys::BrandedId;
use emq_scripts::Claimed;

use super::{Moment, State, World};
use crate::model::answer::Answer;

impl World {
    /// `claim`: the oldest of the flat set.
    pub(super) fn claim(
        &mut self,
        lease_ms: u64,
        ticket: Option<&str>,
        moment: &Moment<'_>,
    ) -> Answer {
        if self.paused {
            return Answer::Claimed(None);
        }
        let claimed = self.serve_flat(lease_ms, ticket, moment);
        self.cascade();
        Answer::Claimed(claimed)
    }

    /// `lane_claim`: the oldest of the lane at the ring's head.
    pub(super) fn lane_claim(
        &mut self,
        lease_ms: u64,
        ticket: Option<&str>,
        moment: &Moment<'_>,
    ) -> Answer {
        if self.paused {
            return Answer::Claimed(None);
        }
        let claimed = self.serve_lane(lease_ms, ticket, moment);
        self.cascade();
        Answer::Claimed(claimed)
    }

    /// The flat set gives its oldest job away. An id without a row is dropped.
    pub(super) fn serve_flat(
        &mut self,
        lease_ms: u64,
        ticket: Option<&str>,
        moment: &Moment<'_>,
    ) -> Option<Claimed> {
        while let Some(id) = self.pending.pop_first() {
            if !self.rows.contains_key(&id) {
                continue;
            }
            // The flat set had its turn, which counts when the lanes have work too.
            if !self.ring.is_empty() {
                self.left = Some(self.ring.len() as u64);
            }
            return Some(self.lease(id, lease_ms, ticket, moment));
        }
        None
    }

    /// The ring turns one step. An id without a row is dropped.
    pub(super) fn serve_lane(
        &mut self,
        lease_ms: u64,
        ticket: Option<&str>,
        moment: &Moment<'_>,
    ) -> Option<Claimed> {
        while let Some(group) = self.ring.front().copied() {
            let id = *self.lanes[&group].waiting.first()?;
            if self.rows.contains_key(&id) {
                self.turn_ring(group, id);
                return Some(self.lease(id, lease_ms, ticket, moment));
            }
            self.change_lane(group, |lane| lane.drop_waiting(id));
        }
        None
    }

    /// The lane at the head gives a job away: it stays there while its weight lasts, goes to the
    /// tail when its turn is over, or leaves when it isn't serviceable any more.
    fn turn_ring(&mut self, group: BrandedId, id: BrandedId) {
        let share = match self.spent.take() {
            Some((lane, share)) if lane == group => share + 1,
            _ => 1,
        };
        let turning = self.ring.len() as u64;
        self.change_lane(group, |lane| {
            lane.waiting.remove(&id);
            lane.leases += 1;
        });
        let lane = &self.lanes[&group];
        let stays = lane.is_serviceable();
        if stays && share < lane.weight.unwrap_or(1) {
            self.spent = Some((group, share));
            return;
        }
        if stays {
            self.ring.rotate_left(1);
        }
        // A lane's turn is over: the flat set, if it has work, comes one turn nearer, and waits for no
        // more turns than the ring had lanes.
        if !self.pending.is_empty()
            && let Some(left) = self.left.as_mut().filter(|left| **left > 0)
        {
            *left = (*left).min(turning) - 1;
        }
    }

    /// The lease itself; `attempts` + 1 is the token.
    fn lease(
        &mut self,
        id: BrandedId,
        lease_ms: u64,
        ticket: Option<&str>,
        moment: &Moment<'_>,
    ) -> Claimed {
        self.active.insert(id, moment.stamp("active", id, lease_ms));
        let row = self.rows.get_mut(&id).expect("its row was found");
        row.state = State::Active;
        row.attempts += 1;
        row.holder = ticket.map(str::to_owned);
        Claimed {
            id,
            payload: Bytes::from(row.payload.clone()),
            token: row.attempts,
            group: row.group,
            checkpoint: row.checkpoint.clone().map(Bytes::from),
        }
    }
}
