//! What holds after every step, read off the server's keys alone: the model has no say here.

use std::collections::{BTreeMap, BTreeSet};

use super::snapshot::Snapshot;
use super::step::Step;

const FIELDS: [&str; 14] = [
    "state",
    "attempts",
    "payload",
    "group",
    "holder",
    "lost",
    "forgiven",
    "last_error",
    "checkpoint",
    "kind",
    "headers",
    "max_attempts",
    "unique",
    "cancel",
];

/// A queue before and after a step.
pub(crate) struct Laws<'a> {
    pub(crate) before: &'a Snapshot,
    pub(crate) after: &'a Snapshot,
    pub(crate) step: &'a Step,
    /// The ids whose row the test removed and no script has met yet.
    pub(crate) torn: &'a BTreeSet<String>,
}

impl Laws<'_> {
    /// Every law.
    ///
    /// # Errors
    /// The first that is broken, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.each_job_is_in_the_one_set_of_its_state()?;
        self.rows_are_whole()?;
        self.leases_are_counted()?;
        self.the_ring_is_the_serviceable_lanes()?;
        self.unique_keys_have_owners()?;
        self.nobody_sleeps_through_work()
    }

    fn each_job_is_in_the_one_set_of_its_state(&self) -> Result<(), String> {
        let mut homes: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let lanes = self.after.lanes().map(|group| format!("g:{group}:pending"));
        let flat = ["pending", "active", "schedule", "dead"].map(str::to_owned);
        for set in flat.into_iter().chain(lanes) {
            let timed = set == "active" || set == "schedule";
            for (id, score) in self.after.zset(&set) {
                if (score == 0) == timed {
                    return Err(format!("{id} has the score {score} in {set}"));
                }
                homes.entry(id).or_default().push(set.clone());
            }
        }
        for id in self.after.rows() {
            let row = self.after.hash(&format!("job:{id}"));
            let home = match (row.get("state").map(String::as_str), row.get("group")) {
                (Some("pending"), Some(group)) => format!("g:{group}:pending"),
                (Some("scheduled"), _) => "schedule".to_owned(),
                (Some(state), _) => state.to_owned(),
                (None, _) => return Err(format!("the row of {id} has no state")),
            };
            match homes.remove(id) {
                Some(found) if found == [home.as_str()] => {}
                found => return Err(format!("{id} belongs in {home} and is in {found:?}")),
            }
        }
        match homes.iter().find(|(id, _)| !self.torn.contains(*id)) {
            Some((id, sets)) => Err(format!("{id} has no row and is in {sets:?}")),
            None => Ok(()),
        }
    }

    fn rows_are_whole(&self) -> Result<(), String> {
        for id in self.after.rows() {
            let name = format!("job:{id}");
            let (before, after) = (self.before.hash(&name), self.after.hash(&name));
            for (field, value) in &after {
                if !FIELDS.contains(&field.as_str()) {
                    return Err(format!("{id} has an unknown field {field}"));
                }
                // A payload is the producer's own, and may be of no bytes.
                if value.is_empty() && field != "payload" {
                    return Err(format!("{id} has an empty {field}"));
                }
            }
            let count = |row: &BTreeMap<String, String>, field: &str| -> u64 {
                row.get(field).and_then(|count| count.parse().ok()).unwrap_or(0)
            };
            if count(&after, "attempts") < count(&before, "attempts") {
                return Err(format!("the token of {id} fell"));
            }
            let excused = count(&after, "lost") + count(&after, "forgiven");
            if excused > count(&after, "attempts") {
                return Err(format!("{id} is excused {excused} times, more than it was claimed"));
            }
        }
        Ok(())
    }

    fn leases_are_counted(&self) -> Result<(), String> {
        let mut leases: BTreeMap<String, u64> = BTreeMap::new();
        for id in self.after.zset("active").keys() {
            if let Some(group) = self.after.hash(&format!("job:{id}")).remove("group") {
                *leases.entry(group).or_default() += 1;
            }
        }
        let counted = self.after.hash("gactive");
        let leases: BTreeMap<String, String> =
            leases.into_iter().map(|(group, count)| (group, count.to_string())).collect();
        if counted != leases {
            return Err(format!("gactive says {counted:?}, the rows say {leases:?}"));
        }
        Ok(())
    }

    fn the_ring_is_the_serviceable_lanes(&self) -> Result<(), String> {
        let ring = self.after.list("ring");
        let mut sorted = ring.clone();
        sorted.sort();
        let serviceable: Vec<String> = serviceable(self.after).into_iter().collect();
        if sorted != serviceable {
            return Err(format!("the ring is {ring:?}, serviceable are {serviceable:?}"));
        }
        Ok(())
    }

    fn unique_keys_have_owners(&self) -> Result<(), String> {
        let rows = self.after.rows();
        let owned: BTreeMap<String, String> = rows
            .filter_map(|id| {
                Some((self.after.hash(&format!("job:{id}")).remove("unique")?, id.to_owned()))
            })
            .collect();
        let held = self.after.hash("unique");
        if owned != held {
            return Err(format!("unique says {held:?}, the rows say {owned:?}"));
        }
        Ok(())
    }

    fn nobody_sleeps_through_work(&self) -> Result<(), String> {
        let tokens = self.after.list("wake").len();
        if tokens > 64 {
            return Err(format!("{tokens} tokens stand in wake"));
        }
        if tokens > 0 {
            return Ok(());
        }
        let (before, after) = (runnable(self.before), runnable(self.after));
        if let Some(id) = after.difference(&before).next() {
            return Err(format!("{id} became runnable and no token stands in wake"));
        }
        let paused = self.before.hash("meta").contains_key("paused");
        let passes_on = match self.step {
            Step::Claim { .. } | Step::LaneClaim { .. } | Step::Turn(_) => !paused,
            Step::QueueResume => true,
            _ => false,
        };
        if passes_on && !after.is_empty() {
            return Err("work is left behind and no token stands in wake".to_owned());
        }
        let earliest = |snapshot: &Snapshot| snapshot.zset("schedule").into_values().min();
        let sooner = match (earliest(self.before), earliest(self.after)) {
            (Some(before), Some(after)) => after < before,
            (None, after) => after.is_some(),
            (Some(_), None) => false,
        };
        // The test's own hand moves due times without waking anybody.
        if sooner && !self.step.is_planted() {
            return Err("a job became the first to be due and no token stands".to_owned());
        }
        Ok(())
    }
}

/// The lanes that may be served: non-empty, not paused, below their ceiling.
fn serviceable(snapshot: &Snapshot) -> BTreeSet<String> {
    let (paused, ceilings) = (snapshot.set("paused"), snapshot.hash("glimit"));
    let leases = snapshot.hash("gactive");
    let count = |of: &BTreeMap<String, String>, group: &str| -> Option<u64> {
        of.get(group).map(|count| count.parse().expect("a count"))
    };
    let below = |group: &str| {
        let ceiling = count(&ceilings, group);
        ceiling.is_none_or(|ceiling| count(&leases, group).unwrap_or(0) < ceiling)
    };
    let lanes = snapshot.lanes().filter(|group| !paused.contains(*group) && below(group));
    lanes.map(str::to_owned).collect()
}

/// The jobs that a claim could get, were the queue not paused.
fn runnable(snapshot: &Snapshot) -> BTreeSet<String> {
    let mut jobs: BTreeSet<String> = snapshot.zset("pending").into_keys().collect();
    for group in serviceable(snapshot) {
        jobs.extend(snapshot.zset(&format!("g:{group}:pending")).into_keys());
    }
    jobs
}
