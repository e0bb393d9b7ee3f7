//! All queues.

use maud::{Markup, html};

use super::{number, of_queue, page};
use crate::serve::watcher::Snapshot;
use crate::watching::Numbers;
use crate::watching::text::span;

pub(in crate::serve) fn queues(snapshot: &Snapshot) -> String {
    let body = html! {
        @if snapshot.queues.is_empty() && snapshot.unreadable.is_empty() {
            @if snapshot.search_is_whole {
                p { "No queue has a job." }
            } @else {
                p { "The keyspace is being searched for queues; look again in a moment." }
            }
        } @else {
            table {
                tr {
                    th { "queue" } th.n { "waiting" } th.n { "in flight" } th.n { "scheduled" }
                    th.n { "dead" } th.n { "lanes" } th.n { "oldest" } th { "" }
                }
                @for queue in &snapshot.queues { (row(queue)) }
            }
        }
        @for name in &snapshot.unreadable {
            p.bad {
                "Not readable: " a.name href=(of_queue(name)) { (name) }
                ". Let emq doctor look at it."
            }
        }
        @if snapshot.left_out > 0 {
            p.held { (number(snapshot.left_out as u64)) " more queues are not shown." }
        }
        @if !snapshot.search_is_whole && !snapshot.queues.is_empty() {
            p.faint { "The keyspace is still being searched; there may be more queues." }
        }
    };
    page("Queues", None, &body)
}

fn row(queue: &Numbers) -> Markup {
    let vitals = &queue.vitals;
    html! {
        tr {
            td.name { a href=(of_queue(&queue.name)) { (queue.name) } }
            td.n { (waiting(queue)) }
            td.n { (number(vitals.active)) }
            td.n { (number(vitals.scheduled)) }
            td.n { @if vitals.dead > 0 { span.bad { (number(vitals.dead)) } } @else { "0" } }
            td.n { (number(queue.lanes.lanes.max(vitals.lanes_ready))) }
            td.n { (oldest(queue)) }
            td { @if vitals.paused { span.held { "paused" } } }
        }
    }
}

/// With a sign where it is a lower bound.
pub(super) fn waiting(queue: &Numbers) -> String {
    let bound = if queue.lanes.whole || queue.is_summed { "" } else { "≥ " };
    format!("{bound}{}", number(queue.vitals.pending + queue.lanes.waiting))
}

pub(super) fn oldest(queue: &Numbers) -> String {
    let oldest = [queue.vitals.oldest, queue.lanes.oldest].into_iter().flatten().min();
    oldest.map_or_else(String::new, |job| span(queue.vitals.since(job)))
}
