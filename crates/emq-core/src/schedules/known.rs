//! What a scheduler knows of one queue's timetable.

use emq_keys::BrandedId;
use emq_scripts::{Admitted, CallError, Tick, TickVerdict, Ticked};

use super::clock::ServerClock;
use super::decide::{Decision, decide};
use super::definition::{Ids, Missed, Schedule};
use super::record::ScheduleRecord;
use super::status::SchedulerTotals;
use super::table::QueueSchedules;
use crate::error::Error;

/// How many ticks of one schedule are admitted in one go when all missed ones are.
const CATCH_UP: usize = 20;
/// How many calls go out in one submission.
const BATCH: usize = 200;

/// One queue's schedules, as they were last read.
pub(super) struct Known {
    table: QueueSchedules,
    /// The timetable's revision before they were read; `None` to read them anew.
    revision: Option<Vec<u8>>,
    entries: Vec<Entry>,
}

struct Entry {
    schedule: Schedule,
    ids: Ids,
    revision: u64,
    next_ms: Option<u64>,
    /// What the script said of it can't be mended by trying again.
    set_aside: bool,
}

/// One call to make, and whom it is about.
struct Step {
    entry: usize,
    decision: Decision,
    id: Option<BrandedId>,
}

impl Known {
    pub(super) fn new(table: QueueSchedules) -> Known {
        Known { table, revision: None, entries: Vec::new() }
    }

    pub(super) fn timetable(&self) -> &str {
        self.table.queue().keys().timetable()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the timetable has changed since it was read.
    pub(super) fn is_stale(&self, revision: &[u8]) -> bool {
        self.revision.as_deref() != Some(revision)
    }

    /// Whether it is to be read anew, whatever its revision.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.revision.is_none()
    }

    /// Reads them anew. `revision` was read before.
    pub(super) async fn read(&mut self, revision: &[u8]) -> Result<(), Error> {
        let records = self.table.list().await?;
        let queue = self.table.queue().name();
        self.entries = records.into_iter().filter_map(|it| Entry::new(queue, it)).collect();
        self.revision = Some(revision.to_vec());
        Ok(())
    }

    /// Forgets them until the timetable changes: it can't be read as it is.
    pub(super) fn give_up(&mut self, revision: &[u8]) {
        self.entries.clear();
        self.revision = Some(revision.to_vec());
    }

    /// The earliest tick to come, in unix milliseconds.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.entries.iter().filter(|entry| !entry.set_aside).filter_map(|it| it.next_ms).min()
    }

    /// Decides what is due, and takes in what it came to. Answers what the server's clock said last,
    /// if anything was due.
    pub(super) async fn tick(
        &mut self,
        clock: ServerClock,
        totals: &mut SchedulerTotals,
    ) -> Result<Option<ServerClock>, Error> {
        let mut heard = None;
        let steps = self.due(clock.now_ms());
        for batch in steps.chunks(BATCH) {
            let calls: Vec<Tick<'_>> =
                batch.iter().map(|it| self.entries[it.entry].call(it)).collect();
            let queue = self.table.queue();
            let answers = queue.call_all(&calls).await.map_err(Error::of_queue)?;
            drop(calls);
            for (step, answer) in batch.iter().zip(answers) {
                if let Some(now_ms) = self.land(step.entry, answer, totals)? {
                    heard = Some(ServerClock::heard(now_ms));
                }
            }
        }
        Ok(heard)
    }

    /// What is due, by this clock: one step for each schedule, or several of one that makes up all
    /// its missed ticks.
    fn due(&self, now_ms: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        for (at, entry) in self.entries.iter().enumerate().filter(|(_, it)| !it.set_aside) {
            let mut next_ms = entry.next_ms;
            for _ in 0..CATCH_UP {
                let Some(due_ms) = next_ms.filter(|next_ms| *next_ms <= now_ms) else { break };
                let schedule = &entry.schedule;
                let (missed, tolerance) = (schedule.missed_ticks(), schedule.tolerance_ms());
                let decision = decide(schedule.timing(), missed, tolerance, due_ms, now_ms);
                let id = decision.admits.then(|| entry.ids.of_tick(decision.from_ms)).flatten();
                next_ms = decision.following_ms;
                steps.push(Step { entry: at, decision, id });
                if missed != Missed::All {
                    break;
                }
            }
        }
        steps
    }

    /// Takes in what a call came to; answers what the server's clock said.
    fn land(
        &mut self,
        at: usize,
        answer: Result<Ticked, CallError>,
        totals: &mut SchedulerTotals,
    ) -> Result<Option<u64>, Error> {
        let (queue, entry) = (self.table.queue(), &mut self.entries[at]);
        let ticked = match answer {
            Ok(ticked) => ticked,
            Err(error) if error.is_retryable() => return Err(Error::of_queue(error)),
            Err(error) => {
                let name = entry.schedule.name();
                tracing::warn!(queue = %queue.name(), name, %error, "a schedule is set aside");
                entry.set_aside = true;
                return Ok(None);
            }
        };
        entry.next_ms = ticked.next_ms;
        let admission = match ticked.verdict {
            TickVerdict::Admitted => {
                totals.admitted += 1;
                Some(Admitted::Admitted)
            }
            TickVerdict::Duplicate => {
                totals.duplicate += 1;
                Some(Admitted::Duplicate)
            }
            TickVerdict::Held(by) => {
                totals.held += 1;
                Some(Admitted::Held(by))
            }
            TickVerdict::Passed => {
                totals.passed += 1;
                None
            }
            TickVerdict::Elsewhere => {
                totals.elsewhere += 1;
                None
            }
            TickVerdict::Early | TickVerdict::Late => {
                totals.off_time += 1;
                None
            }
            // Its definition has changed, so what stands next is another one's.
            TickVerdict::Unknown | TickVerdict::Changed | TickVerdict::Paused => {
                entry.set_aside = true;
                self.revision = None;
                None
            }
        };
        if let Some(admission) = admission {
            queue.count_admission(&admission);
        }
        Ok(Some(ticked.now_ms))
    }
}

impl Entry {
    /// `None` for one that doesn't tick, or that this version doesn't understand.
    fn new(queue: &emq_keys::QueueName, record: ScheduleRecord) -> Option<Entry> {
        let ScheduleRecord { name, schedule, revision, next_ms, paused, .. } = record;
        match schedule {
            Ok(schedule) if !paused => {
                let ids = Ids::new(queue, &name);
                Some(Entry { schedule, ids, revision, next_ms, set_aside: false })
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%queue, %error, "a schedule is left alone");
                None
            }
        }
    }

    fn call(&self, step: &Step) -> Tick<'_> {
        let Decision { next_ms, from_ms, until_ms, following_ms, .. } = step.decision;
        Tick {
            name: self.schedule.name(),
            revision: self.revision,
            next_ms,
            from_ms,
            until_ms,
            following_ms,
            id: step.id,
            payload: self.schedule.job_payload(),
            group: self.schedule.job_lane(),
            options: self.schedule.admit(),
        }
    }
}
