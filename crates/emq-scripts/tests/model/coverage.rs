//! Which answers were seen: a test that never meets the interesting cases proves nothing.

use std::collections::BTreeMap;
use std::fmt;

use super::answer::Answer;
use super::step::Step;
use super::world::World;

/// What the fixed seeds must meet for the comparison to mean something.
pub(crate) const MUST_BE_SEEN: &[&str] = &[
    "Cancel of active: Asked",
    "Cancel of dead: EMQSTATE",
    "Cancel of none: NoRow",
    "Cancel of pending: Gone",
    "Cancel of scheduled: Gone",
    "Checkpoint of active: CancelAsked",
    "Checkpoint of active: EMQSTALE",
    "Checkpoint of active: Held",
    "Checkpoint of pending: EMQSTALE",
    "Claim: empty",
    "Claim: job",
    "Claim: job+checkpoint",
    "Complete of active: Done",
    "Complete of active: EMQSTALE",
    "Complete of dead: Done",
    "Complete of dead: EMQSTALE",
    "Complete of none: NoRow",
    "Complete of pending: Done",
    "Complete of pending: EMQSTALE",
    "Complete of scheduled: Done",
    "Complete of scheduled: EMQSTALE",
    "Drain: some",
    "Enqueue of active: Duplicate",
    "Enqueue of dead: Duplicate",
    "Enqueue of none: Admitted",
    "Enqueue of none: EMQKIND",
    "Enqueue of none: Held",
    "Enqueue of pending: Duplicate",
    "Enqueue of scheduled: Duplicate",
    "EnqueueMany: burst",
    "EnqueueMany: several",
    "Expire of active: done",
    "Extend of active: CancelAsked",
    "Extend of active: EMQSTALE",
    "Extend of active: Held",
    "Extend of dead: EMQSTALE",
    "Extend of none: EMQSTALE",
    "Extend of pending: EMQSTALE",
    "Extend of scheduled: EMQSTALE",
    "ForgetScripts: done",
    "LaneClaim: empty",
    "LaneClaim: job",
    "LaneClaim: job+checkpoint",
    "LaneEnqueue of active: Duplicate",
    "LaneEnqueue of none: Admitted",
    "LaneEnqueue of none: Held",
    "LaneEnqueue of pending: Duplicate",
    "LaneLimit: Changed",
    "LanePause: Changed",
    "LaneResume: Changed",
    "Reassign of active: EMQSTATE",
    "Reassign of dead: Moved",
    "Reassign of none: NoRow",
    "Reassign of pending: Already",
    "Reassign of pending: Moved",
    "Reassign of scheduled: Moved",
    "ReassignBacklog: 0",
    "ReassignBacklog: EMQARG",
    "ReassignBacklog: some",
    "LaneWeight: Changed",
    "MakeDue of scheduled: done",
    "Malformed: EMQARG",
    "Nudge: done",
    "Promote: 0",
    "Promote: some",
    "Purge: some",
    "QueuePause: Changed",
    "QueueResume: Changed",
    "Reap: buried",
    "Reap: returned ",
    "Release of active: EMQSTALE",
    "Release of active: done",
    "Release of dead: EMQSTALE",
    "Release of none: EMQSTALE",
    "Release of pending: EMQSTALE",
    "Release of scheduled: EMQSTALE",
    "Remove of active: EMQSTATE",
    "Remove of dead: Done",
    "Remove of none: NoRow",
    "Remove of pending: Done",
    "Remove of scheduled: Done",
    "Requeue of active: EMQSTATE",
    "Requeue of dead: Done",
    "Requeue of none: NoRow",
    "Requeue of pending: EMQSTATE",
    "Requeue of scheduled: EMQSTATE",
    "Retry of active: Dead",
    "Retry of active: EMQSTALE",
    "Retry of active: Scheduled",
    "Retry of dead: EMQSTALE",
    "Retry of none: NoRow",
    "Retry of pending: EMQSTALE",
    "Retry of scheduled: EMQSTALE",
    "Schedule of none: Admitted",
    "Schedule of none: Held",
    "Schedule of pending: Duplicate",
    "Tear of pending: done",
    "Turn: ",
    "Turn: extends ",
    "Turn: flat ",
    "Turn: flat lanes",
    "Turn: lanes",
    "Turn: settles ",
    "Turn: settles extends flat lanes",
    "Tear of scheduled: done",
];

/// `verb of state: answer` -> how often.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) steps: usize,
    seen: BTreeMap<String, usize>,
}

impl Coverage {
    /// A step's verb, and the state of the one job that it names.
    pub(crate) fn case(step: &Step, before: &World) -> String {
        let state = match step.ids()[..] {
            [id] if !matches!(step, Step::Turn(_)) => {
                let row = before.rows.get(&id);
                format!(" of {}", row.map_or("none", |row| row.state.word()))
            }
            _ => String::new(),
        };
        format!("{}{state}", step.verb())
    }

    /// Counts what a case came to.
    pub(crate) fn count(&mut self, case: &str, answer: &Answer) {
        *self.seen.entry(format!("{case}: {}", answer.label())).or_default() += 1;
        self.steps += 1;
    }

    pub(crate) fn add(&mut self, other: Coverage) {
        self.steps += other.steps;
        for (line, count) in other.seen {
            *self.seen.entry(line).or_default() += count;
        }
    }

    /// Of these, what was not seen.
    pub(crate) fn missing<'a>(&self, wanted: &[&'a str]) -> Vec<&'a str> {
        wanted.iter().copied().filter(|line| !self.seen.contains_key(*line)).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} steps", self.steps)?;
        self.seen.iter().try_for_each(|(line, count)| writeln!(f, "{count:6}  {line}"))
    }
}
