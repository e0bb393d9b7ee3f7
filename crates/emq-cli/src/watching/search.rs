//! Finds the queues, a few thousand keys a round, again and again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use emq_core::{Bus, Error, Queues};
use emq_keys::QueueName;

/// How many steps of the scan a round takes; each looks at a thousand keys.
const STEPS_A_ROUND: usize = 4;
/// How long a pass over the whole keyspace is believed.
const PASS_HOLDS: Duration = Duration::from_secs(5);
/// How many queues are kept.
const QUEUES_MAX: usize = 10_000;

/// The queues that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    /// In order.
    pub(crate) found: Vec<QueueName>,
    /// Whether the whole keyspace was looked through at least once.
    pub(crate) whole: bool,
}

/// The search for queues; over at once when they were named.
pub(crate) struct Searcher {
    bus: Bus,
    pass: Pass,
    /// Seen by the last whole pass, and by the one under way.
    known: BTreeSet<QueueName>,
    whole: bool,
}

enum Pass {
    /// The queues were named.
    Named,
    UnderWay {
        queues: Box<Queues>,
        seen: BTreeSet<QueueName>,
    },
    Rests {
        since: Instant,
    },
}

impl Searcher {
    pub(crate) fn new(bus: Bus, names: Vec<QueueName>) -> Searcher {
        let known: BTreeSet<QueueName> = names.into_iter().collect();
        let pass = if known.is_empty() { begin(&bus) } else { Pass::Named };
        Searcher { bus, whole: matches!(pass, Pass::Named), pass, known }
    }

    /// Looks a bit further. `None` while it rests.
    pub(crate) async fn look_on(&mut self) -> Result<Option<Search>, Error> {
        match &mut self.pass {
            Pass::Named => {}
            Pass::Rests { since } if since.elapsed() < PASS_HOLDS => return Ok(None),
            Pass::Rests { .. } => self.pass = begin(&self.bus),
            Pass::UnderWay { .. } => {}
        }
        for _ in 0..STEPS_A_ROUND {
            let Pass::UnderWay { queues, seen } = &mut self.pass else { break };
            let step = queues.step().await?;
            match step {
                Some(names) => {
                    let room = QUEUES_MAX.saturating_sub(self.known.len());
                    self.known.extend(names.iter().take(room).cloned());
                    seen.extend(names);
                }
                None => {
                    // What this pass didn't see is gone.
                    let seen = std::mem::take(seen);
                    self.known.retain(|name| seen.contains(name));
                    self.whole = true;
                    self.pass = Pass::Rests { since: Instant::now() };
                }
            }
        }
        let found = self.known.iter().cloned().collect();
        Ok(Some(Search { found, whole: self.whole }))
    }
}

fn begin(bus: &Bus) -> Pass {
    Pass::UnderWay { queues: Box::new(bus.queues()), seen: BTreeSet::new() }
}
