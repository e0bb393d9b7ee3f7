//! What was measured, by row and side.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::line::{Outcome, exact};
use super::row::{Place, ROWS, Row};
use super::series::Series;
use super::side::Side;

/// One row of one side, over the rounds.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The figures.
    pub series: Series,
    /// The last size.
    pub n: Option<u64>,
    /// Why the side hasn't got the row.
    pub absent: Option<String>,
    /// How the side came to grief, in which round.
    pub failed: Vec<String>,
    /// Where delivery wasn't exact, in which round.
    pub inexact: Vec<String>,
}

/// What is known of a side.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The side.
    pub side: &'static Side,
    /// What it says it is.
    pub versions: Map<String, Value>,
    /// Why it doesn't play.
    pub absent: Option<String>,
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Board {
    /// The rows that are played, in the table's order.
    pub rows: Vec<&'static Row>,
    /// The sides, ours first.
    pub seats: Vec<Seat>,
    cells: BTreeMap<(&'static str, &'static str), Cell>,
}

impl Board {
    /// Nothing was measured yet.
    #[must_use]
    pub fn new(rows: Vec<&'static Row>, seats: Vec<Seat>) -> Board {
        Board { rows, seats, cells: BTreeMap::new() }
    }

    /// One row of one side.
    #[must_use]
    pub fn cell(&self, row: &str, side: &str) -> Option<&Cell> {
        let row = Row::named(row)?;
        let side = Side::named(side)?;
        self.cells.get(&(row.name, side.name))
    }

    /// The figures of a row and a side, when there are any.
    #[must_use]
    pub fn series(&self, row: &str, side: &str) -> Option<&Series> {
        self.cell(row, side).map(|cell| &cell.series).filter(|series| !series.is_empty())
    }

    /// Notes what a contender said of itself.
    pub fn introduced(&mut self, side: &Side, versions: Map<String, Value>) {
        for seat in self.seats.iter_mut().filter(|seat| seat.side.name == side.name) {
            seat.versions = versions.clone();
        }
    }

    /// Notes what became of a row of the protocol that was asked of a side at a place.
    pub fn note(
        &mut self,
        round: usize,
        side: &'static Side,
        place: Place,
        asked: &str,
        outcome: &Outcome,
    ) {
        let mut rows = ROWS.iter().filter(|row| row.asked == asked && row.place == place);
        // What concerns the whole row is noted once, though it may have two figures.
        if let Outcome::Measured(fields) = outcome {
            for row in rows {
                let cell = self.cells.entry((row.name, side.name)).or_default();
                cell.n = fields.get("n").and_then(Value::as_u64).or(cell.n);
                match fields.get(row.field).and_then(Value::as_f64) {
                    Some(figure) => cell.series.add(round, figure),
                    None => cell.failed.push(format!("round {}: no {}", round + 1, row.field)),
                }
                if let Err(what) = exact(fields) {
                    cell.inexact.push(format!("round {}: {what}", round + 1));
                }
            }
        } else if let Some(row) = rows.next() {
            let cell = self.cells.entry((row.name, side.name)).or_default();
            match outcome {
                Outcome::Absent(why) => cell.absent = Some(why.clone()),
                Outcome::Failed(what) => cell.failed.push(format!("round {}: {what}", round + 1)),
                Outcome::Measured(_) => {}
            }
        }
    }

    /// Whether a side said that it has no such row.
    #[must_use]
    pub fn lacks(&self, side: &Side, place: Place, asked: &str) -> bool {
        let mut rows = ROWS.iter().filter(|row| row.asked == asked && row.place == place);
        rows.any(|row| self.cell(row.name, side.name).is_some_and(|cell| cell.absent.is_some()))
    }

    /// The best of the sides that a test lets in, by its median.
    pub fn best(&self, row: &Row, among: impl Fn(&Side) -> bool) -> Option<&'static Side> {
        let sides = self.seats.iter().map(|seat| seat.side).filter(|side| among(side));
        let medians =
            sides.filter_map(|side| Some((self.series(row.name, side.name)?.median()?, side)));
        let sign = if row.more_is_better() { 1.0 } else { -1.0 };
        let best = medians.max_by(|(a, _), (b, _)| (a * sign).total_cmp(&(b * sign)));
        best.map(|(_, side)| side)
    }

    /// What went wrong with ours, a line each: then the run has failed.
    #[must_use]
    pub fn faults_of_ours(&self) -> Vec<String> {
        let ours = self.seats.iter().filter(|seat| seat.side.ours);
        let mut faults = Vec::new();
        for (seat, row) in ours.flat_map(|seat| self.rows.iter().map(move |row| (seat, row))) {
            let Some(cell) = self.cell(row.name, seat.side.name) else { continue };
            let all = cell.failed.iter().chain(&cell.inexact);
            faults.extend(all.map(|what| format!("{} {}: {what}", seat.side.name, row.name)));
        }
        faults
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// A board on which these sides did these figures, one a round.
    pub(in crate::referee) fn board(figures: &[(&str, &'static str, &[f64])]) -> Board {
        let rows = ROWS.iter().collect();
        let mut seats: Vec<Seat> = Vec::new();
        for (_, name, _) in figures {
            let side = Side::named(name).unwrap();
            if !seats.iter().any(|seat| seat.side.name == side.name) {
                seats.push(Seat { side, versions: Map::new(), absent: None });
            }
        }
        let mut board = Board::new(rows, seats);
        for (name, side, figures) in figures {
            let row = Row::named(name).unwrap();
            for (round, figure) in figures.iter().enumerate() {
                let fields = json!({ "n": 10, row.field: figure });
                let outcome = Outcome::Measured(fields.as_object().unwrap().clone());
                // One figure alone, though the protocol's row may have two.
                let cell = board.cells.entry((row.name, Side::named(side).unwrap().name));
                let Outcome::Measured(fields) = outcome else { unreachable!() };
                cell.or_default().series.add(round, fields[row.field].as_f64().unwrap());
            }
        }
        board
    }

    fn fields(value: Value) -> Outcome {
        Outcome::Measured(value.as_object().unwrap().clone())
    }

    #[test]
    fn a_row_with_two_figures_fills_two_cells() {
        let mut board = board(&[("fairness", "ours", &[])]);
        let ours = Side::named("ours").unwrap();
        let said = fields(json!({ "n": 150, "p50": 0.2, "p99": 0.9 }));
        board.note(0, ours, Place::Near, "idle_pickup_ms", &said);
        assert_eq!(board.series("idle_pickup_p50", "ours").unwrap().median(), Some(0.2));
        assert_eq!(board.series("idle_pickup_p99", "ours").unwrap().median(), Some(0.9));
        assert_eq!(board.series("idle_pickup_p99", "bullmq"), None);
    }

    #[test]
    fn near_and_far_are_two_rows() {
        let mut board = board(&[("fairness", "ours", &[])]);
        let ours = Side::named("ours").unwrap();
        let said = fields(json!({ "n": 10, "per_s": 7 }));
        board.note(0, ours, Place::Far, "enqueue_bulk", &said);
        assert!(board.series("enqueue_bulk", "ours").is_none());
        assert!(board.series("enqueue_bulk_1ms", "ours").is_some());
    }

    #[test]
    fn a_lost_job_is_a_fault_of_ours_and_a_mark_on_a_rival() {
        let mut board = board(&[("fairness", "ours", &[]), ("fairness", "bullmq", &[])]);
        let lost = fields(json!({ "n": 10, "done": 9, "twice": 0, "per_s": 7 }));
        let rival = Side::named("bullmq").unwrap();
        board.note(0, rival, Place::Near, "process_c10", &lost);
        assert_eq!(board.faults_of_ours(), Vec::<String>::new());
        assert_eq!(board.cell("process_c10", "bullmq").unwrap().inexact.len(), 1);
        board.note(2, Side::named("ours").unwrap(), Place::Near, "process_c10", &lost);
        let [fault] = board.faults_of_ours().try_into().unwrap();
        assert!(fault.starts_with("ours process_c10: round 3: 9 of 10"), "{fault}");
    }

    #[test]
    fn the_best_is_the_fastest_or_the_least() {
        let board = board(&[
            ("process_c50", "bullmq", &[5.0, 6.0]),
            ("process_c50", "chasquimq", &[7.0]),
            ("process_c50", "oban", &[9.0]),
            ("bytes_a_job", "bullmq", &[500.0]),
            ("bytes_a_job", "chasquimq", &[100.0]),
        ]);
        let best = |row, among: fn(&Side) -> bool| {
            board.best(Row::named(row).unwrap(), among).map(|side| side.name)
        };
        assert_eq!(best("process_c50", |side| side.name != "oban"), Some("chasquimq"));
        assert_eq!(best("bytes_a_job", |_| true), Some("chasquimq"));
        assert_eq!(best("fairness", |_| true), None);
    }
}
