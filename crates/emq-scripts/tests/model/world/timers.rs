//! What time does: due jobs run, expired leases return.

use std::collections::BTreeMap;

use emq_keys::BrandedId;

use super::{Moment, State, World};

/// The first `limit` ids whose time has come, by score and then by name.
fn due(
    (name, set): (&str, &BTreeMap<BrandedId, u64>),
    limit: u32,
    moment: &Moment<'_>,
) -> Vec<BrandedId> {
    let mut due: Vec<(u64, BrandedId)> = set.iter().map(|(id, score)| (*score, *id)).collect();
    due.retain(|(score, id)| !moment.is_later(name, *id, *score));
    due.sort_unstable();
    due.into_iter().take(limit as usize).map(|(_, id)| id).collect()
}

impl World {
    /// `promote`: due jobs wait, also while the queue is paused. An id without a row is dropped.
    pub(super) fn promote(&mut self, limit: u32, moment: &Moment<'_>) -> u64 {
        let (mut count, mut runnable) = (0, 0);
        for id in due(("schedule", &self.schedule), limit, moment) {
            self.schedule.remove(&id);
            if self.rows.contains_key(&id) {
                count += 1;
                runnable += usize::from(self.wait(id, false));
            }
        }
        self.made_runnable(runnable);
        count
    }

    /// `reap`: expired jobs wait again, `lost` + 1, or are buried at the cap; the holder is kept,
    /// so that it can still complete. Answers how many of each.
    pub(super) fn reap(&mut self, limit: u32, lost_cap: u32, moment: &Moment<'_>) -> (u64, u64) {
        let (mut returned, mut buried, mut runnable) = (0, 0, 0);
        for id in due(("active", &self.active), limit, moment) {
            let Some(row) = self.rows.get_mut(&id) else {
                self.active.remove(&id);
                continue;
            };
            row.lost += 1;
            let wakes = if row.lost >= u64::from(lost_cap) {
                buried += 1;
                self.bury(id)
            } else {
                returned += 1;
                let in_lane = row.group.is_some();
                self.active.remove(&id);
                self.wait(id, in_lane)
            };
            runnable += usize::from(wakes);
        }
        self.made_runnable(runnable);
        (returned, buried)
    }

    /// An expired job goes to the morgue. Answers whether that opened its lane.
    fn bury(&mut self, id: BrandedId) -> bool {
        let row = self.rows[&id].clone();
        let opened = self.leave(id, &row);
        self.dead.insert(id);
        let row = self.rows.get_mut(&id).expect("it is still there");
        row.state = State::Dead;
        let lost = row.lost;
        row.last_error = Some(format!("lost {lost} times: its lease ended before a settle came"));
        opened
    }
}
