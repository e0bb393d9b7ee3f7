//! The rotation as the specification tells it, one job at a time. It shares nothing with the
//! scripts: it says which single claim comes next, and which job that must answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::snapshot::Snapshot;

/// A lane, as far as the rotation sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// Ids in order, with those that have no pending row (a torn past).
    waiting: VecDeque<String>,
    leases: u64,
    ceiling: Option<u64>,
    weight: u64,
}

/// Ring, lanes and flat set, and what the rotation remembers between calls.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    flat: VecDeque<String>,
    lanes: BTreeMap<String, Lane>,
    pub(crate) ring: VecDeque<String>,
    /// The lane whose share was interrupted, and how much of it is spent.
    pub(crate) spent: Option<(String, u64)>,
    /// Lane turns until the flat set is due.
    pub(crate) left: u64,
    /// The ids that can be claimed at all.
    live: BTreeSet<String>,
}

/// One single claim, and the job that it answers, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Flat(Option<String>),
    Lane(Option<String>),
}

impl Lane {
    fn is_serviceable(&self) -> bool {
        !self.waiting.is_empty() && self.ceiling.is_none_or(|ceiling| self.leases < ceiling)
    }
}

impl Rotation {
    /// The rotation of a queue as it stands.
    pub(crate) fn of(queue: &Snapshot) -> Rotation {
        let ids = |set: &str| queue.zset(set).into_keys().collect::<VecDeque<_>>();
        let count = |hash: &str, group: &str| -> Option<u64> {
            queue.hash(hash).get(group).map(|count| count.parse().expect("a count"))
        };
        let ring: VecDeque<String> = queue.list("ring").into();
        let lanes = ring.iter().map(|group| {
            let lane = Lane {
                waiting: ids(&format!("g:{group}:pending")),
                leases: count("gactive", group).unwrap_or(0),
                ceiling: count("glimit", group),
                weight: count("gweight", group).unwrap_or(1),
            };
            (group.clone(), lane)
        });
        let meta = queue.hash("meta");
        let spent = meta.get("spent").map(|spent| {
            let (group, share) = spent.split_once('|').expect("lane|k");
            (group.to_owned(), share.parse().expect("a count"))
        });
        let pending = |id: &&str| {
            let row = queue.hash(&format!("job:{id}"));
            row.get("state").is_some_and(|state| state == "pending")
        };
        Rotation {
            flat: ids("pending"),
            lanes: lanes.collect(),
            spent,
            left: meta.get("left").map_or(0, |left| left.parse().expect("a count")),
            live: queue.rows().filter(pending).map(str::to_owned).collect(),
            ring,
        }
    }

    /// The single claims that hand out up to `most` jobs.
    pub(crate) fn claims(&mut self, most: usize) -> Vec<Step> {
        let (mut steps, mut handed_out) = (Vec::new(), 0);
        while handed_out < most {
            let Some(step) = self.turn() else { break };
            handed_out += usize::from(matches!(step, Step::Flat(Some(_)) | Step::Lane(Some(_))));
            steps.push(step);
        }
        steps
    }

    /// Whether anything waits for a claim.
    pub(crate) fn has_work(&self) -> bool {
        !self.flat.is_empty() || !self.ring.is_empty()
    }

    fn turn(&mut self) -> Option<Step> {
        if !self.flat.is_empty() && (self.left == 0 || self.ring.is_empty()) {
            return Some(Step::Flat(self.serve_flat()));
        }
        (!self.ring.is_empty()).then(|| Step::Lane(self.serve_lane()))
    }

    fn serve_flat(&mut self) -> Option<String> {
        while let Some(id) = self.flat.pop_front() {
            if self.live.contains(&id) {
                if !self.ring.is_empty() {
                    self.left = self.ring.len() as u64;
                }
                return Some(id);
            }
        }
        None
    }

    fn serve_lane(&mut self) -> Option<String> {
        while let Some(group) = self.ring.front().cloned() {
            let lane = self.lanes.get_mut(&group).expect("it is known");
            if !lane.is_serviceable() {
                self.leave();
                continue;
            }
            let id = lane.waiting.pop_front().expect("it isn't empty");
            if self.live.contains(&id) {
                self.served(&group);
                return Some(id);
            }
        }
        None
    }

    /// The lane at the head gave a job.
    fn served(&mut self, group: &str) {
        let turning = self.ring.len() as u64;
        let lane = self.lanes.get_mut(group).expect("it is known");
        lane.leases += 1;
        let (stays, weight) = (lane.is_serviceable(), lane.weight);
        let share = match self.spent.take() {
            Some((of, share)) if of == group => share + 1,
            _ => 1,
        };
        if stays && share < weight {
            self.spent = Some((group.to_owned(), share));
            return;
        }
        if stays {
            self.ring.rotate_left(1);
        } else {
            self.leave();
        }
        if !self.flat.is_empty() && self.left > 0 {
            self.left = self.left.min(turning) - 1;
        }
    }

    /// The lane at the head leaves.
    fn leave(&mut self) {
        let group = self.ring.pop_front();
        self.spent.take_if(|(of, _)| Some(&*of) == group.as_ref());
    }
}
