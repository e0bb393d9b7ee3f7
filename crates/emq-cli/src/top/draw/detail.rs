//! The lower half: lanes, workers or dead letters of the selected queue.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::Look;
use crate::top::model::{Focus, Model, Pane};
use crate::top::reading::{DeadLetter, LaneRow};
use crate::top::workers::WorkerView;
use crate::watching::text::{count, cut, plain, rate, span};

pub(super) fn title(pane: Pane) -> &'static str {
    match pane {
        Pane::Lanes => "lanes",
        Pane::Workers => "workers",
        Pane::Morgue => "morgue",
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, look: Look) {
    if model.queue().is_none() {
        return;
    }
    match model.pane {
        Pane::Lanes => lanes(frame, area, model, look),
        Pane::Workers => workers(frame, area, model, look),
        Pane::Morgue => morgue(frame, area, model, look),
    }
}

fn lanes(frame: &mut Frame<'_>, area: Rect, model: &Model, look: Look) {
    let page = &model.lanes;
    if page.rows.is_empty() {
        let text = if page.read { "no lanes: all jobs are of the flat set" } else { "reading" };
        return empty(frame, area, text, look);
    }
    let rows = page.rows.iter().map(|lane| lane_row(lane, look));
    let headings = [
        Cell::from("LANE"),
        Cell::from("STATE"),
        right("WAITING"),
        right("RUNNING"),
        right("CEILING"),
        right("WEIGHT"),
    ];
    let widths = [14, 10, 9, 9, 9, 9].map(Constraint::Length);
    table(frame, area, headings, rows, &widths, model, look);
}

fn lane_row(lane: &LaneRow, look: Look) -> Row<'static> {
    let at_ceiling = lane.ceiling.is_some_and(|ceiling| lane.leases >= u64::from(ceiling));
    let (state, style) = if lane.paused {
        ("paused", look.held_back())
    } else if at_ceiling {
        ("at ceiling", look.held_back())
    } else if lane.depth > 0 {
        ("ready", look.colour(ratatui::style::Color::Green))
    } else if lane.leases > 0 {
        ("running", look.faint())
    } else {
        ("idle", look.faint())
    };
    Row::new([
        Cell::from(lane.id.to_string()),
        Cell::from(state).style(style),
        right(count(lane.depth)),
        right(count(lane.leases)),
        right(lane.ceiling.map_or_else(|| "-".to_owned(), |ceiling| count(ceiling.into()))),
        right(count(lane.weight.into())),
    ])
}

fn workers(frame: &mut Frame<'_>, area: Rect, model: &Model, look: Look) {
    let crew = &model.crew;
    if crew.workers().is_empty() {
        let text = if crew.read { "nobody holds a job" } else { "reading" };
        return empty(frame, area, text, look);
    }
    let rows = crew.workers().iter().map(worker_row);
    let headings = [
        Cell::from("WORKER"),
        right("HOLDS"),
        right("CLAIMS/s"),
        right("LANES"),
        right("LEASE"),
        Cell::from(" OLDEST JOB"),
    ];
    let widths = [32, 6, 8, 6, 7, 15].map(Constraint::Length);
    table(frame, area, headings, rows, &widths, model, look);
}

fn worker_row(worker: &WorkerView) -> Row<'static> {
    let name = worker.name.as_deref().map_or_else(|| "(no ticket)".to_owned(), plain);
    let pace = rate(worker.claims_a_second);
    Row::new([
        Cell::from(cut(&name, 32)),
        right(count(worker.holds as u64)),
        right(pace.trim_start_matches('+')),
        right(count(worker.lanes as u64)),
        right(span(worker.left)),
        Cell::from(format!(" {}", worker.oldest)),
    ])
}

fn morgue(frame: &mut Frame<'_>, area: Rect, model: &Model, look: Look) {
    let page = &model.letters;
    if page.rows.is_empty() {
        let text = if page.read { "no dead letters" } else { "reading" };
        return empty(frame, area, text, look);
    }
    let rows = page.rows.iter().map(letter_row);
    let headings = [
        Cell::from("JOB"),
        right("TRIES"),
        Cell::from("KIND"),
        Cell::from("LANE"),
        Cell::from("ERROR"),
    ];
    let widths = [
        Constraint::Length(14),
        Constraint::Length(6),
        Constraint::Length(12),
        Constraint::Length(14),
        Constraint::Fill(1),
    ];
    table(frame, area, headings, rows, &widths, model, look);
}

fn letter_row(letter: &DeadLetter) -> Row<'static> {
    let text = |text: &Option<String>| text.as_deref().map_or_else(String::new, plain);
    Row::new([
        Cell::from(letter.id.to_string()),
        right(count(letter.attempts)),
        Cell::from(cut(&text(&letter.kind), 12)),
        Cell::from(letter.lane.map_or_else(String::new, |lane| lane.to_string())),
        Cell::from(text(&letter.error)),
    ])
}

fn table<'a, const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    headings: [Cell<'a>; N],
    rows: impl Iterator<Item = Row<'a>>,
    widths: &[Constraint],
    model: &Model,
    look: Look,
) {
    let has_focus = model.focus == Focus::Pane;
    // A crew may be larger than the screen: the selected row stays in view.
    let height = usize::from(area.height.saturating_sub(1)).max(1);
    let skipped = (model.row + 1).saturating_sub(height);
    let rows = rows.enumerate().skip(skipped).map(|(n, row)| {
        if has_focus && n == model.row { row.style(look.chosen(true)) } else { row }
    });
    let table = Table::new(rows, widths.iter().copied());
    let table = table.header(Row::new(headings).style(look.heading())).column_spacing(1);
    frame.render_widget(table, area);
}

fn empty(frame: &mut Frame<'_>, area: Rect, text: &'static str, look: Look) {
    let lines = vec![Line::raw(""), Line::styled(text, look.faint())];
    frame.render_widget(Paragraph::new(lines).centered(), area);
}

fn right(text: impl Into<String>) -> Cell<'static> {
    Cell::from(Line::from(text.into()).right_aligned())
}
