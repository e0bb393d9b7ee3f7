//! Watches the queue until it is empty, and lets things go wrong on the way.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use emq_core::Queue;
use emq_testkit::Valkey;
use indicatif::{ProgressBar, ProgressStyle};

use super::floor::Floor;
use super::ledger::Ledger;
use super::{Persistence, chaos};
use crate::Failure;

/// How often the picture is redrawn.
const TICK: Duration = Duration::from_millis(100);
/// A queue that doesn't move for this long is a failure of the demo.
const STALL: Duration = Duration::from_secs(60);

/// Runs until nothing waits, runs or is scheduled. A worker is killed at a third of the way and,
/// with `chaos`, the server at a half. Answers how often the server came back.
pub(super) async fn watch(
    queue: &Queue,
    floor: &Floor,
    ledger: &Ledger,
    total: usize,
    chaos: Option<Persistence>,
    server: Option<&Valkey>,
) -> Result<u32, Failure> {
    let bar = Bar::new(total);
    let mut kill_worker_at = Some(total / 3);
    let mut kill_server_at =
        chaos.zip(server).map(|(persistence, server)| (total / 2, persistence, server));
    let mut restarts = 0;
    let mut moved = (usize::MAX, Instant::now());
    loop {
        let effects = ledger.done();
        bar.show(effects, ledger.in_flight());
        if kill_worker_at.is_some_and(|at| effects >= at) {
            kill_worker_at = None;
            let orphans = floor.kill_one(ledger).await?;
            bar.say(&format!("a worker was killed with {orphans} jobs in hand"));
        }
        if let Some((_, persistence, server)) = kill_server_at.take_if(|(at, ..)| effects >= *at) {
            tokio::task::block_in_place(|| chaos::kill_and_restart(server, persistence))?;
            restarts += 1;
        }
        // While the server is away the question has no answer; it is asked again.
        let left = match queue.counts().await {
            Ok(counts) => Some(counts.pending + counts.active + counts.scheduled),
            Err(error) if error.is_retryable() => None,
            Err(error) => return Err(error.into()),
        };
        let armed = kill_worker_at.is_some_and(|at| effects >= at);
        if left == Some(0) && ledger.in_flight() == 0 && !armed {
            bar.finish(ledger.done());
            return Ok(restarts);
        }
        if effects != moved.0 {
            moved = (effects, Instant::now());
        } else if moved.1.elapsed() > STALL {
            return Err(format!("nothing moved for {STALL:?}; {left:?} jobs left").into());
        }
        floor.pass(TICK).await?;
    }
}

/// A bar on a terminal, a line a second elsewhere.
struct Bar {
    bar: ProgressBar,
    terminal: bool,
    started: Instant,
    said: std::cell::Cell<u64>,
    total: usize,
}

impl Bar {
    fn new(total: usize) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {msg}") {
            bar.set_style(style);
        }
        Self { bar, terminal, started: Instant::now(), said: std::cell::Cell::new(0), total }
    }

    fn show(&self, effects: usize, in_flight: usize) {
        self.bar.set_position(effects as u64);
        self.bar.set_message(format!("{in_flight} in flight"));
        let second = self.started.elapsed().as_secs();
        if !self.terminal && second > self.said.get() {
            self.said.set(second);
            self.line(effects, in_flight);
        }
    }

    fn line(&self, effects: usize, in_flight: usize) {
        let rate = effects as f64 / self.started.elapsed().as_secs_f64().max(0.001);
        println!("{effects}/{} done, {rate:.0}/s, {in_flight} in flight", self.total);
    }

    fn say(&self, words: &str) {
        if self.terminal { self.bar.println(words) } else { println!("{words}") }
    }

    fn finish(&self, effects: usize) {
        self.bar.finish_and_clear();
        self.line(effects, 0);
    }
}
