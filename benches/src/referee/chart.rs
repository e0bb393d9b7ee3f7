//! The chart: a panel for each row of rates, a bar for each side, for light and dark pages.
//!
//! SVG by hand: what the chart crates write carries colours of one background only.

use std::fmt::Write;

use super::board::Board;
use super::row::{Place, RATE, Row};
use super::table::{number, playing};

const WIDTH: usize = 760;
const LEFT: usize = 150;
const BARS: usize = 480;
const BAR: usize = 16;
const STEP: usize = 22;
const HEAD: usize = 34;
const TOP: usize = 54;

const STYLE: &str = "\
<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .row { font-weight: 600; }
  .note { font-size: 12px; fill: #59636e; }
  .ours { fill: #0a7d5a; }
  .rival { fill: #9aa4af; }
  .page { fill: #ffffff; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .note { fill: #9198a1; }
    .ours { fill: #3fb58c; }
    .rival { fill: #656e79; }
    .page { fill: #0d1117; }
  }
</style>
";

/// Draws the board; `note` says of which day and machine it is.
#[must_use]
pub fn svg(board: &Board, note: &str) -> String {
    let mut panels = String::new();
    let mut y = TOP;
    for row in board.rows.iter().filter(|row| row.unit == RATE && row.place == Place::Near) {
        let bars = bars(board, row);
        if bars.is_empty() {
            continue;
        }
        let _ = writeln!(
            panels,
            "<text class=\"row\" x=\"12\" y=\"{}\">{} ({})</text>",
            y + 20,
            escaped(row.words),
            row.unit
        );
        y = panel(&mut panels, row, &bars, y + HEAD);
    }
    let height = y + 12;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"EchoMQ beside other queues\">\n{STYLE}\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"12\" y=\"24\">EchoMQ beside other queues: more is better</text>"
    );
    let _ = writeln!(out, "<text class=\"note\" x=\"12\" y=\"44\">{}</text>", escaped(note));
    out + &panels + "</svg>\n"
}

struct Drawn {
    side: &'static str,
    ours: bool,
    median: f64,
    range: (f64, f64),
}

fn bars(board: &Board, row: &Row) -> Vec<Drawn> {
    let seats = board.seats.iter().filter(|seat| playing(board).contains(&seat.side.name));
    let bar = |seat: &super::board::Seat| {
        let series = board.series(row.name, seat.side.name)?;
        let (median, range) = (series.median()?, series.range()?);
        Some(Drawn { side: seat.side.name, ours: seat.side.ours, median, range })
    };
    seats.filter_map(bar).collect()
}

/// Draws one panel from `y` on, and answers where it ends.
fn panel(out: &mut String, row: &Row, bars: &[Drawn], mut y: usize) -> usize {
    let most = bars.iter().map(|bar| bar.range.1).fold(0.0, f64::max).max(1.0);
    let at = |figure: f64| figure / most * BARS as f64;
    for bar in bars {
        let class = if bar.ours { "ours" } else { "rival" };
        let (length, middle) = (at(bar.median), y + BAR / 2);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y}\" width=\"{length:.1}\" \
             height=\"{BAR}\" rx=\"2\"><title>{} to {}</title></rect>\
             <text x=\"{:.1}\" y=\"{}\">{}</text>",
            LEFT - 8,
            middle + 5,
            escaped(bar.side),
            number(row, bar.range.0),
            number(row, bar.range.1),
            LEFT as f64 + length + 8.0,
            middle + 5,
            number(row, bar.median),
        );
        y += STEP;
    }
    y + 6
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::referee::board::tests::board;

    #[test]
    fn the_longest_bar_is_the_fastest_side_and_fills_the_panel() {
        let board = board(&[
            ("enqueue_50", "ours", &[100.0]),
            ("enqueue_50", "bullmq", &[25.0]),
            ("idle_pickup_p99", "ours", &[1.0]),
        ]);
        let svg = svg(&board, "of a day & a machine");
        assert!(svg.contains(&format!("class=\"ours\" x=\"{LEFT}\" y=\"88\" width=\"480.0\"")));
        assert!(svg.contains("class=\"rival\" x=\"150\" y=\"110\" width=\"120.0\""), "{svg}");
        assert!(svg.contains("of a day &amp; a machine"));
        // Latencies aren't rates: they have no panel.
        assert_eq!(svg.matches("class=\"row\"").count(), 1);
        assert!(svg.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn every_tag_is_closed_and_nothing_leaves_the_page() {
        let board = board(&[("process_c1", "ours", &[5.0, 9.0]), ("process_c1", "oban", &[1.0])]);
        let svg = svg(&board, "x < y");
        for tag in ["svg", "text", "rect", "title", "style"] {
            let opened = svg.matches(&format!("<{tag}")).count();
            let closed = svg.matches(&format!("</{tag}>")).count();
            let alone = svg.matches("height=\"").count() - svg.matches("rx=\"2\"").count();
            let alone = if tag == "rect" { alone } else { 0 };
            assert_eq!(opened, closed + alone, "{tag}: {svg}");
        }
        const { assert!(LEFT + BARS + 100 < WIDTH) };
    }
}
