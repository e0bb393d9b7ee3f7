//! `emq morgue`: dead letters, looked at, requeued or purged.

use std::time::Duration;

use emq_core::{JobRecord, Queue, Requeued};
use emq_keys::BrandedId;

use super::cancel::gone;
use super::named::{Outcome, each};
use crate::confirm::Consent;
use crate::connect::Globals;
use crate::exit::Failure;
use crate::job_view::{JobView, minted};
use crate::output::{Grid, Out, Tone, glimpse, span};
use crate::values;

/// How many characters of an error a table has.
const ERROR_CHARS: usize = 80;

/// What `emq morgue` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    /// How many to list, newest first
    #[arg(short = 'n', long = "number", value_name = "N", default_value_t = 20)]
    number: usize,

    /// Give this dead letter another life; may be said several times
    #[arg(long, value_name = "ID", value_parser = values::job, group = "act")]
    requeue: Vec<BrandedId>,

    /// Give all dead letters another life
    #[arg(long, group = "act")]
    requeue_all: bool,

    /// Delete the dead letters that were minted longer ago than this
    #[arg(long, value_name = "TIME", value_parser = values::duration, group = "act")]
    purge_older: Option<Duration>,

    /// Delete all dead letters
    #[arg(long, group = "act")]
    purge_all: bool,

    #[command(flatten)]
    consent: Consent,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let queue = globals.known_queue(&args.queue).await?;
    let out = globals.out();
    if !args.requeue.is_empty() {
        return requeue(out, &queue, &args.requeue).await;
    }
    if args.requeue_all {
        return requeue_all(out, &queue).await;
    }
    if args.purge_all || args.purge_older.is_some() {
        return purge(out, &queue, &args).await;
    }
    list(out, &queue, args.number).await
}

async fn list(out: Out, queue: &Queue, number: usize) -> Result<(), Failure> {
    let morgue = queue.morgue();
    let dead = morgue.browse(number).await?;
    let name = queue.name().as_str();
    if out.json() {
        return out.value(&dead.iter().map(|job| JobView::new(name, job)).collect::<Vec<_>>());
    }
    if dead.is_empty() {
        return out.line(format!("the morgue of {name} is empty"));
    }
    out.grid(&grid(&dead))?;
    let all = morgue.depth().await?;
    let shown = u64::try_from(dead.len()).unwrap_or(u64::MAX);
    if all > shown {
        out.line(format!("and {} more", all - shown))?;
    }
    Ok(())
}

fn grid(dead: &[JobRecord]) -> Grid {
    let mut grid = Grid::new(&["JOB", "MINTED", ">ATTEMPTS", "KIND", "ERROR"]);
    for job in dead {
        let error = job.last_error.as_deref().unwrap_or("-");
        grid.row([
            (job.id.to_string(), Tone::Plain),
            (minted(job.id), Tone::Quiet),
            (job.attempts.to_string(), Tone::Plain),
            (job.kind.clone().unwrap_or_else(|| "-".to_owned()), Tone::Plain),
            (glimpse(error.as_bytes(), ERROR_CHARS), Tone::Bad),
        ]);
    }
    grid
}

async fn requeue(out: Out, queue: &Queue, ids: &[BrandedId]) -> Result<(), Failure> {
    let name = queue.name();
    each(out, ids, async |id| match queue.morgue().requeue(id).await? {
        Requeued::Done => {
            Ok(Outcome { id, queue: Some(name.to_string()), outcome: "requeued", error: None })
        }
        Requeued::NoRow => Err(gone(id, name.as_str())),
    })
    .await
}

async fn requeue_all(out: Out, queue: &Queue) -> Result<(), Failure> {
    let done = queue.morgue().requeue_all().await?;
    let value = serde_json::json!({ "requeued": done.requeued, "gone": done.gone });
    out.tell(&value, || match done.gone {
        0 => format!("{} requeued", done.requeued),
        gone => format!("{} requeued, {gone} had left meanwhile", done.requeued),
    })
}

async fn purge(out: Out, queue: &Queue, args: &Args) -> Result<(), Failure> {
    let (name, morgue) = (queue.name(), queue.morgue());
    let which = match args.purge_older {
        Some(older) => format!("that were minted more than {} ago", span(older)),
        None => format!("that are there ({})", morgue.depth().await?),
    };
    args.consent.ask(&format!("Delete the dead letters of {name} {which} for good?"))?;
    let deleted = match args.purge_older {
        Some(older) => {
            let now = queue.bus().server_time().await?;
            let before = now.checked_sub(older).unwrap_or(std::time::UNIX_EPOCH);
            morgue.purge_minted_before(before).await?
        }
        None => morgue.purge().await?,
    };
    out.tell(&serde_json::json!({ "purged": deleted }), || format!("{deleted} purged"))
}
