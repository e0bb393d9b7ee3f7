//! The upper half: a row for each queue.

use emq_core::{SweptLanes, Vitals};
use emq_keys::QueueName;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

use super::Look;
use crate::top::model::{Focus, Model, QueueView};
use crate::watching::text::{count, cut_name, rate, span};

/// The width of each column but the first, which takes the rest.
const WIDTHS: [u16; 8] = [8, 7, 7, 6, 6, 7, 6, 6];
const HEADINGS: [&str; 8] =
    ["WAITING", "+/s", "RUNNING", "LATER", "DEAD", "+/min", "OLDEST", "LANES"];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model, look: Look) {
    if model.search.found.is_empty() {
        let text = if model.search.whole { "no queue has a job" } else { "searching for queues" };
        let lines = vec![Line::raw(""), Line::styled(text, look.faint())];
        return frame.render_widget(Paragraph::new(lines).centered(), area);
    }
    let used: u16 = WIDTHS.iter().map(|width| width + 1).sum();
    let room = usize::from(area.width.saturating_sub(used));
    let rows = model.shown().iter().enumerate().map(|(n, name)| {
        let is_chosen = model.top + n == model.selected;
        let row = row(name, model.queues.get(name), room, look);
        if is_chosen { row.style(look.chosen(model.focus == Focus::Queues)) } else { row }
    });
    let headings = std::iter::once(Cell::from("QUEUE")).chain(HEADINGS.map(right));
    let widths = std::iter::once(Constraint::Fill(1)).chain(WIDTHS.map(Constraint::Length));
    let table = Table::new(rows, widths).header(Row::new(headings).style(look.heading()));
    frame.render_widget(table.column_spacing(1), area);
}

fn row(name: &QueueName, view: Option<&QueueView>, room: usize, look: Look) -> Row<'static> {
    let name = cut_name(name.as_str(), room);
    let Some((view, (vitals, lanes))) = view.and_then(|view| Some((view, view.now.as_ref()?)))
    else {
        return Row::new([Cell::from(name)]);
    };
    let dead = right(count(vitals.dead));
    Row::new([
        Cell::from(name),
        right(waiting(vitals, lanes)),
        right(rate(view.waiting_a_second())),
        right(count(vitals.active)),
        right(count(vitals.scheduled)),
        if vitals.dead > 0 { dead.style(look.held_back()) } else { dead },
        right(rate(view.dead_a_minute())),
        right(oldest(vitals, lanes)),
        if vitals.paused {
            right("PAUSED").style(look.held_back())
        } else {
            right(lanes_of(vitals, lanes))
        },
    ])
}

/// A lower bound where not all lanes were looked at so far.
fn waiting(vitals: &Vitals, lanes: &SweptLanes) -> String {
    let bound = if lanes.whole { "" } else { ">" };
    format!("{bound}{}", count(vitals.pending + lanes.waiting))
}

fn oldest(vitals: &Vitals, lanes: &SweptLanes) -> String {
    let oldest = [vitals.oldest, lanes.oldest].into_iter().flatten().min();
    oldest.map_or_else(String::new, |job| span(vitals.since(job)))
}

/// How many lanes have something to do, with those that can't be counted at once left to the sweep.
fn lanes_of(vitals: &Vitals, lanes: &SweptLanes) -> String {
    let known = vitals.lanes_ready.max(vitals.lanes_leased).max(vitals.lanes_paused);
    let swept = if lanes.whole { lanes.lanes.max(vitals.lanes_ready) } else { known };
    if swept == 0 { String::new() } else { count(swept) }
}

fn right(text: impl Into<String>) -> Cell<'static> {
    Cell::from(Line::from(text.into()).right_aligned())
}
