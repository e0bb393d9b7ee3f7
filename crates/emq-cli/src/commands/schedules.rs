//! `emq schedules`: jobs that recur.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use emq_core::{
    Enqueued, Error, Missed, Put, QueueSchedules, Removed, Schedule, ScheduleError, ScheduleRecord,
    Switched, Timing,
};
use serde::Serialize;

use super::limit::said;
use crate::connect::Globals;
use crate::exit::{Exit, Failure, chain};
use crate::output::{Grid, Tone, moment};
use crate::signals::Stops;
use crate::values::{self, WhichLane};

/// What `emq schedules` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// What can be done with schedules.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List schedules and their next ticks
    List(List),
    /// Put a schedule: a new one, or another definition for one of this name
    Add(Box<Add>),
    /// Stop the ticks of a schedule until it is resumed
    Pause(Named),
    /// Resume a schedule at its first tick from now
    Resume(Named),
    /// Enqueue a job of a schedule now, beside its ticks
    RunNow(Named),
    /// Delete a schedule; jobs that its ticks admitted stay
    Remove(Named),
    /// Admit the jobs of all ticks, until SIGTERM or SIGINT; any number of these may run
    Run(Run),
}

#[derive(Debug, clap::Args)]
struct List {
    /// Only these queues; all of the server unless said
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct Named {
    /// The queue
    queue: String,

    /// The schedule
    name: String,
}

#[derive(Debug, clap::Args)]
struct Run {
    /// The queues
    #[arg(value_name = "QUEUE", required = true)]
    queues: Vec<String>,

    /// How often to look for changed definitions
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "5s")]
    beat: Duration,
}

#[derive(Debug, clap::Args)]
struct Add {
    #[command(flatten)]
    named: Named,

    /// The payload of its jobs, JSON unless --raw is said; empty unless given
    payload: Option<String>,

    /// Tick at fixed intervals, such as 90s
    #[arg(long, value_name = "TIME", value_parser = values::duration, group = "timing")]
    every: Option<Duration>,

    /// Tick by so much later than the multiples of the interval
    #[arg(long, value_name = "TIME", value_parser = values::duration, requires = "every")]
    offset: Option<Duration>,

    /// Tick where a cron expression holds: minute, hour, day of the month, month, day of the week
    #[arg(long, value_name = "EXPRESSION", group = "timing", requires = "zone")]
    cron: Option<String>,

    /// The time zone of the expression, such as Europe/Berlin or UTC
    #[arg(long, value_name = "ZONE", requires = "cron")]
    zone: Option<String>,

    /// Which ticks have a job that no scheduler was there to admit
    #[arg(long, value_name = "WHICH", default_value = "last")]
    missed: Made,

    /// How late a tick may be and not be missed, with --missed none
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    tolerance: Option<Duration>,

    #[command(flatten)]
    lane: WhichLane,

    /// The name of the handler
    #[arg(long, short, value_name = "KIND")]
    kind: Option<String>,

    /// A key that at most one job of the queue holds: while one does, ticks have no job
    #[arg(long, value_name = "KEY")]
    unique: Option<String>,

    /// Trace context and the like, a JSON object
    #[arg(long, value_name = "JSON")]
    headers: Option<String>,

    /// How many attempts each job has
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,

    /// Take the payload as it is
    #[arg(long)]
    raw: bool,
}

/// Which missed ticks are made up.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Made {
    /// None
    None,
    /// The last one
    Last,
    /// Each of them, the oldest first
    All,
}

/// One schedule.
#[derive(Debug, Serialize)]
struct Row {
    queue: String,
    name: String,
    timing: String,
    missed: Option<Missed>,
    kind: Option<String>,
    lane: Option<emq_keys::BrandedId>,
    next: Option<String>,
    last: Option<String>,
    paused: bool,
    error: Option<String>,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    match args.verb {
        Verb::List(list) => all(globals, &list).await,
        Verb::Add(add) => put(globals, &add).await,
        Verb::Pause(named) => {
            let switched = table(globals, &named.queue).await?.pause(&named.name).await;
            tell(globals, &named, "paused", switched.map_err(failure)?)
        }
        Verb::Resume(named) => {
            let switched = table(globals, &named.queue).await?.resume(&named.name).await;
            tell(globals, &named, "resumed", switched.map_err(failure)?)
        }
        Verb::RunNow(named) => run_now(globals, &named).await,
        Verb::Remove(named) => remove(globals, &named).await,
        Verb::Run(run) => schedule(globals, &run).await,
    }
}

async fn table(globals: &Globals, queue: &str) -> Result<QueueSchedules, Failure> {
    let queue = globals.queue(queue).await?;
    Ok(queue.bus().schedules().queue(queue.name().as_str())?)
}

async fn all(globals: &Globals, list: &List) -> Result<(), Failure> {
    let bus = globals.connect().await?;
    let mut queues = list.queues.clone();
    if queues.is_empty() {
        queues = bus.queues().collect().await?.iter().map(ToString::to_string).collect();
    }
    let mut rows = Vec::new();
    for queue in queues {
        let records = bus.schedules().queue(&queue)?.list().await?;
        rows.extend(records.into_iter().map(|record| row(&queue, record)));
    }
    let out = globals.out();
    if out.json() {
        return out.value(&rows);
    }
    if rows.is_empty() {
        return out.line("no schedules");
    }
    let mut grid = Grid::new(&["QUEUE", "NAME", "TIMING", "MISSED", "NEXT", "LAST", "STATE"]);
    for row in rows {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let state = match (&row.error, row.paused, &row.next) {
            (Some(_), ..) => ("not understood", Tone::Bad),
            (None, true, _) => ("paused", Tone::Warn),
            (None, false, None) => ("over", Tone::Quiet),
            (None, false, Some(_)) => ("ticking", Tone::Good),
        };
        grid.row([
            (row.queue, Tone::Plain),
            (row.name, Tone::Plain),
            (row.timing, Tone::Plain),
            (row.missed.map_or("-", word).to_owned(), Tone::Plain),
            (or_none(row.next), Tone::Plain),
            (or_none(row.last), Tone::Quiet),
            (state.0.to_owned(), state.1),
        ]);
    }
    out.grid(&grid)
}

fn row(queue: &str, record: ScheduleRecord) -> Row {
    let at = |ms: Option<u64>| ms.map(|ms| moment(time(ms)));
    let schedule = record.schedule.as_ref().ok();
    Row {
        queue: queue.to_owned(),
        missed: schedule.map(Schedule::missed_ticks),
        kind: schedule.and_then(|it| it.job_kind()).map(str::to_owned),
        lane: schedule.and_then(Schedule::job_lane),
        error: record.schedule.as_ref().err().map(|error| chain(error)),
        next: at(record.next_ms),
        last: at(record.last_ms),
        name: record.name,
        timing: record.timing,
        paused: record.paused,
    }
}

async fn put(globals: &Globals, add: &Add) -> Result<(), Failure> {
    let schedule = definition(add)?;
    let table = table(globals, &add.named.queue).await?;
    let outcome = table.put(&schedule).await.map_err(failure)?;
    let next = table.get(schedule.name()).await?.and_then(|record| record.next_ms);
    let next = next.map(|ms| moment(time(ms)));
    let (queue, name) = (&add.named.queue, &add.named.name);
    let (word, line) = match outcome {
        Put::Added => ("added", format!("{name} of {queue} is new")),
        Put::Changed => ("changed", format!("{name} of {queue} is changed")),
        Put::Same => ("same", format!("{name} of {queue} was so already")),
    };
    let value =
        serde_json::json!({ "queue": queue, "schedule": name, "outcome": word, "next": next });
    globals.out().tell(&value, || match &next {
        Some(next) => format!("{line}; its next tick is at {next}"),
        None => line,
    })
}

fn definition(add: &Add) -> Result<Schedule, Failure> {
    let usage = |error: &dyn std::error::Error| Failure::usage(chain(error));
    let timing = match (add.every, &add.cron) {
        (Some(interval), _) => Timing::every(interval)
            .and_then(|timing| timing.offset(add.offset.unwrap_or_default()))
            .map_err(|error| usage(&error))?,
        (None, Some(expression)) => {
            let zone = add.zone.as_deref().unwrap_or("UTC");
            Timing::cron(expression, zone).map_err(|error| usage(&error))?
        }
        (None, None) => {
            return Err(Failure::usage("say when it ticks: --every TIME, or --cron and --zone"));
        }
    };
    let mut schedule = Schedule::new(&add.named.name, timing).map_err(|error| usage(&error))?;
    if let Some(payload) = &add.payload {
        if !add.raw && serde_json::from_str::<serde::de::IgnoredAny>(payload).is_err() {
            return Err(Failure::usage("the payload is no JSON; --raw sends it as it is"));
        }
        schedule = schedule.payload(payload.clone());
    }
    schedule = schedule.missed(match add.missed {
        Made::None => Missed::None,
        Made::Last => Missed::Last,
        Made::All => Missed::All,
    });
    if let Some(tolerance) = add.tolerance {
        schedule = schedule.tolerance(tolerance);
    }
    if let Some(lane) = add.lane.id() {
        schedule = schedule.lane(lane);
    }
    if let Some(kind) = &add.kind {
        schedule = schedule.kind(kind);
    }
    if let Some(key) = &add.unique {
        schedule = schedule.unique(key);
    }
    if let Some(headers) = &add.headers {
        schedule = schedule.headers(headers);
    }
    if let Some(attempts) = add.max_attempts {
        schedule = schedule.max_attempts(attempts);
    }
    Ok(schedule)
}

async fn run_now(globals: &Globals, named: &Named) -> Result<(), Failure> {
    let outcome = table(globals, &named.queue).await?.run_now(&named.name).await;
    let (queue, name) = (&named.queue, &named.name);
    let (id, word) = match outcome.map_err(failure)? {
        Enqueued::Held { by } => (by, "held"),
        other => (other.id(), "enqueued"),
    };
    let value = serde_json::json!({ "queue": queue, "schedule": name, "id": id, "outcome": word });
    globals.out().tell(&value, || match word {
        "held" => format!("{id} holds the unique key of {name}, so there is no other job"),
        _ => id.to_string(),
    })
}

async fn remove(globals: &Globals, named: &Named) -> Result<(), Failure> {
    let removed = table(globals, &named.queue).await?.remove(&named.name).await.map_err(failure)?;
    let (queue, name) = (&named.queue, &named.name);
    if removed == Removed::NoRow {
        return Err(failure(ScheduleError::Unknown { name: name.clone() }.into()));
    }
    let value = serde_json::json!({ "queue": queue, "schedule": name, "outcome": "removed" });
    globals.out().tell(&value, || format!("{name} of {queue} is removed"))
}

async fn schedule(globals: &Globals, run: &Run) -> Result<(), Failure> {
    let bus = globals.connect().await?;
    let scheduler = bus.schedules().scheduler(&run.queues)?.beat(run.beat);
    let mut stops = Stops::new()?;
    let stop = async {
        stops.next().await;
    };
    let totals = scheduler.run(stop).await?;
    bus.close().await;
    let value = serde_json::json!({
        "admitted": totals.admitted,
        "passed": totals.passed,
        "duplicate": totals.duplicate,
        "held": totals.held,
        "elsewhere": totals.elsewhere,
    });
    globals.out().tell(&value, || {
        format!("{} ticks admitted, {} decided elsewhere", totals.admitted, totals.elsewhere)
    })
}

fn tell(globals: &Globals, named: &Named, state: &str, switched: Switched) -> Result<(), Failure> {
    let (queue, name) = (&named.queue, &named.name);
    let value = serde_json::json!({
        "queue": queue,
        "schedule": name,
        "paused": state == "paused",
        "changed": switched == Switched::Changed,
    });
    globals.out().tell(&value, || said(&format!("{name} of {queue} is {state}"), switched))
}

/// Errors that are about schedules have exit codes as others have.
fn failure(error: Error) -> Failure {
    let Error::Schedule(reason) = &error else { return error.into() };
    let exit = match reason {
        ScheduleError::Unknown { .. } => Exit::NotFound,
        ScheduleError::Name { .. } | ScheduleError::Timing(_) | ScheduleError::Over { .. } => {
            Exit::Usage
        }
        ScheduleError::Clash { .. } | ScheduleError::Full => Exit::State,
        _ => Exit::Failed,
    };
    Failure::new(exit, chain(reason))
}

fn time(unix_ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(unix_ms)
}

fn word(missed: Missed) -> &'static str {
    match missed {
        Missed::None => "none",
        Missed::Last => "last",
        Missed::All => "all",
    }
}
