//! One job.

use emq_core::{Explained, Standing};
use emq_keys::QueueName;
use maud::{Markup, html};

use super::{ago, lines, link_to_lane, number, page};
use crate::watching::text::{plain, span};

/// How many bytes of a payload are shown.
const BYTES_SHOWN: usize = 8 * 1024;

pub(in crate::serve) fn job(queue: &QueueName, job: &Explained, shows_payloads: bool) -> String {
    let record = &job.record;
    let body = html! {
        table.facts {
            tr { th { "state" } td { (record.state) ", " (standing(job)) } }
            tr { th { "minted" } td { (ago(job.age())) ", by the clock of its producer" } }
            tr {
                th { "lane" }
                td {
                    @if let Some(lane) = record.group { (link_to_lane(queue, lane)) }
                    @else { "none: the flat set" }
                }
            }
            tr {
                th { "attempts" }
                td {
                    (number(record.attempts)) ", of which " (number(record.failures()))
                    " count against its cap"
                }
            }
            @if let Some(cap) = record.max_attempts {
                tr { th { "its cap" } td { (number(cap.into())) } }
            }
            @if record.lost > 0 {
                tr {
                    th { "lost" }
                    td { (number(record.lost)) " times by a holder whose lease ended" }
                }
            }
            @if let Some(holder) = &record.holder {
                tr { th { "holder" } td.text.id { (plain(holder)) } }
            }
            @if let Some(kind) = &record.kind { tr { th { "kind" } td.text { (plain(kind)) } } }
            @if let Some(key) = &record.unique {
                tr { th { "unique key" } td.text { (plain(key)) } }
            }
            @if record.cancel_asked { tr { th { "cancel" } td.held { "asked for" } } }
        }
        @if let Some(error) = &record.last_error { h2 { "Last error" } pre { (lines(error)) } }
        @if shows_payloads {
            h2 { "Payload, " (number(record.payload.len() as u64)) " bytes" }
            (bytes(&record.payload))
            @if let Some(checkpoint) = &record.checkpoint {
                h2 { "Checkpoint, " (number(checkpoint.len() as u64)) " bytes" }
                (bytes(checkpoint))
            }
            @if let Some(headers) = &record.headers { h2 { "Headers" } pre { (lines(headers)) } }
        } @else {
            p.faint {
                "Payload, " (number(record.payload.len() as u64))
                " bytes: payloads are not shown here."
            }
        }
    };
    page(record.id.as_str(), Some(queue), &body)
}

fn standing(job: &Explained) -> String {
    match job.standing {
        Standing::Waiting { ahead } => match ahead {
            0 => "the next of its lane".to_owned(),
            1 => "1 job of its lane is ahead of it".to_owned(),
            _ => format!("{} jobs of its lane are ahead of it", number(ahead)),
        },
        Standing::Held { left } if left.is_zero() => "its lease is over".to_owned(),
        Standing::Held { left } => format!("its lease ends in {}", span(left)),
        Standing::Due { left } if left.is_zero() => "it is due".to_owned(),
        Standing::Due { left } => format!("due in {}", span(left)),
        Standing::Dead => "in the morgue".to_owned(),
        _ => "no set has it: let emq doctor look at the queue".to_owned(),
    }
}

/// As text where it is text, else in hexadecimal digits.
fn bytes(bytes: &[u8]) -> Markup {
    let head = &bytes[..bytes.len().min(BYTES_SHOWN)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => lines(text),
        // Cut within a character at the end.
        Err(error) if error.error_len().is_none() && head.len() < bytes.len() => {
            lines(&String::from_utf8_lossy(&head[..error.valid_up_to()]))
        }
        Err(_) => hex(head),
    };
    html! {
        pre { (text) }
        @if head.len() < bytes.len() {
            p.faint { "The first " (number(head.len() as u64)) " bytes." }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let row =
        |row: &[u8]| row.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    bytes.chunks(16).map(row).collect::<Vec<_>>().join("\n")
}
