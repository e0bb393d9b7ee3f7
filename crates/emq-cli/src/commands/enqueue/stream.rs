//! Enqueueing each line: in batches of what has come, with a verdict for each.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use emq_core::{NewJob, Queue, Verdict};
use emq_keys::BrandedId;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::lines::{Bad, Line, read_input};
use super::{Recipe, send};
use crate::exit::{Exit, Failure};
use crate::output::Out;

/// How many lines are sent at once: three chunks of the bus.
const BATCH: usize = 1_200;

/// What became of the lines.
#[derive(Debug, Default, Serialize)]
struct Tally {
    lines: u64,
    admitted: u64,
    bad: u64,
    unconfirmed: u64,
}

/// What became of one line, for scripts.
#[derive(Debug, Serialize)]
struct Told<'a> {
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<BrandedId>,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// One stream of lines.
struct Stream<'a> {
    out: Out,
    queue: &'a Queue,
    recipe: &'a Recipe,
    verdicts: bool,
    bar: ProgressBar,
    tally: Tally,
}

pub(super) async fn run(
    out: Out,
    queue: &Queue,
    recipe: &Recipe,
    raw: bool,
    verdicts: bool,
) -> Result<(), Failure> {
    let mut lines = read_input(queue.bus().payload_cap(), raw);
    let bar = progress_bar(out);
    let mut stream = Stream { out, queue, recipe, verdicts, bar, tally: Tally::default() };
    let mut batch = Vec::new();
    while lines.recv_many(&mut batch, BATCH).await > 0 {
        if let Err(failure) = stream.take(&mut batch).await {
            stream.bar.finish_and_clear();
            return Err(failure);
        }
    }
    stream.end()
}

impl Stream<'_> {
    async fn take(&mut self, batch: &mut Vec<io::Result<Line>>) -> Result<(), Failure> {
        let (mut jobs, mut numbers) = (Vec::new(), Vec::new());
        // What a line holds of the memory is given back when its verdict is there.
        let mut held = Vec::with_capacity(batch.len());
        for line in batch.drain(..) {
            let line = line.map_err(|error| {
                Failure::failed(format!("can't read standard input: {error}"))
                    .about(format!("stopped after line {}", self.tally.lines))
            })?;
            self.tally.lines = line.number;
            match &line.payload {
                Ok(payload) => {
                    let id = self.queue.bus().mint_job().await?;
                    jobs.push(self.recipe.job(id, payload.clone()));
                    numbers.push(line.number);
                }
                Err(bad) => self.bad(line.number, bad)?,
            }
            held.push(line);
        }
        self.send(&jobs, &numbers).await?;
        if let Some(last) = held.last() {
            self.bar.set_position(last.input_bytes);
            self.bar.set_message(format!("{} enqueued", self.tally.admitted));
        }
        Ok(())
    }

    async fn send(&mut self, jobs: &[NewJob], numbers: &[u64]) -> Result<(), Failure> {
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok(()) };
        match send::patiently(self.queue, jobs, self.recipe.durability).await {
            Ok(verdicts) => {
                for (line, verdict) in numbers.iter().zip(verdicts) {
                    self.told(*line, verdict)?;
                }
                Ok(())
            }
            Err(error) => {
                let place = format!(
                    "stopped: every good line before line {first} is enqueued, and lines {first} \
                     to {last} may be"
                );
                Err(Failure::from(error.cause).about(place))
            }
        }
    }

    fn told(&mut self, line: u64, verdict: Verdict) -> Result<(), Failure> {
        let word = match verdict {
            Verdict::Unconfirmed(_) => {
                self.tally.unconfirmed += 1;
                "unconfirmed"
            }
            // The ids are our own: what is there already came with a send whose answer was lost.
            _ => {
                self.tally.admitted += 1;
                "admitted"
            }
        };
        if self.out.json() {
            let told = Told { line, id: Some(verdict.id()), verdict: word, error: None };
            return self.out.value(&told);
        }
        if self.verdicts {
            let (bar, out) = (&self.bar, self.out);
            return bar.suspend(|| out.line(format!("{line} {} {word}", verdict.id())));
        }
        Ok(())
    }

    fn bad(&mut self, line: u64, bad: &Bad) -> Result<(), Failure> {
        self.tally.bad += 1;
        let why = bad.to_string();
        if self.out.json() {
            let told = Told { line, id: None, verdict: "bad", error: Some(&why) };
            return self.out.value(&told);
        }
        // Nobody may read it; the count and the exit code tell it too.
        let said = format!("emq: line {line} is {why}\n");
        let _ = self.bar.suspend(|| io::stderr().write_all(said.as_bytes()));
        Ok(())
    }

    fn end(self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        let Tally { admitted, bad, unconfirmed, .. } = self.tally;
        self.out.tell(&self.tally, || match (bad, unconfirmed) {
            (0, 0) => format!("{admitted} enqueued"),
            (bad, 0) => format!("{admitted} enqueued, {bad} bad"),
            (bad, unconfirmed) => {
                format!("{admitted} enqueued, {unconfirmed} not confirmed as durable, {bad} bad")
            }
        })?;
        match bad + unconfirmed {
            0 => Ok(()),
            n => Err(Failure::new(
                Exit::Partial,
                format!("{n} of {} lines were not enqueued as asked", self.tally.lines),
            )),
        }
    }
}

/// On a terminal, and not for scripts: of the whole file, or of what has come.
fn progress_bar(out: Out) -> ProgressBar {
    if out.json() {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr_with_hz(5);
    let template = match input_bytes() {
        Some(_) => "{bar:30} {percent:>3} % {msg}",
        None => "{spinner} {msg}",
    };
    let bar = ProgressBar::with_draw_target(input_bytes(), target);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The size of standard input, when it is a file.
fn input_bytes() -> Option<u64> {
    let input = io::stdin().as_fd().try_clone_to_owned().ok()?;
    let meta = File::from(input).metadata().ok()?;
    meta.is_file().then_some(meta.len())
}
