//! One queue.

use emq_core::Timed;
use emq_keys::BrandedId;
use maud::{Markup, html};

use super::queues::{oldest, waiting};
use super::{ago, link_to_job, link_to_lane, number, of_queue, page};
use crate::watching::Numbers;
use crate::watching::text::{plain, span};

/// What the page shows.
pub(in crate::serve) struct QueuePage<'a> {
    pub(in crate::serve) numbers: &'a Numbers,
    /// The newest jobs of the flat set that wait.
    pub(in crate::serve) waiting: &'a [BrandedId],
    /// The leases that end first.
    pub(in crate::serve) leased: &'a [Timed],
}

pub(in crate::serve) fn queue(queue: &QueuePage<'_>) -> String {
    let QueuePage { numbers, .. } = *queue;
    let name = &numbers.name;
    let body = html! {
        (counts(numbers))
        form action=(format!("{}/job", of_queue(name))) method="get" {
            label { "A job by its id: " input name="id" maxlength="14" required; }
            " " button { "look" }
        }
        (in_flight(queue))
        (newest(queue))
    };
    page(name.as_str(), Some(name), &body)
}

fn counts(queue: &Numbers) -> Markup {
    let vitals = &queue.vitals;
    let left = |at: Option<u64>| {
        at.map(|at_ms| match at_ms.checked_sub(vitals.server_ms) {
            Some(left) => format!("in {}", span(std::time::Duration::from_millis(left))),
            None => {
                let late = vitals.server_ms.saturating_sub(at_ms);
                format!("overdue for {}", span(std::time::Duration::from_millis(late)))
            }
        })
    };
    html! {
        table.facts {
            @if vitals.paused { tr { th { "state" } td.held { "paused by an operator" } } }
            tr {
                th { "waiting" }
                td { (waiting(queue)) " (" (number(vitals.pending)) " in the flat set)" }
            }
            tr { th { "oldest" } td { (oldest(queue)) } }
            tr { th { "in flight" } td { (number(vitals.active)) } }
            @if let Some(ends) = left(vitals.lease_ends_ms) {
                tr { th { "first lease ends" } td { (ends) } }
            }
            tr { th { "scheduled" } td { (number(vitals.scheduled)) } }
            @if let Some(due) = left(vitals.due_ms) { tr { th { "first is due" } td { (due) } } }
            tr { th { "dead" } td { (number(vitals.dead)) } }
            tr {
                th { "lanes" }
                td {
                    (number(vitals.lanes_ready)) " ready, " (number(vitals.lanes_leased))
                    " with leases, " (number(vitals.lanes_paused)) " paused, "
                    (number(vitals.lanes_limited)) " with a ceiling"
                }
            }
        }
    }
}

fn in_flight(queue: &QueuePage<'_>) -> Markup {
    let name = &queue.numbers.name;
    html! {
        h2 { "In flight, the leases that end first" }
        @if queue.leased.is_empty() {
            p.faint { "Nobody holds a job." }
        } @else {
            table {
                tr {
                    th { "job" } th { "lane" } th { "kind" } th.n { "attempt" } th.n { "lease" }
                    th { "worker" }
                }
                @for job in queue.leased {
                    tr {
                        td { (link_to_job(name, job.id)) }
                        td { @if let Some(lane) = job.lane { (link_to_lane(name, lane)) } }
                        td.text { (plain(job.kind.as_deref().unwrap_or(""))) }
                        td.n { (number(job.attempts)) }
                        td.n { (span(job.left)) }
                        td.text.id { (plain(job.worker().unwrap_or(""))) }
                    }
                }
            }
        }
    }
}

fn newest(queue: &QueuePage<'_>) -> Markup {
    let Numbers { name, vitals, .. } = queue.numbers;
    html! {
        h2 { "Waiting in the flat set, newest first" }
        @if queue.waiting.is_empty() {
            p.faint { "None." }
        } @else {
            table {
                tr { th { "job" } th { "minted" } }
                @for job in queue.waiting {
                    tr { td { (link_to_job(name, *job)) } td { (ago(vitals.since(*job))) } }
                }
            }
        }
    }
}
