//! A queue's numbers, and how fast they change.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use emq_core::{SweptLanes, Vitals};

use crate::watching::Numbers;

/// Over how long a rate is taken.
const WINDOW: Duration = Duration::from_secs(10);

/// A queue as it was read last.
#[derive(Debug, Default)]
pub(in crate::top) struct QueueView {
    pub(in crate::top) now: Option<(Vitals, SweptLanes)>,
    /// When, how many waited (where that is known), and how many were dead.
    past: VecDeque<(Instant, Option<u64>, u64)>,
}

impl QueueView {
    pub(super) fn note(&mut self, numbers: &Numbers) {
        let Numbers { at, vitals, lanes, is_summed, .. } = *numbers;
        self.now = Some((vitals, lanes));
        // A sum that took many rounds says nothing of a second.
        let waiting = is_summed.then_some(vitals.pending + lanes.waiting);
        self.past.push_back((at, waiting, vitals.dead));
        while self.past.len() > 2 && at.duration_since(self.past[0].0) > WINDOW {
            self.past.pop_front();
        }
    }

    /// By how much the jobs that wait become more, a second.
    pub(in crate::top) fn waiting_a_second(&self) -> Option<f64> {
        self.change(|(_, waiting, _)| *waiting)
    }

    /// By how much the dead letters become more, a minute.
    pub(in crate::top) fn dead_a_minute(&self) -> Option<f64> {
        self.change(|(_, _, dead)| Some(*dead)).map(|a_second| a_second * 60.0)
    }

    fn change(&self, of: impl Fn(&(Instant, Option<u64>, u64)) -> Option<u64>) -> Option<f64> {
        let (first, last) = (self.past.front()?, self.past.back()?);
        let took = last.0.duration_since(first.0).as_secs_f64();
        let (before, after) = (of(first)?, of(last)?);
        (took > 0.0).then(|| (after as f64 - before as f64) / took)
    }
}
