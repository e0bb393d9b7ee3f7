//! `emq browse`: jobs of a queue.

use emq_core::{JobRecord, Queue, Timed};
use emq_keys::BrandedId;
use serde::Serialize;

use crate::connect::Globals;
use crate::exit::Failure;
use crate::job_view::{JobView, minted};
use crate::output::{Grid, Out, Tone, glimpse, span};
use crate::values::WhichLane;

/// How many characters of a payload a table has.
const GLIMPSE_CHARS: usize = 60;

/// What `emq browse` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    /// Which jobs: those that wait newest first, those in flight by the end of their lease, those
    /// scheduled by when they are due
    #[arg(long, short, default_value = "waiting")]
    state: Which,

    #[command(flatten)]
    lane: WhichLane,

    /// How many
    #[arg(short = 'n', long = "number", value_name = "N", default_value_t = 20)]
    number: usize,
}

/// Which jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    Waiting,
    InFlight,
    Scheduled,
}

/// A job that stands at a time, for scripts.
#[derive(Debug, Serialize)]
struct TimedView<'a> {
    id: BrandedId,
    minted: String,
    left_ms: u64,
    attempts: u64,
    holder: Option<&'a str>,
    worker: Option<&'a str>,
    lane: Option<BrandedId>,
    kind: Option<&'a str>,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    if args.lane.id().is_some() && args.state != Which::Waiting {
        return Err(Failure::usage("a lane has only jobs that wait: leave --state out"));
    }
    let queue = globals.known_queue(&args.queue).await?;
    let out = globals.out();
    match args.state {
        Which::Waiting => waiting(out, &queue, &args).await,
        Which::InFlight => timed(out, "LEASE ENDS IN", &queue.leased(args.number).await?),
        Which::Scheduled => timed(out, "DUE IN", &queue.scheduled(args.number).await?),
    }
}

async fn waiting(out: Out, queue: &Queue, args: &Args) -> Result<(), Failure> {
    let ids = match args.lane.of(queue) {
        Some(lane) => lane.browse(args.number).await?,
        None => queue.browse(args.number).await?,
    };
    // What was claimed and completed meanwhile is left out.
    let jobs: Vec<JobRecord> = queue.get_many(&ids).await?.into_iter().flatten().collect();
    if out.json() {
        let name = queue.name().as_str();
        return out.value(&jobs.iter().map(|job| JobView::new(name, job)).collect::<Vec<_>>());
    }
    if jobs.is_empty() {
        let flat = if args.lane.id().is_some() { "in that lane" } else { "outside of lanes" };
        return out.line(format!("nothing waits {flat}"));
    }
    let mut grid = Grid::new(&["JOB", "MINTED", ">ATTEMPTS", "KIND", "PAYLOAD"]);
    for job in &jobs {
        grid.row([
            (job.id.to_string(), Tone::Plain),
            (minted(job.id), Tone::Quiet),
            (job.attempts.to_string(), Tone::Plain),
            (job.kind.clone().unwrap_or_else(|| "-".to_owned()), Tone::Plain),
            (glimpse(&job.payload, GLIMPSE_CHARS), Tone::Plain),
        ]);
    }
    out.grid(&grid)
}

fn timed(out: Out, when: &'static str, jobs: &[Timed]) -> Result<(), Failure> {
    if out.json() {
        return out.value(&jobs.iter().map(view).collect::<Vec<_>>());
    }
    if jobs.is_empty() {
        return out.line("there is none");
    }
    let mut grid = Grid::new(&["JOB", when, ">ATTEMPTS", "LANE", "KIND", "HOLDER"]);
    let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
    for job in jobs {
        let lane = job.lane.map(|lane| lane.to_string());
        let late = if job.left.is_zero() { Tone::Warn } else { Tone::Plain };
        grid.row([
            (job.id.to_string(), Tone::Plain),
            (span(job.left), late),
            (job.attempts.to_string(), Tone::Plain),
            (or_none(lane.as_deref()), Tone::Plain),
            (or_none(job.kind.as_deref()), Tone::Plain),
            (or_none(job.holder.as_deref()), Tone::Quiet),
        ]);
    }
    out.grid(&grid)
}

fn view(job: &Timed) -> TimedView<'_> {
    TimedView {
        id: job.id,
        minted: minted(job.id),
        left_ms: u64::try_from(job.left.as_millis()).unwrap_or(u64::MAX),
        attempts: job.attempts,
        holder: job.holder.as_deref(),
        worker: job.worker(),
        lane: job.lane,
        kind: job.kind.as_deref(),
    }
}
