//! Rows, printed as JSON lines.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Effects, Waits};

/// Prints the lines of one row.
#[derive(Debug, Clone)]
pub struct Report<'a> {
    row: &'a str,
    n: usize,
}

impl<'a> Report<'a> {
    /// Of `row`, which was asked with size `n`.
    #[must_use]
    pub fn of(row: &'a str, n: usize) -> Report<'a> {
        Report { row, n }
    }

    /// The first line of every contender: an object of texts.
    pub fn versions(parts: Value) {
        Report::of("versions", 0).line(parts);
    }

    /// `n` jobs were enqueued in `took`.
    pub fn enqueued(&self, took: Duration) {
        self.line(json!({ "n": self.n, "per_s": self.rate(took) }));
    }

    /// The jobs were worked in `took`, the last one acknowledged.
    pub fn worked(&self, took: Duration, effects: &Effects) {
        self.line(json!({
            "n": self.n, "done": effects.done(), "twice": effects.twice(), "per_s": self.rate(took),
        }));
    }

    /// How long jobs waited for an idle worker.
    pub fn picked_up(&self, waits: Waits) {
        match waits.p50_p99_ms() {
            Some((p50, p99)) => self.line(json!({ "n": self.n, "p50": p50, "p99": p99 })),
            None => self.failed("no job was served"),
        }
    }

    /// This side has no such row.
    pub fn absent(&self, why: &str) {
        self.line(json!({ "absent": why }));
    }

    /// This side came to grief in this row.
    pub fn failed(&self, what: &str) {
        self.line(json!({ "failed": what }));
    }

    /// Any other fields: an object.
    ///
    /// # Panics
    /// When `fields` isn't an object, or standard output is gone.
    pub fn line(&self, mut fields: Value) {
        fields.as_object_mut().expect("an object").insert("row".to_owned(), json!(self.row));
        let mut out = io::stdout().lock();
        writeln!(out, "{fields}").and_then(|()| out.flush()).expect("the referee reads");
    }

    fn rate(&self, took: Duration) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let rate = (self.n as f64 / took.as_secs_f64()) as u64;
        rate
    }
}
