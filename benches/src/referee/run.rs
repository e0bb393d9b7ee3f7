//! A run: header, limits, predictions, rounds, and what came of them.

use std::path::Path;
use std::time::{Duration, Instant};

use emq_testkit::Fsync;
use serde_json::{Value, json};

use super::Failure;
use super::args::Args;
use super::board::{Board, Cell, Seat};
use super::derive::{self, Band, Known};
use super::ground::{Ground, at};
use super::limits::{Limits, far_trip};
use super::machine::Machine;
use super::proxy::Proxy;
use super::rounds::{ONE_WAY, Rounds};
use super::row::Row;
use super::save::save;
use super::side::{Side, Store};
use super::size::{Extent, size};
use super::table::{cell_text, markdown, number};
use super::target::targets;

/// The asymmetry of the comparison: it stands before every figure.
const ASYMMETRY: &str = "\
asymmetry: the rivals on PostgreSQL sync every commit; ours at its default, and every rival on \
Valkey, is volatile: kill -9 of the server loses what it held. Ours stands beside itself durable: \
ours-everysec (fsync each second), ours-always (fsync before each reply, and every enqueue awaits \
the server's word for it). A rival on PostgreSQL commits a job with the caller's own row; ours \
needs its outbox for that. Rivals run at their defaults; chasquimq-tuned runs without events.";

/// When a quick run begins no further round.
const QUICK_WITHIN: Duration = Duration::from_secs(285);

/// What was learnt before the first round.
struct Bench {
    volatile: Limits,
    everysec: Limits,
    always: Limits,
    far_trip: f64,
}

impl Bench {
    fn of(&self, store: Store) -> &Limits {
        match store {
            Store::AppendOnly(Fsync::Always) => &self.always,
            Store::AppendOnly(_) => &self.everysec,
            Store::Volatile | Store::Postgres => &self.volatile,
        }
    }
}

/// Prints, and keeps what was printed.
#[derive(Default)]
struct Transcript(Vec<String>);

impl Transcript {
    fn say(&mut self, line: impl Into<String>) {
        let line = line.into();
        println!("{line}");
        self.0.push(line);
    }
}

/// Runs the referee, and answers whether ours delivered exactly.
///
/// # Errors
/// What keeps it from measuring at all.
pub async fn run(args: &Args) -> Result<bool, Failure> {
    let (begun, extent) = (Instant::now(), args.extent());
    let mut board = Board::new(args.rows()?, args.seats()?);
    let rounds = Rounds { programs: args.programs()?, extent, silence: silence(extent) };
    let machine = Machine::here();
    let mut out = Transcript::default();
    header(&mut out, args, &machine, &board);
    out.say(format!("servers {}", servers(&board).await?));
    let bench = take_limits(extent).await?;
    tell_limits(&mut out, &bench);
    for row in board.rows.clone() {
        predict(&mut out, &board, &bench, row, extent);
    }
    let played = play(&rounds, &mut board, args.rounds(), begun).await?;
    if played < args.rounds() {
        out.say(format!("rounds: {played}, for another would have gone beyond {QUICK_WITHIN:?}"));
    }
    out.say("");
    for seat in board.seats.iter().filter(|seat| !seat.versions.is_empty()) {
        out.say(format!("version {} {}", seat.side.name, Value::from(seat.versions.clone())));
    }
    for row in board.rows.clone() {
        out.say("");
        predict(&mut out, &board, &bench, row, extent);
        tell(&mut out, &board, &bench, row, extent);
    }
    conclude(&mut out, &board);
    out.say(format!("took {:.0} s", begun.elapsed().as_secs_f64()));
    if args.is_full() || args.save {
        let settings = json!({ "rounds": args.rounds(), "quick": args.quick });
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        for file in save(root, &board, &machine, &out.0, &settings)? {
            eprintln!("written: {}", file.display());
        }
    }
    Ok(board.faults_of_ours().is_empty())
}

/// Plays the rounds, or in a quick run those that there is time for, and answers how many.
async fn play(
    rounds: &Rounds,
    board: &mut Board,
    wanted: usize,
    begun: Instant,
) -> Result<usize, Failure> {
    let mut longest = Duration::ZERO;
    for round in 0..wanted {
        let late = begun.elapsed() + longest > QUICK_WITHIN;
        if round > 0 && late && rounds.extent == Extent::Quick {
            return Ok(round);
        }
        let now = Instant::now();
        rounds.play(board, round).await?;
        longest = longest.max(now.elapsed());
        eprintln!("round {} of {wanted} took {:.0} s", round + 1, now.elapsed().as_secs_f64());
    }
    Ok(wanted)
}

/// Longer than the slowest heartbeat among the rivals, where there is time for it.
fn silence(extent: Extent) -> Duration {
    Duration::from_secs(if extent == Extent::Full { 330 } else { 15 })
}

fn header(out: &mut Transcript, args: &Args, machine: &Machine, board: &Board) {
    out.say("referee: EchoMQ beside its rivals");
    out.say(ASYMMETRY);
    out.say(format!("date {}", machine.date));
    out.say(format!("machine {}", machine.machine));
    out.say(format!("commit {}", machine.commit));
    let words = if args.quick { "quick sizes" } else { "full sizes" };
    out.say(format!(
        "settings {} rounds, {words}, payload {} bytes, a fresh server for each run of a contender",
        args.rounds(),
        contender::PAYLOAD_BYTES
    ));
    for Seat { side, absent, .. } in &board.seats {
        let place = side.store.words();
        match absent {
            Some(why) => out.say(format!("side {}: absent: {why}", side.name)),
            None => out.say(format!("side {}: {place}", side.name)),
        }
    }
}

/// The versions of the servers that are worked on.
async fn servers(board: &Board) -> Result<String, Failure> {
    let mut servers = Ground::start(Store::Volatile).await?.version().await?;
    let mut playing = board.seats.iter().filter(|seat| seat.absent.is_none());
    if playing.any(|seat| seat.side.store == Store::Postgres) {
        servers = format!("{servers}, PostgreSQL {}", emq_testkit::postgres_programs()?.version);
    }
    Ok(servers)
}

async fn take_limits(extent: Extent) -> Result<Bench, Failure> {
    let effort = Duration::from_millis(if extent == Extent::Full { 400 } else { 100 });
    let of = async |store| {
        let ground = Ground::start(store).await?;
        let server = ground.valkey_address().ok_or("limits are of a Valkey")?;
        Ok::<_, Failure>((Limits::take(&at(server.port()), effort).await?, ground))
    };
    let (everysec, _) = of(Store::AppendOnly(Fsync::EverySec)).await?;
    let (always, _) = of(Store::AppendOnly(Fsync::Always)).await?;
    let (volatile, ground) = of(Store::Volatile).await?;
    let server = ground.valkey_address().ok_or("limits are of a Valkey")?;
    let proxy = Proxy::start(server, ONE_WAY)?;
    let far_trip = far_trip(&at(proxy.port()), effort).await?;
    Ok(Bench { volatile, everysec, always, far_trip })
}

fn tell_limits(out: &mut Transcript, bench: &Bench) {
    let all = [("none", bench.volatile), ("everysec", bench.everysec), ("always", bench.always)];
    for (name, limits) in all {
        let Limits { trip, empty, enqueue_trip, enqueue, bulk, turn_trip, turn, .. } = limits;
        let [few, more, many] = turn;
        out.say(format!(
            "limit persistence {name}: us: trip {trip:.0}, empty script {empty:.2}, enqueue \
             {enqueue_trip:.0} alone and {enqueue:.1} piped, bulk {bulk:.1} a job, turn \
             {turn_trip:.0} alone and {few:.1} {more:.1} {many:.1} a job of 5, 25, 100"
        ));
    }
    let far = bench.far_trip / 1e3;
    out.say(format!("limit behind the proxy: an empty round trip takes {far:.2} ms"));
}

/// The band of a side's row.
fn band(bench: &Bench, row: &Row, side: &Side, extent: Extent) -> Option<Band> {
    if !side.ours {
        return derive::rival(row, side, &bench.volatile);
    }
    let quiet_each = (size(side, "fairness", extent) / 1_000).max(1);
    let known = Known { limits: bench.of(side.store), far_trip: bench.far_trip, quiet_each };
    Some(derive::ours(row, &known))
}

fn plays(board: &Board, row: &Row, seat: &Seat) -> bool {
    let lacks = board.lacks(seat.side, row.place, row.asked);
    seat.absent.is_none() && !lacks && Rounds::has(seat.side, row.place, row.asked)
}

fn predict(out: &mut Transcript, board: &Board, bench: &Bench, row: &Row, extent: Extent) {
    for seat in board.seats.iter().filter(|seat| plays(board, row, seat)) {
        let name = seat.side.name;
        match band(bench, row, seat.side, extent) {
            Some(Band { from, to, why }) => out.say(format!(
                "derive {} {name}: {} to {} {}: {why}",
                row.name,
                number(row, from),
                number(row, to),
                row.unit
            )),
            None => out.say(format!("derive {} {name}: nothing is known to derive from", row.name)),
        }
    }
}

fn tell(out: &mut Transcript, board: &Board, bench: &Bench, row: &Row, extent: Extent) {
    for Seat { side, .. } in &board.seats {
        let Some(cell) = board.cell(row.name, side.name) else { continue };
        let Cell { series, absent, failed, inexact, n } = cell;
        let text = cell_text(row, Some(cell));
        let mut line = format!("measure {} {}: {text}", row.name, side.name);
        if let Some(median) = series.median() {
            let held = band(bench, row, side, extent).map(|band| band.holds(median));
            let held = match held {
                Some(true) => ", as derived",
                Some(false) => ", not as derived",
                None => "",
            };
            let rounds: Vec<String> = series.figures().map(|figure| number(row, figure)).collect();
            let n = n.map_or_else(String::new, |n| format!(", n {n}"));
            line = format!("{line} {}{n}, rounds {}{held}", row.unit, rounds.join(" "));
        }
        out.say(line);
        if let Some(why) = absent {
            out.say(format!("  absent: {why}"));
        }
        for what in failed {
            out.say(format!("  failed: {what}"));
        }
        for what in inexact {
            out.say(format!("  delivery not exact: {what}"));
        }
    }
}

fn conclude(out: &mut Transcript, board: &Board) {
    out.say("");
    for line in markdown(board).lines() {
        out.say(line);
    }
    out.say("");
    for target in targets(board) {
        out.say(target.to_string());
    }
    let faults = board.faults_of_ours();
    for fault in &faults {
        out.say(format!("FAULT {fault}"));
    }
    if faults.is_empty() {
        out.say("delivery of ours: exact in every run");
    }
}
