//! When a turn is sent, and what it carries.

use std::sync::Arc;

use emq_scripts::Turn;
use emq_wire::{ConnectionState, WireError};
use tokio::time::Instant;

use super::rounds::{Rounds, step_back};
use super::settle::{Untold, Verdict};
use super::turns::{JOBS_MAX, Load, TURNS_MAX};
use crate::error::Error;

/// From so many settlements on, two turns share them: the server runs one while the handlers of
/// the other run.
const SHARE_FROM: usize = 8;

/// Why a turn is sent now.
#[derive(Clone, Copy, Debug)]
struct Reasons {
    /// Verdicts or extensions wait: they go at once.
    carries: bool,
    /// There may be jobs to claim.
    claims: bool,
    /// The beat has come.
    beats: bool,
    /// A job falls due or loses its lease.
    due: bool,
    /// A wake came that may be for somebody else.
    passes_on: bool,
}

impl Reasons {
    fn any(self) -> bool {
        self.carries || self.claims || self.beats || self.due || self.passes_on
    }
}

impl Rounds {
    /// Sends what there is to send: up to two turns at once.
    pub(super) async fn depart(&mut self) {
        while self.turns.len() < TURNS_MAX && self.sends() {
            let now = Instant::now();
            let reasons = self.reasons(now);
            if !reasons.any() {
                return;
            }
            if !matches!(*self.inside.queue.bus().state().borrow(), ConnectionState::Ready) {
                // The call would wait for the connection, and then claim, perhaps after a stop.
                return self.recover(&Error::of_wire(None, WireError::NotReady));
            }
            let load = self.load(reasons, now);
            let inside = Arc::clone(&self.inside);
            let large = load.settles.len() >= Turn::LARGE_FROM;
            self.turns.send(&inside, load).await;
            if large {
                // It is written before the answer of another is looked at. Turns that leave
                // together are answered together, and then server and worker wait in turn.
                step_back().await;
            }
        }
    }

    /// Whether a call may succeed.
    pub(super) fn sends(&self) -> bool {
        self.recovering.is_none() && self.inside.failure.get().is_none()
    }

    /// Whether anything new may be begun.
    fn goes_on(&self) -> bool {
        !self.draining && !self.inside.stopping.is_cancelled()
    }

    /// How many jobs a turn may claim: one for each free slot. Jobs whose settlement is on its way
    /// don't hold a slot; no more than twice the concurrency are held in all.
    pub(super) fn free(&self) -> usize {
        if !self.goes_on() {
            return 0;
        }
        let slots = self.inside.settings.concurrency;
        let coming = self.turns.claims();
        let free = slots.saturating_sub(self.table.handlers() + coming);
        free.min((2 * slots).saturating_sub(self.table.undecided() + coming))
    }

    fn reasons(&self, now: Instant) -> Reasons {
        let goes_on = self.goes_on();
        // Without a sign that there are many, one turn at a time asks for more.
        let may_claim = self.turns.is_empty() || self.plenty;
        Reasons {
            carries: !self.untold.is_empty() || self.table.asks(),
            claims: self.hungry_since.is_some() && may_claim && self.free() > 0,
            beats: goes_on && self.beat_at <= now,
            due: goes_on && self.due_at.is_some_and(|at| at <= now),
            passes_on: self.passes_on,
        }
    }

    /// Packs a turn. It claims whatever else it is sent for: as much as the free slots can take.
    fn load(&mut self, reasons: Reasons, now: Instant) -> Load {
        let shares = self.turns.is_empty() && self.plenty;
        let share = |n: usize| if shares && n >= SHARE_FROM { n.div_ceil(2) } else { n };
        let told = share(self.untold.len()).min(JOBS_MAX);
        let claims = share(self.free()).min(JOBS_MAX);
        let mut settles: Vec<Untold> = self.untold.drain(..told).collect();
        settles.sort_by(|a, b| a.bundle().cmp(&b.bundle()));
        // What is handed back for somebody else is not taken again in the same breath.
        let for_others = settles.iter().any(|untold| matches!(untold.verdict, Verdict::Unknown));
        if reasons.beats {
            self.beat_at = now + self.inside.settings.beat;
        }
        if reasons.due {
            self.due_at = None;
        }
        self.passes_on = false;
        self.last_turn += 1;
        Load {
            number: self.last_turn,
            sent: now,
            ticket: self.inside.tickets.next(),
            claims: if for_others { 0 } else { claims },
            reaps: reasons.beats || reasons.due,
            settles,
            extensions: self.table.take_extensions(JOBS_MAX),
        }
    }
}
