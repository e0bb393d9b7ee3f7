//! `cargo xtask drill kill9`: worker and server killed over a feed; then every position must be the
//! sum of its fills.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use emq_core::{Bus, Queue};
use emq_keys::BrandedId;
use emq_testkit::{Fsync, Postgres, Valkey};
use fastrand::Rng;

use super::child::Process;
use super::feed;
use crate::books::{Backing, Fill, Shelf, audit};
use crate::{Failure, Outcome, with_causes};

/// A drill that doesn't move for this long has failed.
const STALL: Duration = Duration::from_secs(60);
/// How often the queue is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// The longest random wait between a point of the feed and its kill, in microseconds.
const AFTER_MAX_US: u64 = 8_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The store of the books [default: sqlite, then postgres]
    #[arg(long, value_enum)]
    store: Option<Store>,
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(50..=100_000))]
    fills: u32,
    /// How often the worker process is killed
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    kills: u16,
    /// How often the server is killed
    #[arg(long, default_value_t = 2)]
    server_kills: u16,
    /// Repeats a run [default: a new one, printed]
    #[arg(long)]
    seed: Option<u64>,
    /// Move positions without the guard: the drill must fail then
    #[arg(long)]
    sabotage: bool,
}

/// What outlives a process.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    /// The one that is named, or each.
    pub(super) fn backings(named: Option<Store>) -> Vec<Backing> {
        match named {
            Some(Store::Sqlite) => vec![Backing::Sqlite],
            Some(Store::Postgres) => vec![Backing::Postgres],
            None => vec![Backing::Sqlite, Backing::Postgres],
        }
    }
}

/// What one drill saw.
struct Seen {
    store: &'static str,
    declined: u64,
    took: Duration,
    rows: Result<(usize, usize, usize), String>,
    left: Result<(), String>,
}

pub(super) async fn run(args: &Args) -> Outcome {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    println!(
        "seed {seed}: {} fills, {} kills of the worker process, {} of the server (append-only, appendfsync always){}",
        args.fills,
        args.kills,
        args.server_kills,
        if args.sabotage { "; SABOTAGED: positions move without the guard" } else { "" },
    );
    let backings = Store::backings(args.store);
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["store", "took", "declined", "orders, positions, names", "books", "queue"]);
    let mut failed = false;
    for backing in backings {
        let seen = drill(args, seed, backing).await?;
        failed |= seen.rows.is_err() || seen.left.is_err();
        let (rows, books) = match seen.rows {
            Ok((orders, positions, names)) => {
                (format!("{orders}, {positions}, {names}"), "each fill once".to_owned())
            }
            Err(fault) => {
                eprintln!("{}: {fault}", seen.store);
                ("-".to_owned(), "WRONG".to_owned())
            }
        };
        let left = match seen.left {
            Ok(()) => "empty, sound",
            Err(fault) => {
                eprintln!("{}: {fault}", seen.store);
                "WRONG"
            }
        };
        table.add_row([
            seen.store.to_owned(),
            format!("{:.1} s", seen.took.as_secs_f64()),
            seen.declined.to_string(),
            rows,
            books,
            left.to_owned(),
        ]);
    }
    println!("{table}");
    if failed {
        return Err(format!("the drill failed; --seed {seed} repeats it").into());
    }
    println!("every position is the sum of its fills: none lost, none twice");
    Ok(())
}

/// One drill over one store.
async fn drill(args: &Args, seed: u64, backing: Backing) -> Result<Seen, Failure> {
    let server = match backing {
        Backing::Postgres => {
            crate::postgres::ensure()?;
            Some(Postgres::start()?)
        }
        Backing::Memory | Backing::Sqlite => None,
    };
    let valkey = Valkey::builder().append_only(Fsync::Always).start()?;
    let shelf = Shelf::open(backing, server.as_ref()).await?;
    let bus = Bus::connect(&valkey.url()).await?;
    let queue = bus.queue(format!("drill-{}", shelf.word()))?;
    let mut rng = Rng::with_seed(seed);
    let fills = feed::fills(&mut rng, args.fills as usize)?;
    feed::admit(&queue, &fills).await?;

    let begun = Instant::now();
    let place = shelf.place().ok_or("these books end with their process")?;
    let mut arguments: Vec<String> = ["drill", "worker", "--url"].map(str::to_owned).into();
    arguments.extend([valkey.url(), "--queue".into(), queue.name().as_str().into()]);
    arguments.extend(["--books".into(), place.to_string()]);
    if args.sabotage {
        arguments.push("--sabotage".into());
    }
    let declined = Arc::new(AtomicU64::new(0));
    let mut strikes = Strikes::plan(args, &mut rng);
    let mut process = Process::start(&arguments, &declined).await?;
    let mut moved = (usize::MAX, Instant::now());
    loop {
        process.lives()?;
        // While the server is away the question has no answer; it is asked again.
        let left = match queue.counts().await {
            Ok(counts) => usize::try_from(counts.pending + counts.active + counts.scheduled)?,
            Err(error) if error.is_retryable() => continue,
            Err(error) => return Err(error.into()),
        };
        let done = fills.len() - left.min(fills.len());
        match strikes.next(done) {
            Some(strike) => {
                tokio::time::sleep(strike.after).await;
                match strike.at {
                    Target::Worker => {
                        process.kill9()?;
                        process = Process::start(&arguments, &declined).await?;
                    }
                    Target::Server => {
                        valkey.kill9()?;
                        valkey.start_again()?;
                    }
                }
            }
            None if left == 0 => break,
            None => tokio::time::sleep(LOOK).await,
        }
        if done != moved.0 {
            moved = (done, Instant::now());
        } else if moved.1.elapsed() > STALL {
            return Err(format!("nothing moved for {STALL:?}; {left} jobs left").into());
        }
    }
    let took = begun.elapsed();
    let status = process.end().await?;
    if !status.success() {
        return Err(format!("the worker process did not stop cleanly: {status}").into());
    }
    if !strikes.is_over() {
        return Err("the feed was over before all kills had come: give it more fills".into());
    }
    let declined = declined.load(Ordering::Relaxed);
    if declined == 0 && !args.sabotage {
        return Err("no kill came between an effect and its settlement: nothing was tried".into());
    }
    let rows = books(&shelf, &fills).await;
    let left = sound(&queue).await;
    let words = |failure: Failure| with_causes(failure.as_ref());
    bus.close().await;
    Ok(Seen {
        store: shelf.word(),
        declined,
        took,
        rows: rows.map_err(words),
        left: left.map_err(words),
    })
}

/// The books against the feed: orders, positions, names.
pub(super) async fn books(
    shelf: &Shelf,
    fills: &HashMap<BrandedId, Fill>,
) -> Result<(usize, usize, usize), Failure> {
    let audit = audit(&shelf.books, fills, 5).await?;
    audit.verdict()?;
    Ok((audit.orders, audit.positions, audit.names))
}

/// Nothing is left in the queue, not even a dead letter, and the doctor finds nothing.
pub(super) async fn sound(queue: &Queue) -> Outcome {
    let counts = queue.counts().await?;
    if counts.pending + counts.active + counts.scheduled + counts.dead > 0 {
        return Err(format!("{counts:?}").into());
    }
    let report = queue.doctor().examine().await?;
    if report.is_healthy() { Ok(()) } else { Err(format!("{report:?}").into()) }
}

/// The kills that are still to come, by the finished jobs after which they do.
struct Strikes(std::iter::Peekable<std::vec::IntoIter<Strike>>);

#[derive(Clone, Copy)]
struct Strike {
    point: usize,
    after: Duration,
    at: Target,
}

#[derive(Clone, Copy)]
enum Target {
    Worker,
    Server,
}

impl Strikes {
    fn plan(args: &Args, rng: &mut Rng) -> Strikes {
        let mut strikes = Vec::new();
        for (at, kills) in [(Target::Worker, args.kills), (Target::Server, args.server_kills)] {
            for point in feed::points(rng, usize::from(kills), args.fills as usize) {
                let after = Duration::from_micros(rng.u64(..AFTER_MAX_US));
                strikes.push(Strike { point, after, at });
            }
        }
        strikes.sort_by_key(|strike| strike.point);
        Strikes(strikes.into_iter().peekable())
    }

    fn next(&mut self, done: usize) -> Option<Strike> {
        self.0.next_if(|strike| strike.point <= done)
    }

    fn is_over(&mut self) -> bool {
        self.0.peek().is_none()
    }
}
