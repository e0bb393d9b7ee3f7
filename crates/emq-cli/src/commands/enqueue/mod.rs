//! `emq enqueue`: a payload, or each line of standard input.

mod lines;
mod send;
mod stream;

use std::io::IsTerminal;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use emq_core::{Durability, EnqueueOptions, NewJob, Queue, Verdict};
use emq_keys::BrandedId;

use crate::connect::Globals;
use crate::exit::{Exit, Failure};
use crate::output::Out;
use crate::values::{self, WhichLane};

/// What `emq enqueue` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    /// The payload, JSON unless --raw is said; - or nothing for standard input, each line of which
    /// is a payload
    #[arg(value_name = "PAYLOAD|-")]
    payload: Option<String>,

    #[command(flatten)]
    lane: WhichLane,

    /// Run after a delay
    #[arg(long = "in", value_name = "TIME", value_parser = values::duration, conflicts_with = "at")]
    delay: Option<Duration>,

    /// Run at a time, such as 2026-12-01T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    at: Option<SystemTime>,

    /// The name of the handler
    #[arg(long, short, value_name = "KIND")]
    kind: Option<String>,

    /// A key that at most one job of the queue holds
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,

    /// Trace context and the like, a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    headers: Option<String>,

    /// How many attempts it has
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,

    /// Its id, minted elsewhere: enqueueing it again changes nothing
    #[arg(long, value_name = "ID", value_parser = values::job)]
    id: Option<BrandedId>,

    /// Acknowledge only what the server has on disk
    #[arg(long)]
    durable: bool,

    /// Take payloads as they are, whatever their bytes
    #[arg(long)]
    raw: bool,

    /// Tell of each line what became of it
    #[arg(long, short)]
    verdicts: bool,
}

fn object(text: &str) -> Result<String, String> {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("not a JSON object: {error}")),
    }
}

/// What is said of every job.
struct Recipe {
    options: EnqueueOptions,
    lane: Option<BrandedId>,
    durability: Durability,
}

impl Recipe {
    fn job(&self, id: BrandedId, payload: Bytes) -> NewJob {
        let job = NewJob::new(id, payload).with(self.options.clone());
        match self.lane {
            Some(lane) => job.lane(lane),
            None => job,
        }
    }
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let recipe = recipe(&args);
    let out = globals.out();
    match args.payload.as_deref() {
        None if std::io::stdin().is_terminal() => {
            Err(Failure::usage("give a payload, or pipe lines into it"))
        }
        None | Some("-") => {
            if args.unique.is_some() || args.id.is_some() {
                return Err(Failure::usage("--unique and --id are of one job: give its payload"));
            }
            let queue = globals.queue(&args.queue).await?;
            stream::run(out, &queue, &recipe, args.raw, args.verdicts).await
        }
        Some(payload) => {
            let payload = payload.as_bytes();
            lines::check(payload, args.raw).map_err(|bad| {
                Failure::usage(format!("the payload is {bad}; --raw sends it as it is"))
            })?;
            let queue = globals.queue(&args.queue).await?;
            let payload = Bytes::copy_from_slice(payload);
            one(out, &queue, &recipe, args.id, payload).await
        }
    }
}

fn recipe(args: &Args) -> Recipe {
    let mut options = EnqueueOptions::new();
    if let Some(kind) = &args.kind {
        options = options.kind(kind);
    }
    if let Some(headers) = &args.headers {
        options = options.headers(headers);
    }
    if let Some(attempts) = args.max_attempts {
        options = options.max_attempts(attempts);
    }
    if let Some(key) = &args.unique {
        options = options.unique(key);
    }
    if let Some(delay) = args.delay {
        options = options.delay(delay);
    }
    if let Some(time) = args.at {
        options = options.at(time);
    }
    let durability = if args.durable { Durability::Fsynced } else { Durability::Volatile };
    Recipe { options, lane: args.lane.id(), durability }
}

async fn one(
    out: Out,
    queue: &Queue,
    recipe: &Recipe,
    id: Option<BrandedId>,
    payload: Bytes,
) -> Result<(), Failure> {
    let given = id.is_some();
    let id = match id {
        Some(id) => id,
        None => queue.bus().mint_job().await?,
    };
    let job = recipe.job(id, payload);
    let verdicts = send::patiently(queue, &[job], recipe.durability).await;
    let verdicts = verdicts.map_err(|error| Failure::from(error.cause))?;
    let Some(verdict) = verdicts.first() else {
        return Err(Failure::failed("the server answered no verdict"));
    };
    let (said, text, holder) = match *verdict {
        // An id of our own that is there already came with a send whose answer was lost.
        Verdict::Duplicate(_) if given => ("duplicate", format!("{id} is there already"), None),
        Verdict::Admitted(_) | Verdict::Duplicate(_) => ("admitted", id.to_string(), None),
        Verdict::Held { by, .. } => ("held", format!("{by} holds the unique key"), Some(by)),
        Verdict::Unconfirmed(_) => ("unconfirmed", format!("{id} is not confirmed"), None),
        Verdict::Kind(_) => return Err(Failure::usage(format!("{id} is no job's id"))),
    };
    let value = serde_json::json!({ "id": holder.unwrap_or(id), "verdict": said });
    out.tell(&value, || text)?;
    match verdict {
        Verdict::Unconfirmed(_) => Err(Failure::new(
            Exit::Partial,
            format!(
                "{id} is enqueued, and the server hasn't confirmed it as durable: send it again with --id {id}"
            ),
        )),
        _ => Ok(()),
    }
}
