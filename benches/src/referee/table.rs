//! The table, for terminals and for Markdown.

use std::fmt::Write;

use super::board::{Board, Cell};
use super::row::{RATE, Row};

/// The table as Markdown: a line a row, a column a side that plays.
#[must_use]
pub fn markdown(board: &Board) -> String {
    let sides: Vec<&str> = playing(board);
    let mut out = format!("| row | unit | {} |\n", sides.join(" | "));
    let _ = writeln!(out, "|---|---|{}", "---|".repeat(sides.len()));
    for row in &board.rows {
        let cells = sides.iter().map(|side| cell_text(row, board.cell(row.name, side)));
        let cells: Vec<String> = cells.collect();
        let _ = writeln!(out, "| {} | {} | {} |", row.words, row.unit, cells.join(" | "));
    }
    out
}

/// What stands in a table: the median and how far the rounds lie apart.
#[must_use]
pub fn cell_text(row: &Row, cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return "-".to_owned() };
    let mut text = match (cell.series.median(), &cell.absent) {
        (Some(median), _) => number(row, median),
        (None, Some(_)) => return "absent".to_owned(),
        (None, None) => return "failed".to_owned(),
    };
    if let Some(spread) = cell.series.spread().filter(|_| cell.series.figures().count() > 1) {
        let _ = write!(text, " ±{:.0} %", spread * 50.0);
    }
    if !cell.inexact.is_empty() {
        text.push_str(" INEXACT");
    }
    if !cell.failed.is_empty() {
        let _ = write!(text, ", failed {} times", cell.failed.len());
    }
    text
}

/// A figure as a reader wants it: whole, with separators; latencies to a hundredth.
#[must_use]
pub fn number(row: &Row, figure: f64) -> String {
    match row.unit {
        "ms" => format!("{figure:.2}"),
        RATE if figure >= 1_000.0 => thousands(three_figures(figure)),
        _ => thousands(figure.round()),
    }
}

/// No more figures than a noisy machine gives.
fn three_figures(figure: f64) -> f64 {
    let step = 10_f64.powf((figure.log10().floor() - 2.0).max(0.0));
    (figure / step).round() * step
}

fn thousands(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The sides with a figure or a fault, in their order.
#[must_use]
pub fn playing(board: &Board) -> Vec<&'static str> {
    let names = board.seats.iter().filter(|seat| seat.absent.is_none()).map(|seat| seat.side.name);
    names.filter(|side| board.rows.iter().any(|row| board.cell(row.name, side).is_some())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::referee::board::tests::board;

    #[test]
    fn a_table_has_a_line_a_row_and_a_column_a_side() {
        let board = board(&[
            ("enqueue_50", "ours", &[90_000.0, 100_000.0, 110_000.0]),
            ("enqueue_50", "bullmq", &[35_123.0]),
            ("idle_pickup_p99", "ours", &[0.25, 0.25]),
        ]);
        let table = markdown(&board);
        let mut lines = table.lines();
        assert_eq!(lines.next(), Some("| row | unit | ours | bullmq |"));
        assert_eq!(lines.next(), Some("|---|---|---|---|"));
        let line = lines.find(|line| line.contains("50 tasks")).unwrap();
        assert!(line.ends_with("| jobs/s | 100,000 ±10 % | 35,100 |"), "{line}");
        assert!(table.contains("| ms | 0.25 ±0 % | - |"), "{table}");
        assert_eq!(table.lines().count(), 2 + board.rows.len());
    }

    #[test]
    fn marks_are_not_hidden_behind_a_figure() {
        let row = Row::named("process_c10").unwrap();
        let mut cell = Cell { n: Some(10), ..Cell::default() };
        assert_eq!(cell_text(row, Some(&cell)), "failed");
        cell.series.add(0, 1_234_567.0);
        assert_eq!(cell_text(row, Some(&cell)), "1,230,000");
        cell.inexact.push("round 1: 9 of 10".to_owned());
        assert_eq!(cell_text(row, Some(&cell)), "1,230,000 INEXACT");
        let absent = Cell { absent: Some("paid".to_owned()), ..Cell::default() };
        assert_eq!(cell_text(row, Some(&absent)), "absent");
        assert_eq!(cell_text(row, None), "-");
    }

    #[test]
    fn numbers_have_the_figures_that_they_deserve() {
        let of = |name, figure| number(Row::named(name).unwrap(), figure);
        assert_eq!(of("enqueue_50", 999.4), "999");
        assert_eq!(of("enqueue_50", 1_005.0), "1,010");
        assert_eq!(of("bytes_a_job", 486.0), "486");
        assert_eq!(of("idle_pickup_p50", 0.1234), "0.12");
    }
}
