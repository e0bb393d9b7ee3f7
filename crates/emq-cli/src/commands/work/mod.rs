//! `emq work`: works a queue with a command, one process a job.

mod group;
mod runner;
mod stderr;

use std::ffi::OsString;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;

use emq_core::{Phase, Queue, StopReport, Worker};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::runner::{Environment, Runner};
use crate::connect::Globals;
use crate::exit::Failure;
use crate::signals::{Stop, Stops};
use crate::values;

/// How often a parked worker looks whether anything is left at all.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long handing back may take when it is stopped at once.
const AT_ONCE: Duration = Duration::from_secs(3);
/// What a handler's own end takes at most after its process was killed.
const AFTER_KILL: Duration = Duration::from_secs(1);

/// What `emq work` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    /// How many processes run at once
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    concurrency: usize,

    /// How long a process may run; for ever unless said
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<Duration>,

    /// How long a process may take to end after SIGTERM, before SIGKILL
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "5s")]
    kill_after: Duration,

    /// How long running processes may go on once this command was told to stop
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "30s")]
    grace: Duration,

    /// How long a job is held before another worker may have it; it is extended while its process
    /// runs
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "30s")]
    lease: Duration,

    /// How many attempts a job has that says nothing itself
    #[arg(long, value_name = "N", default_value_t = 25)]
    max_attempts: u32,

    /// How long a job waits whose process ended with 75
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "30s")]
    retry_after: Duration,

    /// How long a failed job waits: the first time; it doubles with each attempt, up to an hour
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "1s")]
    backoff: Duration,

    /// End when nothing waits, runs or is scheduled any more
    #[arg(long)]
    until_empty: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What was done, for scripts.
#[derive(Debug, Serialize)]
struct Summary {
    done: u64,
    retried: u64,
    dead: u64,
    cancelled: u64,
    lost: u64,
    handed_back: u64,
    left_to_their_lease: u64,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let mut stops = Stops::new()?;
    let queue = globals.queue(&args.queue).await?;
    let now = CancellationToken::new();
    let (trouble, mut troubles) = mpsc::channel(1);
    let worker = start(globals, &args, &queue, now.clone(), trouble)?;
    if !globals.json {
        let said = format!(
            "emq: working {}, {} at a time, as {}; SIGINT or SIGTERM drains\n",
            queue.name(),
            args.concurrency,
            worker.incarnation()
        );
        // Nobody may read it.
        let _ = std::io::stderr().write_all(said.as_bytes());
    }
    let ended = until_told(&worker, &queue, &mut stops, &mut troubles, args.until_empty).await;
    let failed = worker.error();
    let (report, cut) = drain(worker, args.grace, &mut stops, &now).await;
    tell(globals, &report)?;
    ended?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    match cut {
        None => Ok(()),
        Some(stop) => Err(Failure::new(
            stop.exit(),
            format!(
                "stopped at once: {} jobs were handed back, {} are left to the end of their lease",
                report.released, report.abandoned
            ),
        )),
    }
}

fn start(
    globals: &Globals,
    args: &Args,
    queue: &Queue,
    now: CancellationToken,
    trouble: mpsc::Sender<Failure>,
) -> Result<Worker, Failure> {
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::usage("name a command behind --"));
    };
    let runner = Runner {
        program: program.clone(),
        args: rest.to_vec(),
        environment: Environment {
            url: globals.url()?.to_owned(),
            queue: queue.name().to_string(),
        },
        kill_after: args.kill_after,
        retry_after: args.retry_after,
        out: globals.out(),
        now,
        trouble,
    };
    let mut builder = Worker::builder(queue)
        .concurrency(args.concurrency)
        .lease(args.lease)
        .max_attempts(args.max_attempts)
        .backoff(emq_core::Backoff::exponential(args.backoff).equal_jitter())
        .cancel_grace(args.kill_after.saturating_add(AFTER_KILL));
    if let Some(timeout) = args.timeout {
        builder = builder.timeout(timeout);
    }
    Ok(builder.handler(runner).start()?)
}

/// Works until a signal, until nothing is left, or until it can't go on.
async fn until_told(
    worker: &Worker,
    queue: &Queue,
    stops: &mut Stops,
    troubles: &mut mpsc::Receiver<Failure>,
    until_empty: bool,
) -> Result<(), Failure> {
    let mut status = worker.status();
    loop {
        let phase = status.borrow_and_update().phase;
        if matches!(phase, Phase::Failed | Phase::Stopped) {
            return Ok(());
        }
        let looks = until_empty && phase == Phase::Parked;
        tokio::select! {
            _ = stops.next() => return Ok(()),
            Some(failure) = troubles.recv() => return Err(failure),
            changed = status.changed() => if changed.is_err() { return Ok(()) },
            () = tokio::time::sleep(LOOK_EVERY), if looks => {
                // A server that is out of reach is waited for, as the worker does.
                if let Ok(true) = is_empty(queue).await {
                    return Ok(());
                }
            }
        }
    }
}

/// Whether no job is left that could run by itself.
async fn is_empty(queue: &Queue) -> Result<bool, emq_core::Error> {
    let counts = queue.counts().await?;
    Ok(counts.pending + counts.in_lanes + counts.active + counts.scheduled == 0)
}

/// Lets what runs end. A second signal kills it, and says which it was.
async fn drain(
    worker: Worker,
    grace: Duration,
    stops: &mut Stops,
    now: &CancellationToken,
) -> (StopReport, Option<Stop>) {
    let mut stopping = pin!(worker.stop(grace));
    tokio::select! {
        report = &mut stopping => return (report, None),
        stop = stops.next() => {
            now.cancel();
            if let Ok(report) = tokio::time::timeout(AT_ONCE, &mut stopping).await {
                return (report, Some(stop));
            }
        }
    }
    // It keeps the grace that it was given, and no longer.
    let report = stopping.await;
    (report, Some(Stop::Terminate))
}

fn tell(globals: &Globals, report: &StopReport) -> Result<(), Failure> {
    let totals = report.totals;
    let summary = Summary {
        done: totals.done,
        retried: totals.retried,
        dead: totals.dead,
        cancelled: totals.cancelled,
        lost: totals.lost + totals.stale,
        handed_back: totals.released,
        left_to_their_lease: totals.abandoned + report.abandoned,
    };
    globals.out().tell(&summary, || {
        let mut said = format!("{} done", summary.done);
        for (n, what) in [
            (summary.retried, "to be tried again"),
            (summary.dead, "dead"),
            (summary.cancelled, "cancelled"),
            (summary.lost, "lost to another worker"),
            (summary.handed_back, "handed back"),
            (summary.left_to_their_lease, "left to the end of their lease"),
        ] {
            if n > 0 {
                said.push_str(&format!(", {n} {what}"));
            }
        }
        said
    })
}
