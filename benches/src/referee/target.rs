//! The targets that compare ours with rivals, or two rows of ours: ratios of one run.

use std::fmt;

use super::board::Board;
use super::row::Row;
use super::series::Series;
use super::side::{Side, Store};

/// What a ratio must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wanted {
    /// This or more.
    AtLeast(f64),
    /// More than this.
    Above(f64),
    /// This or less.
    AtMost(f64),
    /// Less than this.
    Below(f64),
}

impl Wanted {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Wanted::AtLeast(bound) => ratio >= bound,
            Wanted::Above(bound) => ratio > bound,
            Wanted::AtMost(bound) => ratio <= bound,
            Wanted::Below(bound) => ratio < bound,
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::AtLeast(bound) => write!(f, "at least {bound}"),
            Wanted::Above(bound) => write!(f, "above {bound}"),
            Wanted::AtMost(bound) => write!(f, "at most {bound}"),
            Wanted::Below(bound) => write!(f, "below {bound}"),
        }
    }
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The ratio is what was wanted.
    Met,
    /// It isn't.
    Missed,
    /// There is nothing to compare with.
    NoRival,
    /// Ours wasn't measured.
    NotMeasured,
}

impl Verdict {
    /// As it is printed.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::NoRival => "no rival here",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// A target with its ratio.
#[derive(Clone, Debug)]
pub struct Target {
    /// What is compared, in words.
    pub what: String,
    /// The median of the rounds' ratios.
    pub ratio: Option<f64>,
    /// What it must be.
    pub wanted: Wanted,
    /// How it went.
    pub verdict: Verdict,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Near the bound a third digit tells; far above it is noise.
        let digits = |ratio: f64| if ratio < 2.0 { 3 } else { 2 };
        let ratio = self.ratio.map(|ratio| format!("{ratio:.*}", digits(ratio)));
        let ratio = ratio.unwrap_or_else(|| "-".to_owned());
        let Target { what, wanted, verdict, .. } = self;
        write!(f, "target {what}: {ratio}, wanted {wanted}: {}", verdict.words())
    }
}

/// Whom a row is compared with; rivals count at their defaults unless named.
enum Against {
    Best,
    BestOnValkey,
    Rival(&'static str),
    /// A row of the same side.
    Own(&'static str),
    /// A number.
    Bound(f64),
}

struct Line {
    side: &'static str,
    row: &'static str,
    against: Against,
    wanted: Wanted,
}

const fn line(side: &'static str, row: &'static str, against: Against, wanted: Wanted) -> Line {
    Line { side, row, against, wanted }
}

const LINES: &[Line] = &[
    line("ours", "enqueue_50", Against::Best, Wanted::Above(1.0)),
    line("ours", "enqueue_bulk", Against::Best, Wanted::AtLeast(1.4)),
    line("ours", "process_c1", Against::BestOnValkey, Wanted::Above(1.0)),
    line("ours", "process_c10", Against::BestOnValkey, Wanted::Above(1.0)),
    line("ours", "process_c50", Against::Best, Wanted::AtLeast(2.5)),
    line("ours", "process_c50", Against::Rival("chasquimq-tuned"), Wanted::AtLeast(0.6)),
    line("ours", "process_lanes", Against::Own("process_c50"), Wanted::AtLeast(0.5)),
    line("ours", "process_lanes", Against::Rival("groupmq"), Wanted::AtLeast(2.5)),
    line("ours", "idle_pickup_p99", Against::Best, Wanted::AtMost(1.0)),
    line("ours-always", "enqueue_50", Against::Rival("graphile-worker"), Wanted::AtLeast(10.0)),
    line("ours-always", "enqueue_50", Against::Rival("oban"), Wanted::AtLeast(15.0)),
    line("ours", "bytes_a_job", Against::Rival("bullmq"), Wanted::Below(1.0)),
    line("ours", "enqueue_bulk_1ms", Against::Own("enqueue_bulk"), Wanted::AtLeast(0.9)),
    line("ours", "process_c200_1ms", Against::Own("process_c200"), Wanted::AtLeast(0.9)),
    line("ours-everysec", "recovery", Against::Bound(250.0), Wanted::AtMost(1.0)),
    line("ours-always", "recovery", Against::Bound(250.0), Wanted::AtMost(1.0)),
];

/// The targets whose row was played.
#[must_use]
pub fn targets(board: &Board) -> Vec<Target> {
    let played = |line: &&Line| board.rows.iter().any(|row| row.name == line.row);
    LINES.iter().filter(played).map(|line| line.judge(board)).collect()
}

impl Line {
    fn judge(&self, board: &Board) -> Target {
        let (other, of) = self.other(board);
        let what = format!("{} {} {other}", self.side, self.row);
        let target = |ratio, verdict| Target { what, ratio, wanted: self.wanted, verdict };
        let Some(ours) = board.series(self.row, self.side) else {
            return target(None, Verdict::NotMeasured);
        };
        let ratio = match of {
            Of::Series(theirs) => ours.over(theirs).median(),
            Of::Number(bound) => ours.median().map(|figure| figure / bound),
            Of::Nobody => None,
        };
        match ratio {
            Some(ratio) if self.wanted.holds(ratio) => target(Some(ratio), Verdict::Met),
            Some(ratio) => target(Some(ratio), Verdict::Missed),
            None => target(None, Verdict::NoRival),
        }
    }

    /// Whom it is compared with, in words and figures.
    fn other<'a>(&self, board: &'a Board) -> (String, Of<'a>) {
        let best = |among: fn(&Side) -> bool| {
            let row = Row::named(self.row)?;
            let name = board.best(row, |side| !side.ours && among(side))?.name;
            Some((format!("over the best rival's, {name}"), board.series(self.row, name)?))
        };
        let found = match self.against {
            Against::Best => best(|side| side.env.is_empty()),
            Against::BestOnValkey => {
                best(|side| side.env.is_empty() && side.store != Store::Postgres)
            }
            Against::Rival(name) => {
                let series = board.series(self.row, name);
                return (format!("over {name}'s"), series.map_or(Of::Nobody, Of::Series));
            }
            Against::Own(row) => {
                let series = board.series(row, self.side);
                return (format!("over its {row}"), series.map_or(Of::Nobody, Of::Series));
            }
            Against::Bound(bound) => return (format!("over {bound}"), Of::Number(bound)),
        };
        match found {
            Some((words, series)) => (words, Of::Series(series)),
            None => ("over the best rival's".to_owned(), Of::Nobody),
        }
    }
}

enum Of<'a> {
    Series(&'a Series),
    Number(f64),
    Nobody,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::referee::board::tests::board;

    fn said(figures: &[(&str, &'static str, &[f64])], begins: &str) -> String {
        let all: Vec<String> = targets(&board(figures)).iter().map(Target::to_string).collect();
        let mut found = all.iter().filter(|line| line.contains(begins));
        found.next().unwrap_or_else(|| panic!("no {begins} in {all:#?}")).clone()
    }

    #[test]
    fn a_target_is_the_median_of_the_rounds_ratios() {
        let figures: &[(&str, &str, &[f64])] = &[
            ("enqueue_50", "ours", &[20.0, 30.0, 90.0]),
            ("enqueue_50", "bullmq", &[10.0, 10.0, 10.0]),
            ("enqueue_50", "oban", &[1.0, 1.0, 1.0]),
        ];
        let line = said(figures, "ours enqueue_50 over the best");
        assert_eq!(
            line,
            "target ours enqueue_50 over the best rival's, bullmq: 3.00, wanted above 1: met"
        );
    }

    #[test]
    fn one_that_is_missed_or_lacks_a_rival_says_so() {
        let figures: &[(&str, &str, &[f64])] = &[
            ("process_lanes", "ours", &[20.0]),
            ("process_lanes", "groupmq", &[10.0]),
            ("process_c50", "ours", &[50.0]),
            ("recovery", "ours-always", &[125.0]),
        ];
        assert!(said(figures, "over groupmq's").ends_with("2.00, wanted at least 2.5: missed"));
        assert!(
            said(figures, "over its process_c50").contains("0.400, wanted at least 0.5: missed")
        );
        assert!(said(figures, "over chasquimq-tuned's").ends_with("no rival here"));
        assert!(said(figures, "ours-always recovery").contains("0.500, wanted at most 1: met"));
        assert!(said(figures, "ours enqueue_bulk over").ends_with("not measured"));
    }

    #[test]
    fn only_rivals_on_valkey_at_their_defaults_count_where_it_says_so() {
        let figures: &[(&str, &str, &[f64])] = &[
            ("process_c10", "ours", &[20.0]),
            ("process_c10", "graphile-worker", &[40.0]),
            ("process_c50", "ours", &[100.0]),
            ("process_c50", "chasquimq-tuned", &[200.0]),
            ("process_c50", "graphile-worker", &[20.0]),
        ];
        assert!(said(figures, "ours process_c10").ends_with("no rival here"));
        assert!(said(figures, "process_c50 over the best").contains("graphile-worker: 5.00"));
    }
}
