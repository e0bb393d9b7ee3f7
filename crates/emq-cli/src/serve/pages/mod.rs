//! The console's pages. Whatever stands in them is escaped by the macro that writes them.

mod job;
mod lanes;
mod morgue;
mod queue;
mod queues;

use std::time::Duration;

use emq_keys::{BrandedId, QueueName};
use maud::{DOCTYPE, Markup, html};

pub(super) use self::job::job;
pub(super) use self::lanes::{LanePage, lanes};
pub(super) use self::morgue::{LetterPage, morgue};
pub(super) use self::queue::{QueuePage, queue};
pub(super) use self::queues::queues;
use crate::watching::text::{plain, span};

/// The one sheet of style.
pub(super) const STYLE_SHEET: &str = include_str!("style.css");

/// A page that says why there is no other.
pub(super) fn failed(title: &str, why: &str) -> String {
    page(title, None, &html! { p.bad { (plain(why)) } })
}

/// A whole page, with the way back.
fn page(title: &str, queue: Option<&QueueName>, body: &Markup) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (plain(title)) " - EchoMQ" }
                link rel="stylesheet" href="/style.css";
            }
            body {
                header {
                    nav {
                        a href="/" { "EchoMQ" }
                        @if let Some(queue) = queue {
                            " / " a.name href=(of_queue(queue)) { (queue) }
                        }
                    }
                    @if let Some(queue) = queue {
                        nav.parts {
                            a href=(of_queue(queue)) { "overview" } " "
                            a href=(format!("{}/lanes", of_queue(queue))) { "lanes" } " "
                            a href=(format!("{}/morgue", of_queue(queue))) { "morgue" }
                        }
                    }
                }
                main {
                    h1 { (plain(title)) }
                    (body)
                }
                footer { "read-only" }
            }
        }
    };
    whole.into_string()
}

/// A queue's name has no letter that a path would need to escape.
fn of_queue(queue: &QueueName) -> String {
    format!("/queues/{queue}")
}

fn link_to_job(queue: &QueueName, id: BrandedId) -> Markup {
    html! { a.id href=(format!("{}/jobs/{id}", of_queue(queue))) { (id) } }
}

fn link_to_lane(queue: &QueueName, id: BrandedId) -> Markup {
    html! { a.id href=(format!("{}/lanes?lane={id}", of_queue(queue))) { (id) } }
}

/// A count with all its digits, in groups of three.
fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn ago(since: Duration) -> String {
    format!("{} ago", span(since))
}

/// Text from outside that keeps its lines.
fn lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        for (n, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(number(n), text);
        }
    }

    #[test]
    fn what_a_page_says_is_escaped() {
        let page = failed("<b>\"'&", "</p><script>alert(1)</script>\u{1b}");
        assert!(!page.contains("<script>") && !page.contains("<b>") && !page.contains('\u{1b}'));
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    }
}
