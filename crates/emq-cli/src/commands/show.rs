//! `emq show`: a job explained.

use emq_core::{Explained, Standing};
use emq_keys::BrandedId;
use serde::Serialize;

use super::cancel::gone;
use super::named::home;
use crate::connect::Globals;
use crate::exit::Failure;
use crate::job_view::{JobView, minted};
use crate::output::{glimpse, printable, span};
use crate::values;

/// How much of a payload a person sees.
const GLIMPSE_CHARS: usize = 2_000;

/// What `emq show` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "ID", value_parser = values::job)]
    id: BrandedId,

    /// Its queue; found by walking the keyspace unless said
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<String>,
}

/// A job for scripts.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    job: JobView,
    age_ms: u64,
    standing: &'static str,
    /// How many come before it.
    ahead: Option<u64>,
    /// What is left of its lease, or until it is due.
    left_ms: Option<u64>,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let bus = globals.connect().await?;
    let queue = home(&bus, args.id, args.queue.as_deref()).await?;
    let name = queue.name().as_str();
    let job = queue.explain(args.id).await?.ok_or_else(|| gone(args.id, name))?;
    let out = globals.out();
    if out.json() { out.value(&shown(name, &job)) } else { out.line(explained(name, &job)) }
}

fn shown(queue: &str, job: &Explained) -> Shown {
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let (standing, ahead, left_ms) = match job.standing {
        Standing::Waiting { ahead } => ("waiting", Some(ahead), None),
        Standing::Held { left } => ("held", None, Some(ms(left))),
        Standing::Due { left } => ("due", None, Some(ms(left))),
        Standing::Dead => ("dead", None, None),
        _ => ("nowhere", None, None),
    };
    Shown { job: JobView::new(queue, &job.record), age_ms: ms(job.age()), standing, ahead, left_ms }
}

fn explained(queue: &str, job: &Explained) -> String {
    let row = &job.record;
    let mut lines = vec![
        format!("{}  of {queue}", row.id),
        field("state", &standing(job)),
        field("minted", &format!("{}, {} ago", minted(row.id), span(job.age()))),
    ];
    let mut add = |name, value: Option<String>| {
        if let Some(value) = value {
            lines.push(field(name, &printable(&value)));
        }
    };
    add("lane", row.group.map(|lane| lane.to_string()));
    add("kind", row.kind.clone());
    let cap = row.max_attempts.map(|cap| format!(" of at most {cap}")).unwrap_or_default();
    let failed = row.failures();
    let lost = if row.lost == 0 { String::new() } else { format!(", {} of them lost", row.lost) };
    add("attempts", Some(format!("{}{lost}; {failed} count{cap}", row.attempts)));
    add("holder", row.holder.clone());
    add("cancel", row.cancel_asked.then(|| "its holder was asked to stop".to_owned()));
    add("unique", row.unique.clone());
    add("headers", row.headers.clone());
    add("error", row.last_error.clone());
    if let Some(checkpoint) = &row.checkpoint {
        let text = glimpse(checkpoint, GLIMPSE_CHARS);
        lines.push(field("checkpoint", &format!("{} bytes: {text}", checkpoint.len())));
    }
    let payload = glimpse(&row.payload, GLIMPSE_CHARS);
    lines.push(field("payload", &format!("{} bytes: {payload}", row.payload.len())));
    lines.join("\n")
}

fn field(name: &str, value: &str) -> String {
    format!("{name:<11} {value}")
}

fn standing(job: &Explained) -> String {
    let state = &job.record.state;
    match job.standing {
        Standing::Waiting { ahead: 0 } => format!("{state}: it is the next of its lane"),
        Standing::Waiting { ahead } => format!("{state}: {ahead} of its lane come before it"),
        Standing::Held { left } if left.is_zero() => {
            format!("{state}: its lease is over, and the next beat of a worker takes it back")
        }
        Standing::Held { left } => format!("{state}: its lease ends in {}", span(left)),
        Standing::Due { left } if left.is_zero() => {
            format!("{state}: it is due, and the next beat of a worker moves it")
        }
        Standing::Due { left } => format!("{state}: it is due in {}", span(left)),
        Standing::Dead => format!("{state}: it lies in the morgue until it is requeued or purged"),
        _ => format!("{state}: the set of that state doesn't have it; run emq doctor"),
    }
}
