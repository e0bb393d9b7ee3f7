//! `cargo xtask drill relay`: relays killed between the bus's admission and the delete, and the
//! server right after an admission; then each committed row must have had its effect once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use emq_core::{Bus, Queue};
use emq_keys::BrandedId;
use emq_testkit::{Fsync, Postgres, Valkey};
use fastrand::Rng;

use super::business::{Business, QUEUE};
use super::child::Process;
use super::kill9::{Store, books, sound};
use super::{feed, relayer};
use crate::books::{Backing, Fill, Place, Shelf};
use crate::{Failure, Outcome, with_causes};

/// A drill that doesn't move for this long has failed.
const STALL: Duration = Duration::from_secs(60);
/// How often outbox and queue are looked at.
const LOOK: Duration = Duration::from_millis(5);
/// A relay stands still at one of its first so many batches.
const STANDS_WITHIN: u32 = 2;
/// Batches that are written for each kill: more than relays can get through until they are killed.
const BATCHES_PER_KILL: usize = 3;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database of the outbox and the books [default: sqlite, then postgres]
    #[arg(long, value_enum)]
    store: Option<Store>,
    /// How often a relay is killed between an admission and its delete
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    kills: u16,
    /// How often the server is killed right after an admission; the relay deletes what it admitted
    #[arg(long, default_value_t = 2)]
    server_kills: u16,
    /// Repeats a run [default: a new one, printed]
    #[arg(long)]
    seed: Option<u64>,
    /// Delete rows before their jobs are admitted: the drill must fail then
    #[arg(long)]
    sabotage: bool,
}

/// What one drill saw.
struct Seen {
    rows: usize,
    declined: u64,
    took: Duration,
    outcome: Result<(), String>,
}

pub(super) async fn run(args: &Args) -> Outcome {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    println!(
        "seed {seed}: {} kills of the relay's process between admission and delete, \
         {} of the server right after an admission (append-only, appendfsync always){}",
        args.kills,
        args.server_kills,
        if args.sabotage { "; SABOTAGED: rows are deleted before the admission" } else { "" },
    );
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["store", "took", "rows committed", "repeats declined", "verdict"]);
    let mut failed = false;
    for backing in Store::backings(args.store) {
        let seen = drill(args, seed, backing).await?;
        failed |= seen.outcome.is_err();
        let verdict = match seen.outcome {
            Ok(()) => "each row once, nothing left",
            Err(fault) => {
                eprintln!("{}: {fault}", backing.word());
                "WRONG"
            }
        };
        table.add_row([
            backing.word().to_owned(),
            format!("{:.1} s", seen.took.as_secs_f64()),
            seen.rows.to_string(),
            seen.declined.to_string(),
            verdict.to_owned(),
        ]);
    }
    println!("{table}");
    if failed {
        return Err(format!("the drill failed; --seed {seed} repeats it").into());
    }
    println!("every committed row's job had its effect once: none lost, none twice, none invented");
    Ok(())
}

/// One drill over one database.
async fn drill(args: &Args, seed: u64, backing: Backing) -> Result<Seen, Failure> {
    let server = match backing {
        Backing::Postgres => {
            crate::postgres::ensure()?;
            Some(Postgres::start()?)
        }
        Backing::Memory | Backing::Sqlite => None,
    };
    let shelf = Shelf::open(backing, server.as_ref()).await?;
    let place = shelf.place().ok_or("these books end with their process")?;
    let valkey = Valkey::builder().append_only(Fsync::Always).start()?;
    let mut rng = Rng::with_seed(seed);
    let mut strikes = vec![Target::Relay; usize::from(args.kills)];
    strikes.resize(strikes.len() + usize::from(args.server_kills), Target::Server);
    rng.shuffle(&mut strikes);
    let ground = Ground {
        business: Business::open(&place).await?,
        place,
        sabotage: args.sabotage,
        declined: Arc::default(),
        valkey,
    };
    let rows = strikes.len() * BATCHES_PER_KILL * relayer::BATCH;
    let fills = ground.business.write(feed::fills(&mut rng, rows)?).await?;

    let begun = Instant::now();
    let bus = Bus::connect(&ground.valkey.url()).await?;
    let queue = bus.queue(QUEUE)?;
    let worker = Process::start(&ground.arguments("worker"), &ground.declined).await?;
    for strike in strikes {
        ground.strike(strike, rng.u32(1..=STANDS_WITHIN)).await?;
    }
    let relay = Process::start(&ground.arguments("relayer"), &ground.declined).await?;
    ground.drained(&queue).await?;
    let took = begun.elapsed();
    for process in [relay, worker] {
        let status = process.end().await?;
        if !status.success() {
            return Err(format!("a process did not stop cleanly: {status}").into());
        }
    }
    let declined = ground.declined.load(Ordering::Relaxed);
    let outcome = ground.audit(&shelf, &queue, &fills).await;
    bus.close().await;
    if declined == 0 && outcome.is_ok() {
        return Err("no job was sent again after it was finished: nothing was tried".into());
    }
    let outcome = outcome.map_err(|failure| with_causes(failure.as_ref()));
    Ok(Seen { rows: fills.len(), declined, took, outcome })
}

#[derive(Clone, Copy)]
enum Target {
    Relay,
    Server,
}

/// What the processes of a drill share.
struct Ground {
    business: Business,
    place: Place,
    sabotage: bool,
    declined: Arc<AtomicU64>,
    valkey: Valkey,
}

impl Ground {
    fn arguments(&self, process: &str) -> Vec<String> {
        let mut arguments: Vec<String> = ["drill", process, "--url"].map(str::to_owned).into();
        arguments.extend([self.valkey.url(), "--books".into(), self.place.to_string()]);
        match process {
            "worker" => arguments.extend(["--queue".into(), QUEUE.into()]),
            _ if self.sabotage => arguments.push("--sabotage".into()),
            _ => {}
        }
        arguments
    }

    /// A relay's whole life: it passes some batches and is struck where it stands.
    async fn strike(&self, target: Target, stand_at: u32) -> Outcome {
        let mut arguments = self.arguments("relayer");
        arguments.extend(["--stand-at".into(), stand_at.to_string()]);
        let mut relay = Process::start(&arguments, &self.declined).await?;
        relay.admitted().await?;
        if let Target::Server = target {
            let waiting = self.business.waiting().await?;
            self.valkey.kill9()?;
            // The server is gone, and the rows go: the jobs must have been on its disk.
            relay.go_on()?;
            if !self.sabotage {
                self.fewer_than(waiting).await?;
            }
            self.valkey.start_again()?;
        }
        relay.kill9()
    }

    async fn fewer_than(&self, rows: i64) -> Outcome {
        let begun = Instant::now();
        while self.business.waiting().await? >= rows {
            if begun.elapsed() > STALL {
                return Err("the relay doesn't delete what was admitted".into());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits until nothing is left in the outbox and nothing on the bus.
    async fn drained(&self, queue: &Queue) -> Outcome {
        let mut moved = (i64::MAX, Instant::now());
        loop {
            tokio::time::sleep(LOOK).await;
            // The rows first: a row goes only when its job is on the bus.
            let rows = self.business.waiting().await?;
            let counts = match queue.counts().await {
                Ok(counts) => counts,
                Err(error) if error.is_retryable() => continue,
                Err(error) => return Err(error.into()),
            };
            let jobs = counts.pending + counts.active + counts.scheduled;
            let left = rows + i64::try_from(jobs)?;
            if left == 0 {
                return Ok(());
            }
            if left != moved.0 {
                moved = (left, Instant::now());
            } else if moved.1.elapsed() > STALL {
                return Err(format!("nothing moved for {STALL:?}; {rows} rows, {counts:?}").into());
            }
        }
    }

    /// Each committed fill is booked once and no other is, and nothing is left anywhere.
    async fn audit(
        &self,
        shelf: &Shelf,
        queue: &Queue,
        fills: &HashMap<BrandedId, Fill>,
    ) -> Outcome {
        books(shelf, fills).await?;
        let rows = self.business.waiting().await?;
        if rows > 0 {
            return Err(format!("{rows} rows are left in the outbox").into());
        }
        sound(queue).await
    }
}
