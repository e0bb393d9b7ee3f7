//! The screen of a model. Nothing is decided here.

mod detail;
mod help;
mod queues;
#[cfg(test)]
mod tests;

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{Act, Asked, Focus, Link, Mode, Model, Pane};
use crate::watching::text::{cut, cut_name, plain, span};

/// Below this nothing sensible can be shown.
const SMALLEST: (u16, u16) = (48, 9);

/// How things look: with colours, or without any.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) colours: bool,
}

impl Look {
    fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn chosen(self, has_focus: bool) -> Style {
        if has_focus {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new().add_modifier(Modifier::BOLD)
        }
    }

    fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    fn held_back(self) -> Style {
        self.colour(Color::Yellow)
    }

    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, now: Instant, look: Look) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let (width, height) = SMALLEST;
        let text = format!("emq top needs {width}x{height}");
        return frame.render_widget(Paragraph::new(text), area);
    }
    let queues = u16::try_from(model.rows.queues + 1).unwrap_or(u16::MAX);
    let [top, upper, tabs, lower, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(queues),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(heading(model, now, look, top.width), top);
    if model.mode == Mode::Help {
        let [_, body, _] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
                .areas(area);
        help::draw(frame, body, look);
    } else {
        queues::draw(frame, upper, model, look);
        frame.render_widget(tab_line(model, look, tabs.width), tabs);
        detail::draw(frame, lower, model, look);
    }
    frame.render_widget(foot(model, look, bottom), bottom);
}

/// Who is watched, and whether it answers.
fn heading(model: &Model, now: Instant, look: Look, width: u16) -> Paragraph<'static> {
    let link = match &model.link {
        Link::Fresh => Span::raw("connecting"),
        Link::Up { at } => match now.saturating_duration_since(*at) {
            late if late.as_secs() >= 5 => {
                Span::styled(format!("no answer for {}", span(late)), look.bad())
            }
            _ => Span::styled("up", look.colour(Color::Green)),
        },
        Link::Down { since, .. } => {
            let down = now.saturating_duration_since(*since);
            Span::styled(format!("reconnecting, down for {}", span(down)), look.bad())
        }
    };
    let found = model.search.found.len();
    let searching = if model.search.whole { "" } else { ", still searching" };
    let queues = if found == 1 { "queue" } else { "queues" };
    let right = format!("{found} {queues}{searching}");
    let used = "emq top  ".len() + right.len() + link.width() + 4;
    let server = cut(&plain(&model.server), usize::from(width).saturating_sub(used));
    let line = Line::from(vec![
        Span::styled("emq top", look.heading()),
        Span::raw(format!("  {server}  ")),
        link,
        Span::raw("  "),
        Span::styled(right, look.faint()),
    ]);
    Paragraph::new(line)
}

/// The panes, and whose they are.
fn tab_line(model: &Model, look: Look, width: u16) -> Paragraph<'static> {
    let mut spans = Vec::new();
    for (n, pane) in Pane::ALL.into_iter().enumerate() {
        let name = format!(" {} {} ", n + 1, detail::title(pane));
        let style = if pane == model.pane { look.chosen(true) } else { look.faint() };
        spans.push(Span::styled(name, style));
        spans.push(Span::raw(" "));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    let page = format!("  page {}", model.page + 1);
    let paged = model.page > 0 || model.lanes.more || model.letters.more;
    let page = if paged { page } else { String::new() };
    let room = usize::from(width).saturating_sub(used + page.len());
    if let Some(name) = model.queue() {
        spans.push(Span::raw(format!("of {}", cut_name(name.as_str(), room.saturating_sub(3)))));
    }
    spans.push(Span::styled(page, look.faint()));
    Paragraph::new(Line::from(spans))
}

/// What is asked, what came of the last key, or which keys there are.
fn foot(model: &Model, look: Look, area: Rect) -> Paragraph<'static> {
    let width = usize::from(area.width);
    let line = match (&model.mode, &model.notice, &model.link) {
        (Mode::Ask { what, lane, typed, .. }, _, _) => {
            let what = match what {
                Asked::Ceiling => "ceiling (0 takes it away)",
                Asked::Weight => "weight",
            };
            Line::styled(
                format!("{lane}: {what}? {typed}_  Enter sets it, Esc doesn't"),
                look.heading(),
            )
        }
        (Mode::Confirm(Act::RequeueAll(queue)), _, _) => {
            let question = "requeue all dead letters? y/n";
            let queue = cut_name(queue.as_str(), width.saturating_sub(question.len() + 2));
            Line::styled(format!("{queue}: {question}"), look.heading())
        }
        (Mode::Confirm(_), _, _) => Line::styled("sure? y/n", look.heading()),
        (Mode::Help, _, _) => Line::styled("any key goes back", look.faint()),
        (_, Some(notice), _) => {
            let style = if notice.is_bad { look.bad() } else { look.heading() };
            Line::styled(cut(&plain(&notice.text), width), style)
        }
        (_, None, Link::Down { why, .. }) => Line::styled(cut(&plain(why), width), look.bad()),
        _ => Line::styled(cut(keys(model), width), look.faint()),
    };
    Paragraph::new(line)
}

fn keys(model: &Model) -> &'static str {
    match (model.focus, model.pane) {
        (Focus::Queues, _) => {
            "q quit  ? help  up/down queue  1 2 3 pane  Tab into it  p pause  r resume"
        }
        (Focus::Pane, Pane::Lanes) => {
            "q quit  ? help  Tab back  PgDn more  p pause  r resume  l ceiling  w weight"
        }
        (Focus::Pane, Pane::Workers) => "q quit  ? help  Tab back  1 lanes  3 morgue",
        (Focus::Pane, Pane::Morgue) => {
            "q quit  ? help  Tab back  PgDn more  u requeue  U requeue all"
        }
    }
}
