//! What a claim costs in a queue of many lanes:
//! `cargo bench -p emq-core --bench claims [-- name=value ...]`.
//!
//! The same backlog in 1,000 lanes and in 100,000, claimed and completed in turns of a batch. The
//! calls that the server ran are counted by its own statistics, those of the scripts' commands
//! included; the two sides take turns, and the ratio is that of their medians.
#![allow(clippy::print_stdout)] // Its output is what it is for.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use emq_core::{Bus, NewJob, Queue};
use emq_keys::{BrandedId, Namespace};
use emq_scripts::{LaneClaim, Settle, SettleOutcome, Turn};
use emq_testkit::Valkey;
use emq_wire::Cmd;

const LEASE: Duration = Duration::from_secs(600);
/// The two sides.
const LANES: [usize; 2] = [1_000, 100_000];
/// What lanes may cost: the time at the most of them, to the time at the fewest.
const TARGET: f64 = 1.3;

struct Asked {
    /// Jobs of one turn.
    batch: usize,
    /// Turns of one round, and single claims of one round.
    turns: usize,
    rounds: usize,
    backlog: usize,
}

impl Asked {
    fn read() -> Asked {
        let mut asked = Asked { batch: 100, turns: 200, rounds: 5, backlog: 200_000 };
        for word in std::env::args().skip(1).filter(|word| word != "--bench") {
            let (name, n) = word.split_once('=').expect("name=value");
            let n = n.parse().expect("a number");
            match name {
                "batch" => asked.batch = n,
                "turns" => asked.turns = n,
                "rounds" => asked.rounds = n,
                "backlog" => asked.backlog = n,
                other => panic!("batch, turns, rounds or backlog, not {other}"),
            }
        }
        asked
    }
}

/// Of one round.
struct Round {
    took: Duration,
    /// Calls of the server by command.
    calls: BTreeMap<String, i64>,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let asked = Asked::read();
        let valkey = Valkey::start().expect("a server");
        let bus = Bus::connect(&valkey.url()).await.expect("a bus");
        let mut queues = Vec::new();
        for lanes in LANES {
            let queue = bus.queue(format!("lanes-{lanes}")).unwrap();
            fill(&queue, lanes, asked.backlog).await;
            queues.push(queue);
        }
        compare("turn", &queues, &asked, async |queue| turns(queue, &asked).await).await;
        compare("lane_claim", &queues, &asked, async |queue| singles(queue, &asked).await).await;
    });
}

/// The same number of jobs whatever the lanes, lane after lane.
async fn fill(queue: &Queue, lanes: usize, backlog: usize) {
    let namespace = Namespace::new("TEN").unwrap();
    let mut names: Vec<BrandedId> = Vec::new();
    for _ in 0..lanes {
        names.push(queue.bus().mint(namespace).await.unwrap());
    }
    let mut list = Vec::new();
    for n in 0..backlog {
        let id = queue.bus().mint_job().await.unwrap();
        list.push(NewJob::new(id, vec![b'x'; 40]).lane(names[n % lanes]));
        if list.len() == 10_000 || n + 1 == backlog {
            queue.enqueue_many(&list).await.unwrap();
            list.clear();
        }
    }
}

async fn compare(
    what: &str,
    queues: &[Queue],
    asked: &Asked,
    work: impl AsyncFn(&Queue) -> Duration,
) {
    let mut rounds: Vec<Vec<Round>> = queues.iter().map(|_| Vec::new()).collect();
    for _ in 0..asked.rounds {
        for (queue, rounds) in queues.iter().zip(&mut rounds) {
            let before = commands(queue.bus()).await;
            let took = work(queue).await;
            let mut calls = commands(queue.bus()).await;
            for (command, n) in before {
                *calls.entry(command).or_default() -= n;
            }
            calls.retain(|command, n| *n != 0 && command != "info");
            rounds.push(Round { took, calls });
        }
    }
    let mut medians = Vec::new();
    for (lanes, rounds) in LANES.iter().zip(&rounds) {
        let mut times: Vec<Duration> = rounds.iter().map(|round| round.took).collect();
        times.sort();
        let median = times[times.len() / 2];
        medians.push(median.as_secs_f64());
        let calls: i64 = rounds[rounds.len() - 1].calls.values().sum();
        println!("{what:<12} {lanes:>7} lanes: {median:>10.1?} and {calls} calls a round");
        println!("             {:?}", rounds[rounds.len() - 1].calls);
    }
    // A lane's last job leaves with an LPOP where another has an LMOVE: the number counts.
    let number = |round: &Round| round.calls.values().sum::<i64>();
    let same = rounds[0].iter().zip(&rounds[1]).all(|(few, many)| number(few) == number(many));
    let ratio = medians[1] / medians[0];
    let met = if same && ratio <= TARGET { "met" } else { "missed" };
    let calls = if same { "as many calls" } else { "NOT as many calls" };
    println!("{what:<12} {calls}, time ratio {ratio:.2} (at most {TARGET}): {met}");
}

/// Turns that settle what the one before claimed.
async fn turns(queue: &Queue, asked: &Asked) -> Duration {
    let mut held: Vec<(BrandedId, u64)> = Vec::new();
    let begun = Instant::now();
    for n in 0..=asked.turns {
        let settle = |(id, token): &(BrandedId, u64)| Settle {
            id: *id,
            token: *token,
            ticket: Some("bench.1"),
            outcome: SettleOutcome::Complete,
        };
        let settles: Vec<Settle<'_>> = held.iter().map(settle).collect();
        let claim = if n == asked.turns { 0 } else { asked.batch as u32 };
        let turn = Turn {
            ticket: Some("bench.1"),
            lease: LEASE,
            claim,
            promote: 200,
            reap: 0,
            lost_cap: 10,
            max_attempts: 25,
            settles: &settles,
            extensions: &[],
        };
        let turned = queue.bus().fenced().call(queue.keys(), &turn).await.unwrap();
        assert_eq!(turned.jobs.len(), claim as usize, "the backlog is too short");
        held = turned.jobs.iter().map(|job| (job.id, job.token)).collect();
    }
    begun.elapsed()
}

/// Claims one by one; what they hold stays held.
async fn singles(queue: &Queue, asked: &Asked) -> Duration {
    let begun = Instant::now();
    for _ in 0..asked.turns * 10 {
        let call = LaneClaim { lease: LEASE, ticket: Some("bench.2") };
        let claimed = queue.bus().fenced().call(queue.keys(), &call).await.unwrap();
        assert!(claimed.is_some(), "the backlog is too short");
    }
    begun.elapsed()
}

/// How often the server has run each command.
async fn commands(bus: &Bus) -> BTreeMap<String, i64> {
    let info = Cmd::new("INFO").arg("commandstats");
    let info = bus.fenced().connection().command(info).await.unwrap();
    let info = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
    let of = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((command.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    info.lines().filter_map(of).collect()
}
