//! `turn` does what the single scripts do: random queues are planted twice on one server; one side
//! takes a turn, the other the single calls in the same order, with the claims that the rotation
//! prescribes by a reference of its own. Then verdicts, jobs, the time until the next and every key
//! are compared; times are told by their offset from the clock.
//!
//! A failure prints the case's seed; `EMQ_TURN_SEED` runs it again, `EMQ_TURN_CASES` says how many
//! cases each task takes.

mod support;

#[path = "turn/beat.rs"]
mod beat;
#[path = "turn/case.rs"]
mod case;
#[path = "turn/mutants.rs"]
mod mutants;
#[path = "turn/plant.rs"]
mod plant;
#[path = "turn/rotation.rs"]
mod rotation;
#[path = "model/snapshot.rs"]
#[allow(dead_code)] // The model test uses all of it.
mod snapshot;

use case::{Pair, Seen};
use emq_scripts::{FenceOptions, Fenced};
use emq_testkit::Valkey;
use mutants::{MUTANTS, Mutant, bundle};
use support::{config, fenced};

/// Tasks of the fixed seeds, and the cases of each.
const TASKS: u64 = 4;
const CASES: u64 = 250;

/// A mutant that isn't noticed within so many cases isn't noticed.
const MUTANT_CASES: u64 = 500;

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs cases from a seed on.
async fn run(first: u64, cases: u64) -> Seen {
    let pair = Pair::new(
        fenced(Valkey::of_this_process()).await,
        &format!("pair.{first}.{}", std::process::id()),
    );
    let mut seen = Seen::default();
    for seed in first..first + cases {
        match pair.run(seed).await {
            Ok(more) => seen.add(more),
            Err(why) => panic!("EMQ_TURN_SEED={seed}: {why}"),
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout)] // What was met, for those who ask with --nocapture.
async fn a_turn_does_what_the_single_calls_do() {
    let cases = number_of("EMQ_TURN_CASES").unwrap_or(CASES);
    let tasks = (0..TASKS).map(|task| tokio::spawn(run(task << 32, cases)));
    let mut seen = Seen::default();
    for task in tasks.collect::<Vec<_>>() {
        seen.add(task.await.unwrap());
    }
    println!("{seen:?}");
    if cases < CASES {
        return;
    }
    for what in [
        "done",
        "scheduled",
        "dead",
        "no row",
        "stale",
        "held",
        "cancel asked",
        "not held",
        "returned",
        "buried",
        "promoted",
        "claimed from lanes",
        "claimed flat",
        "lanes and flat set mixed",
        "share interrupted",
        "paused",
        "lanes left behind",
    ] {
        assert!(seen.of(what) >= 30, "{what} came {} times only", seen.of(what));
    }
}

#[tokio::test]
async fn a_turn_does_what_the_single_calls_do_from_a_fresh_seed() {
    match number_of("EMQ_TURN_SEED") {
        Some(seed) => run(seed, 1).await,
        None => run(fastrand::u64(1 << 40..1 << 60), 100).await,
    };
}

/// The first case that notices a mutant, and what it says.
async fn hunt(place: usize, mutant: Mutant) -> Option<(u64, String)> {
    let options = FenceOptions::default().bundle(bundle(mutant));
    let fenced = Fenced::connect(config(Valkey::of_this_process()), options).await.unwrap();
    let pair = Pair::new(fenced, &format!("mutant.{place}.{}", std::process::id()));
    for seed in 0..MUTANT_CASES {
        if let Err(why) = pair.run(seed).await {
            return Some((seed, why));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout)] // When each was noticed, for those who ask with --nocapture.
async fn every_mutant_is_noticed() {
    let hunts = MUTANTS.iter().copied().enumerate();
    let hunts: Vec<_> = hunts.map(|(place, it)| tokio::spawn(hunt(place, it))).collect();
    let mut missed = Vec::new();
    for ((name, ..), hunt) in MUTANTS.iter().zip(hunts) {
        match hunt.await.unwrap() {
            Some((seed, why)) => {
                println!("{seed:6}  {name}: {}", why.lines().next().unwrap_or_default());
            }
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "{MUTANT_CASES} cases don't notice: {missed:#?}");
}
