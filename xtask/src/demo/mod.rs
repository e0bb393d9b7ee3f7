//! `cargo xtask demo`: the desk's fills, admitted, worked, lost, found again and accounted for.

mod chaos;
mod floor;
mod input;
mod ledger;
mod progress;
mod report;
mod tenants;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use emq_core::{Bus, EnqueueOptions, NewJob, Queue, Verdict};
use emq_keys::BrandedId;
use emq_testkit::{Fsync, Postgres, Valkey};

use self::floor::Floor;
use self::input::Feed;
use self::ledger::Ledger;
use self::report::{Account, Report};
use crate::books::{Backing, Fill, Shelf};
use crate::{Failure, Outcome, sh};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A feed of fills, one JSON object a line; - is standard input
    #[arg(long, default_value = "examples/desk/fills.jsonl")]
    input: PathBuf,
    /// Use this server instead of a throw-away one
    #[arg(long)]
    url: Option<String>,
    /// Workers, each with a connection of its own; the first one is killed on the way
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(2..=64))]
    workers: u16,
    /// Handlers at once in each worker
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// Kill the server with -9 in the middle and start it again
    #[arg(long, conflicts_with = "url")]
    chaos: bool,
    /// What the throw-away server keeps on disk [default: none; with --chaos: always]
    #[arg(long, value_enum, conflicts_with = "url")]
    persistence: Option<Persistence>,
    /// What keeps the books; a file or database of its own, gone afterwards
    #[arg(long, value_enum, default_value = "sqlite")]
    store: Backing,
}

/// What survives a kill of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Persistence {
    /// Nothing: a volatile server
    None,
    /// All but about the last second
    Everysec,
    /// Every acknowledged write
    Always,
}

impl Args {
    fn persistence(&self) -> Persistence {
        let default = if self.chaos { Persistence::Always } else { Persistence::None };
        self.persistence.unwrap_or(default)
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let feed = read_feed(args)?;
    if args.url.is_none() {
        crate::valkey::ensure()?;
    }
    if args.store == Backing::Postgres {
        crate::postgres::ensure()?;
    }
    // The feed's handlers panic on purpose now and then; the table counts them.
    std::panic::set_hook(Box::new(|panic| {
        let elsewhere = panic.location().is_none_or(|place| !place.file().contains("demo"));
        if elsewhere {
            eprintln!("{panic}");
        }
    }));
    tokio::runtime::Runtime::new()?.block_on(work(args, feed))
}

fn read_feed(args: &Args) -> Result<Feed, Failure> {
    let complain = |words: String| eprintln!("{}: {words}", args.input.display());
    if args.input.as_os_str() == "-" {
        return Feed::read(io::stdin().lock(), complain);
    }
    // A path as typed, or the committed feed from wherever the command runs.
    let path = if args.input.exists() { args.input.clone() } else { sh::root().join(&args.input) };
    let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Feed::read(file, complain)
}

fn start_server(args: &Args) -> Result<Option<Valkey>, Failure> {
    if args.url.is_some() {
        return Ok(None);
    }
    let builder = Valkey::builder();
    let builder = match args.persistence() {
        Persistence::None => builder,
        Persistence::Everysec => builder.append_only(Fsync::EverySec),
        Persistence::Always => builder.append_only(Fsync::Always),
    };
    Ok(Some(builder.start()?))
}

async fn work(args: &Args, feed: Feed) -> Outcome {
    let server = start_server(args)?;
    let url = match (&server, &args.url) {
        (Some(valkey), _) => valkey.url(),
        (None, Some(url)) => url.clone(),
        (None, None) => return Err("neither a server nor a URL".into()),
    };
    let bus = Bus::connect(&url).await?;
    let queue = bus.queue(format!("demo-{}", bus.mint_job().await?))?;
    println!("{} on queue {}", bus.engine(), queue.name());

    let started = Instant::now();
    let (admitted, duplicates) = admit(&queue, &feed).await?;
    let enqueue_took = started.elapsed();
    println!(
        "{} lines: {} jobs admitted, {duplicates} duplicates, {} bad, in {} ms",
        feed.lines,
        admitted.len(),
        feed.bad,
        enqueue_took.as_millis()
    );

    let ledger = Arc::new(Ledger::default());
    let postgres = match args.store {
        Backing::Postgres => Some(Postgres::start_or_shared()?),
        Backing::Memory | Backing::Sqlite => None,
    };
    let shelf = Shelf::open(args.store, postgres.as_ref()).await?;
    let floor = Floor::open(&url, queue.name().as_str(), args, &shelf, &ledger).await?;
    let worked = Instant::now();
    let chaos = args.chaos.then_some(args.persistence());
    let restarts =
        progress::watch(&queue, &floor, &ledger, admitted.len(), chaos, server.as_ref()).await?;
    let work_took = worked.elapsed();
    let owners = floor.close().await?;

    let account = shelf.with_rows(Account::close(&queue, &admitted, &shelf.books)).await?;
    let report = Report {
        lines: feed.lines,
        bad: feed.bad,
        duplicates,
        admitted: admitted.len(),
        owners,
        restarts,
        store: shelf.word(),
        work_took,
        account,
    };
    report.print(&ledger);
    if args.url.is_some() {
        tidy_up(&queue).await?;
    }
    bus.close().await;
    // On a server of the caller's own, or after chaos, one act is enough.
    if args.url.is_none() && !args.chaos {
        tenants::play(&url).await?;
    }
    let may_lose = args.chaos && args.persistence() != Persistence::Always;
    report.print_audit();
    report.prove(may_lose)
}

/// Admits the whole feed, each portfolio's fills into its lane. Sending it again after an error is safe: a name is admitted once.
async fn admit(queue: &Queue, feed: &Feed) -> Result<(HashMap<BrandedId, Fill>, usize), Failure> {
    let mut jobs = Vec::with_capacity(feed.jobs.len());
    for (id, fill) in &feed.jobs {
        let payload = serde_json::to_vec(fill)?;
        let job = NewJob::new(*id, payload).with(EnqueueOptions::new().kind("fill"));
        jobs.push(job.lane(fill.portfolio));
    }
    let verdicts = queue.enqueue_many(&jobs).await?;
    let mut admitted = HashMap::new();
    let mut duplicates = 0;
    for (verdict, (id, fill)) in verdicts.iter().zip(&feed.jobs) {
        match verdict {
            Verdict::Admitted(_) => drop(admitted.insert(*id, fill.clone())),
            Verdict::Duplicate(_) => duplicates += 1,
            other => return Err(format!("{id}: {other:?}").into()),
        }
    }
    Ok((admitted, duplicates))
}

/// Leaves the caller's own server as it was: the queue's keys go.
async fn tidy_up(queue: &Queue) -> Outcome {
    queue.morgue().purge().await?;
    let facts = [queue.keys().wake(), queue.keys().meta(), queue.keys().unique()];
    let mut del = emq_wire::Cmd::new("DEL");
    facts.iter().for_each(|key| del.push(key));
    queue.bus().fenced().connection().command(del).await?;
    Ok(())
}
