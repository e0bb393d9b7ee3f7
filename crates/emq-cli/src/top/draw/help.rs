//! The page of keys, and what the columns mean.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::Look;

const LINES: [&str; 18] = [
    "up down j k    select a queue; after Tab, a row of the pane below",
    "1 2 3          lanes, workers, morgue of the selected queue (also left, right)",
    "Tab Enter      into the pane and back          Esc    back to the queues",
    "PgUp PgDn      turn the page                   Home   to the first row",
    "p r            pause and resume the selected queue or lane",
    "l w            the selected lane's ceiling and weight",
    "u U            requeue the selected dead letter; all of them",
    "q Ctrl-C       quit",
    "",
    "WAITING  in the flat set and in lanes; > when not all lanes were looked at yet",
    "+/s      how much WAITING grew a second, over the last ten seconds; empty when",
    "         there are too many lanes to add up in one round",
    "RUNNING  under a lease            LATER   scheduled, or waiting to be retried",
    "+/min    how much DEAD grew a minute, over the last ten seconds",
    "OLDEST   since the job that waits longest was minted, among those looked at",
    "workers  as told by the fifty leases that end first; a claim may bring many jobs",
    "",
    "What is done leaves no trace on the server: throughput is the workers' to tell.",
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, _look: Look) {
    let lines: Vec<Line<'_>> = LINES.iter().map(|line| Line::raw(*line)).collect();
    frame.render_widget(Paragraph::new(lines), area);
}
