//! When a relay tries again: the bus as a whole, and single queues that can't take their jobs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Pauses after failures double from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Queues that a relay leaves out at once; of more, those are tried whose turn comes first.
const STUCK_MAX: usize = 1_000;

/// A pause that grows with each failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Pause {
        Pause(PAUSE_MIN)
    }
}

impl Pause {
    /// The pause after one more failure.
    pub(super) fn grow(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(PAUSE_MAX);
        pause
    }
}

/// Queues that refuse all of their jobs, each left out until its pause is over.
#[derive(Debug, Default)]
pub(super) struct Stuck(BTreeMap<String, Turn>);

#[derive(Debug)]
struct Turn {
    at: Instant,
    pause: Pause,
    why: String,
}

impl Stuck {
    /// A queue refused (again).
    pub(super) fn fail(&mut self, queue: String, why: String) {
        let now = Instant::now();
        let mut pause = self.0.get(&queue).map(|turn| turn.pause).unwrap_or_default();
        let at = now + pause.grow();
        self.0.insert(queue, Turn { at, pause, why });
        if self.0.len() > STUCK_MAX {
            let first = self.0.iter().min_by_key(|(_, turn)| turn.at);
            if let Some(queue) = first.map(|(queue, _)| queue.clone()) {
                self.0.remove(&queue);
            }
        }
    }

    /// A queue took its jobs.
    pub(super) fn pass(&mut self, queue: &str) {
        self.0.remove(queue);
    }

    /// Nothing of those whose turn had come was found: they have no rows any more.
    pub(super) fn forget_before(&mut self, looked: Instant) {
        self.0.retain(|_, turn| turn.at > looked);
    }

    /// The queues whose turn hasn't come.
    pub(super) fn left_out(&self, now: Instant) -> Vec<String> {
        let waiting = self.0.iter().filter(|(_, turn)| turn.at > now);
        waiting.map(|(queue, _)| queue.clone()).collect()
    }

    /// How long until the next one's turn.
    pub(super) fn until_next(&self) -> Option<Duration> {
        let next = self.0.values().map(|turn| turn.at).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Which they are, and why.
    pub(super) fn reasons(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(queue, turn)| (queue.clone(), turn.why.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_grows_to_its_bound() {
        let mut pause = Pause::default();
        let pauses: Vec<Duration> = (0..12).map(|_| pause.grow()).collect();
        assert_eq!(pauses[0], PAUSE_MIN);
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]), "{pauses:?}");
        assert_eq!(pauses[11], PAUSE_MAX);
    }

    #[test]
    fn a_queue_is_left_out_until_its_turn_and_its_pause_grows_until_it_passes() {
        let mut stuck = Stuck::default();
        let begun = Instant::now();
        stuck.fail("a".into(), "why".into());
        let first = stuck.0["a"].at;
        assert_eq!(stuck.left_out(begun), ["a"]);
        assert!(stuck.left_out(first).is_empty() && stuck.until_next() <= Some(PAUSE_MIN));
        for _ in 0..3 {
            stuck.fail("a".into(), "still".into());
        }
        assert!(stuck.0["a"].at > first + PAUSE_MIN * 4);
        assert_eq!(stuck.reasons()["a"], "still");
        stuck.pass("a");
        assert!(stuck.left_out(begun).is_empty() && stuck.until_next().is_none());
    }

    #[test]
    fn a_queue_that_has_no_rows_any_more_is_forgotten_once_its_turn_came() {
        let mut stuck = Stuck::default();
        stuck.fail("a".into(), String::new());
        let turn = stuck.0["a"].at;
        stuck.forget_before(turn - Duration::from_nanos(1));
        assert_eq!(stuck.reasons().len(), 1);
        stuck.forget_before(turn);
        assert!(stuck.reasons().is_empty());
    }

    #[test]
    fn no_more_queues_than_the_bound_are_left_out() {
        let mut stuck = Stuck::default();
        for n in 0..=STUCK_MAX {
            stuck.fail(n.to_string(), String::new());
        }
        assert_eq!(stuck.reasons().len(), STUCK_MAX);
        assert!(!stuck.reasons().contains_key("0"), "its turn comes first");
    }
}
