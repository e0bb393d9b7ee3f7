//! Lanes, a page at a time.

use emq_core::LaneStatus;
use emq_keys::QueueName;
use maud::{Markup, html};

use super::{number, of_queue, page};

/// What the page shows.
pub(in crate::serve) struct LanePage<'a> {
    pub(in crate::serve) queue: &'a QueueName,
    pub(in crate::serve) lanes: &'a [LaneStatus],
    pub(in crate::serve) page: usize,
    pub(in crate::serve) pages: usize,
    pub(in crate::serve) listed: usize,
    /// Whether these are all lanes.
    pub(in crate::serve) whole: bool,
}

pub(in crate::serve) fn lanes(shown: &LanePage<'_>) -> String {
    let base = format!("{}/lanes", of_queue(shown.queue));
    let body = html! {
        p.faint {
            @if shown.whole { (number(shown.listed as u64)) " lanes" }
            @else {
                "the first " (number(shown.listed as u64)) " lanes that were met; there are more"
            }
            @if shown.pages > 1 { ", page " (shown.page) " of " (shown.pages) }
        }
        form action=(base) method="get" {
            label { "A lane by its id: " input name="lane" maxlength="14" required; }
            " " button { "look" }
        }
        @if shown.lanes.is_empty() {
            p { "No lane is known: all jobs are of the flat set." }
        } @else {
            table {
                tr {
                    th { "lane" } th { "state" } th.n { "waiting" } th.n { "in flight" }
                    th.n { "ceiling" } th.n { "weight" }
                }
                @for lane in shown.lanes { (row(lane)) }
            }
        }
        nav.turn {
            @if shown.page > 1 {
                a rel="prev" href=(format!("{base}?page={}", shown.page - 1)) { "previous" } " "
            }
            @if shown.page < shown.pages {
                a rel="next" href=(format!("{base}?page={}", shown.page + 1)) { "next" }
            }
        }
    };
    page(&format!("Lanes of {}", shown.queue), Some(shown.queue), &body)
}

fn row(lane: &LaneStatus) -> Markup {
    let at_ceiling = lane.ceiling.is_some_and(|ceiling| lane.leases >= u64::from(ceiling));
    html! {
        tr {
            td.id { (lane.id) }
            td {
                @if lane.paused { span.held { "paused" } }
                @else if at_ceiling { span.held { "at its ceiling" } }
                @else if lane.depth > 0 { "ready" }
                @else if lane.leases > 0 { "running" }
                @else { span.faint { "idle" } }
            }
            td.n { (number(lane.depth)) }
            td.n { (number(lane.leases)) }
            td.n { @if let Some(ceiling) = lane.ceiling { (number(ceiling.into())) } @else { "-" } }
            td.n { (number(lane.weight.into())) }
        }
    }
}
