//! A queue as the wake rules see it: how many jobs wait where, and how many tokens stand.
//!
//! Which of the sources that can be served a claim takes from is left open: the wakes must hold
//! whatever the rotation says.

/// Where jobs wait: the flat set, and two lanes.
pub(crate) const SOURCES: usize = 3;
pub(crate) const FLAT: usize = 0;
/// How many leases each source may have out.
pub(crate) const CEILINGS: [u8; SOURCES] = [u8::MAX, 1, 2];
/// How many jobs may be scheduled at once.
const SCHEDULED: usize = 2;
/// No job is scheduled there.
const NEVER: u8 = u8::MAX;
/// The most tokens that stand.
const WAKE_MAX: u8 = 64;

/// Jobs by source.
pub(crate) type Jobs = [u8; SOURCES];

pub(crate) fn total(jobs: &Jobs) -> u8 {
    jobs.iter().sum()
}

/// The rules of the wakes, each of which can be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// What makes a job runnable pushes one token if none stands.
    AdmissionPushes,
    /// A batch of n pushes until the least of n and 64 stand.
    BatchPushes,
    /// A turn with free slots that leaves work behind passes the wake on.
    TurnCascades,
    /// So does the turn of a worker that is full.
    FullTurnCascades,
    /// So does a single claim.
    ClaimCascades,
    /// A job that becomes the first to be due pushes a token.
    EarliestPushes,
    /// A worker that stops pushes a token.
    StopNudges,
    /// A queue that is resumed with work pushes a token.
    QueueResumePushes,
    /// So does a lane.
    LaneResumePushes,
    /// On a paused queue nothing cascades.
    PausedIsQuiet,
}

/// The rules, without the one that is dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) dropped: Option<Rule>,
}

impl Rules {
    pub(crate) fn keep(self, rule: Rule) -> bool {
        self.dropped != Some(rule)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Server {
    pub(crate) waiting: Jobs,
    pub(crate) leases: Jobs,
    /// Lanes that an operator parked.
    pub(crate) parked: [bool; SOURCES],
    pub(crate) paused: bool,
    pub(crate) wake: u8,
    /// Ticks until each scheduled job is due, the first one first. All are flat.
    due: [u8; SCHEDULED],
    /// Leases of holders that are gone.
    pub(crate) orphans: Jobs,
    /// The last who knew something died with it, and nobody was told anything since.
    pub(crate) excused: bool,
}

impl Server {
    pub(crate) fn new() -> Server {
        Server { due: [NEVER; SCHEDULED], ..Server::default() }
    }

    pub(crate) fn serves(&self, source: usize) -> bool {
        self.waiting[source] > 0 && !self.parked[source] && self.leases[source] < CEILINGS[source]
    }

    pub(crate) fn has_work(&self) -> bool {
        (0..SOURCES).any(|source| self.serves(source))
    }

    pub(crate) fn scheduled(&self) -> usize {
        self.due.iter().filter(|due| **due != NEVER).count()
    }

    /// Ticks until the next scheduled job is due.
    pub(crate) fn next_due(&self) -> Option<u8> {
        (self.due[0] != NEVER).then_some(self.due[0])
    }

    pub(crate) fn can_schedule(&self) -> bool {
        self.due[SCHEDULED - 1] == NEVER
    }

    /// Pushes tokens until so many stand.
    fn push(&mut self, tokens: u8) {
        let tokens = tokens.min(WAKE_MAX);
        if self.wake < tokens {
            (self.wake, self.excused) = (tokens, false);
        }
    }

    pub(crate) fn enqueue(&mut self, rules: Rules, source: usize) {
        self.waiting[source] += 1;
        if self.serves(source) && rules.keep(Rule::AdmissionPushes) {
            self.push(1);
        }
    }

    /// `enqueue_many`. Answers how many of the jobs can be served.
    pub(crate) fn enqueue_many(&mut self, rules: Rules, jobs: &[usize]) -> u8 {
        let mut runnable = 0;
        for source in jobs {
            self.waiting[*source] += 1;
            runnable += u8::from(self.serves(*source));
        }
        self.push(if rules.keep(Rule::BatchPushes) { runnable } else { runnable.min(1) });
        runnable
    }

    pub(crate) fn schedule(&mut self, rules: Rules, ticks: u8) {
        let earliest = ticks < self.due[0];
        self.due[SCHEDULED - 1] = ticks;
        self.due.sort_unstable();
        if earliest && rules.keep(Rule::EarliestPushes) {
            self.push(1);
        }
    }

    pub(crate) fn tick(&mut self) {
        for due in self.due.iter_mut().filter(|due| **due != NEVER) {
            *due = due.saturating_sub(1);
        }
    }

    pub(crate) fn resume_queue(&mut self, rules: Rules) {
        self.paused = false;
        if self.has_work() && rules.keep(Rule::QueueResumePushes) {
            self.push(1);
        }
    }

    pub(crate) fn resume_lane(&mut self, rules: Rules, lane: usize) {
        self.parked[lane] = false;
        if self.serves(lane) && rules.keep(Rule::LaneResumePushes) {
            self.push(1);
        }
    }

    /// Takes back the leases of those that are gone.
    pub(crate) fn reap(&mut self, rules: Rules) {
        let mut runnable = 0;
        for source in 0..SOURCES {
            for _ in 0..self.orphans[source] {
                self.leases[source] -= 1;
                self.waiting[source] += 1;
                runnable += u8::from(self.serves(source));
            }
        }
        self.orphans = Jobs::default();
        self.push(if rules.keep(Rule::BatchPushes) { runnable } else { runnable.min(1) });
    }

    pub(crate) fn nudge(&mut self, rules: Rules) {
        if rules.keep(Rule::StopNudges) {
            self.push(self.wake + 1);
        }
    }

    /// A single claim from a source; nothing when that can't be served.
    pub(crate) fn claim(&mut self, rules: Rules, source: usize) {
        if self.paused {
            return;
        }
        if self.serves(source) {
            self.take(source);
            self.orphans[source] += 1;
        }
        if self.has_work() && rules.keep(Rule::ClaimCascades) {
            self.push(1);
        }
    }

    fn take(&mut self, source: usize) {
        self.waiting[source] -= 1;
        self.leases[source] += 1;
    }

    /// A turn: completes, promotes, claims, cascades. Every way in which the claims may fall.
    pub(crate) fn turn(mut self, rules: Rules, done: &Jobs, claims: u8) -> Vec<(Server, Jobs)> {
        for (source, done) in done.iter().enumerate() {
            for _ in 0..*done {
                let served = self.serves(source);
                self.leases[source] -= 1;
                if !served && self.serves(source) {
                    self.push(1);
                }
            }
        }
        let due = self.due.iter().filter(|due| **due == 0).count();
        if due > 0 {
            self.due.rotate_left(due);
            self.due[SCHEDULED - due..].fill(NEVER);
            self.waiting[FLAT] += due as u8;
            self.push(due as u8);
        }
        let mut ends = vec![(self, Jobs::default())];
        for _ in 0..if self.paused { 0 } else { claims } {
            ends = ends.into_iter().flat_map(Server::one_more).collect();
            ends.sort_unstable();
            ends.dedup();
        }
        let full = claims == 0;
        let rule = if full { Rule::FullTurnCascades } else { Rule::TurnCascades };
        for (end, _) in &mut ends {
            let quiet = end.paused && rules.keep(Rule::PausedIsQuiet);
            if !quiet && end.has_work() && rules.keep(rule) {
                end.push(1);
            }
        }
        ends
    }

    /// One claim more, from any source that can be served.
    fn one_more((server, got): (Server, Jobs)) -> Vec<(Server, Jobs)> {
        let from = |source: usize| {
            let (mut server, mut got) = (server, got);
            server.take(source);
            got[source] += 1;
            (server, got)
        };
        let ends: Vec<_> = (0..SOURCES).filter(|it| server.serves(*it)).map(from).collect();
        if ends.is_empty() { vec![(server, got)] } else { ends }
    }
}
