//! What the answer of a turn brings: decisions, leases, jobs, and the time of the next one.

use std::sync::Arc;
use std::time::Duration;

use emq_scripts::{CallError, ExtendVerdict, TurnJob, Turned};
use tokio::time::Instant;

use super::attempt::Handling;
use super::job::{Cancel, Context};
use super::rounds::Rounds;
use super::settle::{Untold, Verdict};
use super::term::Term;
use super::turns::{Landed, Load};
use crate::error::Error;
use crate::lease::Hold;

/// Nothing that is due is looked for sooner than this.
const DUE_LEAST: Duration = Duration::from_millis(1);

impl Rounds {
    /// Takes the answer of a turn in. Answers how many handlers were started.
    pub(super) fn land(&mut self, landed: Landed) -> usize {
        let Landed { load, answer } = landed;
        match answer {
            Ok(turned) => self.arrived(&load, turned),
            Err(error) => {
                self.lost(load, error);
                0
            }
        }
    }

    fn arrived(&mut self, load: &Load, turned: Turned) -> usize {
        let now = Instant::now();
        self.failures = 0;
        self.inside.pace.keep(now, || self.inside.tally.read());
        for (untold, answer) in load.settles.iter().zip(turned.verdicts) {
            self.inside.decided(&untold.hold, &untold.verdict, answer);
            self.table.decided(untold.key);
        }
        let settings = &self.inside.settings;
        for (one, answer) in load.extensions.iter().zip(turned.extensions) {
            self.table.extended(one, Some(answer), settings, (load.sent, now));
            if answer != ExtendVerdict::Stale {
                self.inside.tally.extended.one();
            }
        }
        let tally = &self.inside.tally;
        tally.returned.add(turned.returned);
        tally.buried.add(turned.buried);
        tally.promoted.add(turned.promoted);
        let full = turned.jobs.len() >= load.claims;
        if load.claims > 0 {
            self.plenty = full;
            match self.hungry_since {
                Some(since) if !full && since < load.number => self.hungry_since = None,
                None if full => self.hungry_since = Some(load.number),
                _ => {}
            }
        }
        let begun = turned.jobs.len();
        self.next_due(load.reaps && begun == 0, turned.next, now);
        for job in turned.jobs {
            self.begin(job, load, now);
        }
        begun
    }

    /// Sets the alarm for the next job that falls due or loses its lease.
    fn next_due(&mut self, in_vain: bool, next: Option<Duration>, now: Instant) {
        // Something is due already: the step was full, or it can't be moved.
        let at_once = in_vain && next == Some(Duration::ZERO);
        self.idle_dues = if at_once { (self.idle_dues + 1).min(5) } else { 0 };
        let least = DUE_LEAST.saturating_mul(1 << self.idle_dues);
        self.due_at = next.and_then(|due_in| now.checked_add(due_in.max(least)));
    }

    /// A turn that has no answer may have run: its verdicts are sent again until they have one,
    /// and jobs that it may have claimed cost their lease.
    fn lost(&mut self, load: Load, error: CallError) {
        let now = Instant::now();
        for one in &load.extensions {
            self.table.extended(one, None, &self.inside.settings, (load.sent, now));
        }
        let again = error.is_retryable();
        let error = Error::of_queue(error);
        for untold in load.settles.into_iter().rev() {
            if again {
                self.untold.push_front(untold);
            } else {
                // The server refuses the call as such; another like it would be refused too.
                self.inside.abandoned(&untold.hold, "the server refused the turn");
                self.table.decided(untold.key);
            }
        }
        self.trouble(&error);
    }

    /// Starts the handler of a job that was claimed.
    fn begin(&mut self, job: TurnJob, load: &Load, now: Instant) {
        let TurnJob { id, payload, token, group, checkpoint, kind } = job;
        let inside = Arc::clone(&self.inside);
        inside.tally.claimed.one();
        let key = self.table.next_key();
        let context = Arc::new(Context {
            queue: inside.queue.clone(),
            hold: Hold { id, token, ticket: Some(Arc::clone(&load.ticket)) },
            lane: group,
            kind,
            checkpoint,
            cancel: Cancel::default(),
            stopping: inside.stopping.clone(),
            notes: self.teller.clone(),
            key,
        });
        let term = Term::new(&inside.settings, load.sent, now);
        if inside.stopping.is_cancelled() || term.deadline() <= now {
            // Nobody here may work it (any more): it goes back as it came.
            let hold = context.hold.clone();
            self.table.judged(context, term);
            return self.tell(Untold { key, hold, verdict: Verdict::Release });
        }
        match inside.routes.of(context.kind.as_ref()) {
            Some(work) => {
                inside.tally.started.one();
                if token == 1 {
                    self.meters.waited(id);
                }
                let handling = Handling::start(work, payload, Arc::clone(&context));
                self.table.run(context, handling, term);
            }
            None => {
                let kind = context.kind.as_deref().map(String::from_utf8_lossy);
                tracing::warn!(
                    queue = %inside.queue.name(), %id, token, kind = kind.as_deref(),
                    "no handler here knows this kind; the job is held aside, then handed back"
                );
                inside.tally.unknown.one();
                let term = Term::of_idle(&inside.settings, load.sent, now);
                self.table.set_aside(context, now + inside.settings.aside, term);
            }
        }
    }
}
