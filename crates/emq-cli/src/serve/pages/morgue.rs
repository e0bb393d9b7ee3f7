//! Dead letters, a page at a time.

use emq_core::JobRecord;
use emq_keys::{BrandedId, QueueName};
use maud::{Markup, html};

use super::{link_to_job, link_to_lane, number, of_queue, page};
use crate::watching::text::{cut, plain};

/// How much of an error a row shows.
const ERROR_SHOWN: usize = 300;

/// What the page shows.
pub(in crate::serve) struct LetterPage<'a> {
    pub(in crate::serve) queue: &'a QueueName,
    pub(in crate::serve) depth: u64,
    pub(in crate::serve) letters: Vec<JobRecord>,
    /// The letter after which the next page goes on.
    pub(in crate::serve) next: Option<BrandedId>,
    pub(in crate::serve) is_first: bool,
}

pub(in crate::serve) fn morgue(shown: &LetterPage<'_>) -> String {
    let base = format!("{}/morgue", of_queue(shown.queue));
    let body = html! {
        p.faint { (number(shown.depth)) " in all, newest first by their minting" }
        @if shown.letters.is_empty() {
            p { "None here." }
        } @else {
            table {
                tr { th { "job" } th { "lane" } th { "kind" } th.n { "attempts" } th { "error" } }
                @for letter in &shown.letters { (row(shown.queue, letter)) }
            }
        }
        nav.turn {
            @if !shown.is_first { a rel="first" href=(base) { "newest" } " " }
            @if let Some(next) = shown.next {
                a rel="next" href=(format!("{base}?before={next}")) { "older" }
            }
        }
    };
    page(&format!("Morgue of {}", shown.queue), Some(shown.queue), &body)
}

fn row(queue: &QueueName, letter: &JobRecord) -> Markup {
    html! {
        tr {
            td { (link_to_job(queue, letter.id)) }
            td { @if let Some(lane) = letter.group { (link_to_lane(queue, lane)) } }
            td.text { (plain(letter.kind.as_deref().unwrap_or(""))) }
            td.n { (number(letter.attempts)) }
            td.text { (plain(&cut(letter.last_error.as_deref().unwrap_or(""), ERROR_SHOWN))) }
        }
    }
}
