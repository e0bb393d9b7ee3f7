//! Rung 3.6: conformance and the rival.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use conformance::{Bundle, Report, Sabotage, Set, Suite, home};
use emq_core::{Bus, Job, NewJob, Queue, Verdict, Worker};
use emq_keys::{Minter, NodeId};
use emq_stores::outbox::{Outbox, Placed, Relay, RelayStatus};
use emq_stores::postgres::{Param, PgTransaction, Postgres};
use emq_testkit::{Fsync, Valkey};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::contest::ROWS;
use super::ground::{Ground, require};
use super::surface::{public_functions, verbs};
use super::{Finding, Gate, gate};
use crate::{Failure, sh};

pub(super) const GATES: &[Gate] = &[
    gate!("C1 surface", surface),
    gate!("C2 contracts", contracts),
    gate!("C3 referee", referee),
    gate!("C4 rival", rival),
    gate!("C5 side by side", side_by_side),
    gate!("C6 advantage", advantage),
];

/// How long a gate waits for something that comes at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Transactions of the last gate; each second one is rolled back.
const TRANSACTIONS: usize = 50;
/// Connections to PostgreSQL.
const CONNECTIONS: usize = 4;
/// How a port proves itself with the harness.
const SUITE: &[&str] = &["load", "names", "only", "own_server", "run", "sabotaged"];

/// The harness is a suite and a report; a list of jobs is admitted in one call, a verdict each.
async fn surface(ground: &Ground) -> Finding {
    let harness = verbs![
        Bundle::load,
        Suite::load,
        Suite::only,
        Suite::sabotaged,
        Suite::own_server,
        Suite::run,
        Sabotage::named,
        Report::all_hold,
        Report::broken,
        Report::count,
        |queue: Queue, jobs: &[NewJob]| drop(queue.enqueue_many(jobs)),
    ];
    let suite = public_functions("conformance/src/suite.rs", "impl Suite {")?;
    let known: BTreeSet<String> = SUITE.iter().map(|name| (*name).to_owned()).collect();
    require(suite == known, || format!("a suite has {suite:?}"))?;

    let (bus, queue) = ground.queue("rung-3-6-batch").await?;
    let mut jobs = Vec::new();
    for n in 0..400 {
        jobs.push(NewJob::new(bus.mint_job().await?, n.to_string()));
    }
    let before = bus.counters().evalsha_calls;
    let first = queue.enqueue_many(&jobs).await?;
    let calls = bus.counters().evalsha_calls - before;
    let again = queue.enqueue_many(&jobs).await?;
    let admitted = first.iter().filter(|v| matches!(v, Verdict::Admitted(_))).count();
    let repeated = again.iter().filter(|v| matches!(v, Verdict::Duplicate(_))).count();
    require((calls, admitted, repeated) == (1, 400, 400), || {
        format!("{calls} calls admitted {admitted}, a repeat met {repeated} duplicates")
    })?;
    ground.remove(&queue).await?;
    bus.close().await;
    Ok(format!(
        "{} verbs compiled, {} of the suite; 400 jobs admitted in one call with a verdict each, \
         sent again: 400 duplicates",
        harness.len(),
        suite.len()
    ))
}

/// The fourteen hold, and a client that is broken is found.
async fn contracts(_: &Ground) -> Finding {
    let report = drive(None).await?;
    print!("{report}");
    require(report.all_hold(), || format!("broken: {:?}", report.broken()))?;
    let broken = drive(Sabotage::named("token")).await?;
    require(!broken.all_hold(), || "a client that skips the token passes".into())?;
    Ok(format!(
        "{}; a client that skips the token breaks {}",
        report.count(Set::Seed),
        broken.broken().join(", ")
    ))
}

async fn drive(sabotage: Option<Sabotage>) -> Result<Report, Failure> {
    let mut suite = Suite::load(Bundle::load(&sh::root().join("lua"), &home())?, Set::Seed)?;
    if let Some(sabotage) = sabotage {
        suite = suite.sabotaged(sabotage);
    }
    let run = move || suite.own_server().run(&Valkey::start()?.url()).map_err(Failure::from);
    tokio::task::spawn_blocking(run).await?
}

/// Each figure of the referee has its prediction before it.
async fn referee(ground: &Ground) -> Finding {
    let words = ground.contest().referee().await?;
    let lines: Vec<&str> = words.lines().collect();
    let subject = |line: &str, verb: &str| -> Option<String> {
        Some(line.strip_prefix(verb)?.split(':').next()?.to_owned())
    };
    let mut measured = 0;
    for (at, line) in lines.iter().enumerate() {
        if let Some(what) = subject(line, "measure ") {
            let derived = lines[..at].iter().filter_map(|line| subject(line, "derive "));
            require(derived.into_iter().any(|derived| derived == what), || {
                format!("{what} was measured and not derived")
            })?;
            measured += 1;
        }
    }
    require(measured >= 2 * ROWS.len(), || format!("only {measured} figures: {words}"))?;
    Ok(format!("{measured} figures, each with its derive line before it"))
}

/// One job goes through the rival end to end.
async fn rival(ground: &Ground) -> Finding {
    let rival = ground.contest().rival().await?;
    let (versions, line) = ground.contest().play("process_c1", 1).await?;
    require((&line["done"], &line["twice"]) == (&Value::from(1), &Value::from(0)), || {
        format!("{}: {line}", rival.name)
    })?;
    let mut parts = Vec::new();
    for (part, version) in versions.as_object().into_iter().flatten().filter(|(k, _)| *k != "row") {
        parts.push(format!("{part} {}", version.as_str().unwrap_or_default()));
    }
    let why = rival.instead_of.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    Ok(format!("{}{why}: one job went through it, once; {}", rival.name, parts.join(", ")))
}

/// The asymmetry comes first, then each row with both sides.
async fn side_by_side(ground: &Ground) -> Finding {
    let rival = ground.contest().rival().await?.name;
    let words = ground.contest().referee().await?;
    let at = |start: &str| words.lines().position(|line| line.starts_with(start));
    let asymmetry = at("asymmetry: ").ok_or("the referee states no asymmetry")?;
    let first = at("derive ").into_iter().chain(at("measure ")).min();
    require(first.is_some_and(|first| asymmetry < first), || {
        "figures come before the asymmetry".into()
    })?;
    let figure = |row: &str, side: &str| -> Result<String, Failure> {
        let start = format!("measure {row} {side}: ");
        let line = words.lines().find_map(|line| line.strip_prefix(&start));
        let line = line.ok_or_else(|| format!("{row} has no figure of {side}"))?;
        Ok(line.split_whitespace().next().unwrap_or_default().to_owned())
    };
    let mut rows = Vec::new();
    for row in ROWS {
        let sides = ["ours", "ours-always", rival].map(|side| Ok((side, figure(row, side)?)));
        let sides = sides.into_iter().collect::<Result<Vec<_>, Failure>>()?;
        let sides: Vec<String> = sides.iter().map(|(side, n)| format!("{side} {n}/s")).collect();
        rows.push(format!("{row}: {}", sides.join(", ")));
    }
    Ok(format!(
        "the asymmetry first (ours volatile and durable, {rival} durable); {}",
        rows.join("; ")
    ))
}

/// A rollback erases row and job, a commit lands both: the rival's way, and our outbox's.
async fn advantage(ground: &Ground) -> Finding {
    let rival = ground.contest().rival().await?.name;
    let (_, line) = ground.contest().play("transactional", TRANSACTIONS).await?;
    let half = Value::from(TRANSACTIONS / 2);
    let said = [&line["committed"], &line["fills"], &line["jobs"]];
    require(line["attempted"] == TRANSACTIONS && said == [&half; 3], || {
        format!("{rival}: {line}")
    })?;
    let ours = through_the_outbox(ground).await?;
    Ok(format!(
        "{rival}: {TRANSACTIONS} transactions, {half} committed: {half} rows and {half} jobs; {ours}"
    ))
}

async fn through_the_outbox(ground: &Ground) -> Finding {
    let database = ground.contest().database().await?;
    let count = |table: &str| database.sql(&format!("SELECT count(*) FROM {table}"));
    database.sql("CREATE TABLE fills (ref bigint PRIMARY KEY)")?;
    let db = Postgres::tokio(&database.url(), CONNECTIONS)?;
    db.migrate_outbox().await?;
    let outbox = Outbox::with_minter(Minter::new(NodeId::new(9)?));
    transactions(&db, &outbox).await?;
    let half = TRANSACTIONS / 2;
    let left = (count("fills")?, count("emq_outbox")?);
    require(left == (half.to_string(), half.to_string()), || format!("{left:?} rows and jobs"))?;

    let valkey = Valkey::builder().append_only(Fsync::Always).start()?;
    let bus = Bus::connect(&valkey.url()).await?;
    let queue = bus.queue("fills")?;
    let relayed = relay(db, &bus).await?;
    require(relayed.admitted == half as u64, || format!("{relayed:?}"))?;
    let waiting = queue.counts().await?.pending;
    let worked = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&worked);
    let worker = Worker::builder(&queue)
        .handler(move |_: Job<Bytes>| {
            counter.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        })
        .start()?;
    let mut totals = tokio::time::interval(Duration::from_millis(5));
    let drained = async {
        while worker.totals().done < half as u64 {
            totals.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, drained).await.map_err(|_| "the jobs aren't worked")?;
    let _ = worker.stop(PATIENCE).await;
    let worked = worked.load(Ordering::Relaxed);
    bus.close().await;
    let after = count("emq_outbox")?;
    require((waiting, worked, after.as_str()) == (half as u64, half as u64, "0"), || {
        format!("{waiting} on the bus, {worked} worked, {after} left in the outbox")
    })?;
    Ok(format!(
        "our outbox: the same {TRANSACTIONS}: {half} rows and {half} jobs beside them, relayed to \
         the bus on its disk, all {worked} worked, the outbox empty"
    ))
}

async fn transactions(db: &Postgres, outbox: &Outbox) -> Result<(), Failure> {
    let Postgres::Tokio(pool) = db else { return Err("the pool is another client's".into()) };
    for n in 0..TRANSACTIONS {
        let mut client = pool.get().await?;
        let mut tx = client.transaction().await?;
        let reference = Param::BigInt(i64::try_from(n)?);
        PgTransaction::execute(&mut tx, "INSERT INTO fills VALUES ($1)", &[reference]).await?;
        let job = outbox.job(n.to_string())?;
        let placed = outbox.enqueue(&mut tx, "fills", &job).await?;
        require(placed == Placed::Written, || format!("{placed:?} for a new job"))?;
        if n % 2 == 0 { tx.commit().await? } else { tx.rollback().await? }
    }
    Ok(())
}

/// Relays until the outbox is empty.
async fn relay(db: Postgres, bus: &Bus) -> Result<RelayStatus, Failure> {
    let stop = CancellationToken::new();
    let relay = Relay::new(db, bus.clone()).sweep(Duration::from_millis(50));
    let mut status = relay.status();
    let running = tokio::spawn(relay.run(stop.clone()));
    let emptied = status.wait_for(|now| now.admitted > 0 && now.depth == 0);
    let seen = tokio::time::timeout(PATIENCE, emptied).await;
    let seen = seen.map_err(|_| "the outbox isn't emptied")??.clone();
    stop.cancel();
    running.await??;
    Ok(seen)
}
