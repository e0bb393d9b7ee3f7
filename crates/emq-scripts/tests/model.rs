//! Random sequences of verbs against a model written from the specification: several holders,
//! stale and repeated tokens and tickets, expired leases, late settles, re-created ids, unique
//! keys, lanes with ceilings, weights and pauses, turns of many items, torn rows, malformed calls,
//! a cold script cache. After each step reply, rows, sets, scores, ring, counts and tokens are
//! compared, and the laws of the keyspace are checked.
//!
//! A failure prints its seed and a short sequence that fails as well. `EMQ_MODEL_SEED` runs one
//! seed again, `EMQ_MODEL_STEPS` says how many steps each seed takes.

mod support;

#[path = "model/mod.rs"]
mod model;

use std::collections::BTreeSet;

use emq_scripts::{FenceOptions, Fenced, ScriptName};
use emq_testkit::Valkey;
use model::corruptions::CORRUPTIONS;
use model::coverage::{Coverage, MUST_BE_SEEN};
use model::laws::Laws;
use model::malformed::faults;
use model::mutants::{MUTANTS, Mutant};
use model::run::{Failure, random, replay};
use model::shrink::shrink;
use model::snapshot::Snapshot;
use model::step::{Admission, Due, Options, Step};
use model::world::{Moment, World};
use support::{bundle_to_judge, config, fenced, job, lane};

/// Steps a seed.
const STEPS: usize = 2_500;

/// Seeds that every run takes; with the fresh one they make 20,000 steps.
const SEEDS: [u64; 7] = [1, 2, 3, 4, 5, 6, 7];

/// A mutant that isn't noticed within so many steps isn't noticed.
const MUTANT_STEPS: usize = 10_000;

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

fn steps() -> usize {
    number_of("EMQ_MODEL_STEPS").map_or(STEPS, |steps| usize::try_from(steps).expect("steps"))
}

/// Runs a seed on the bundle as it is; a failure is told with its seed, shrunk.
async fn run(seed: u64) -> Result<Coverage, String> {
    let fenced = fenced(Valkey::of_this_process()).await;
    let name = format!("model.{seed}.{}", std::process::id());
    match random(&fenced, &name, seed, steps()).await {
        Ok(coverage) => Ok(coverage),
        Err(failure) => {
            let steps = failure.history.len();
            // A broken bundle need not be told in few steps.
            let short = match bundle_to_judge() {
                None => shrink(&fenced, &name, failure).await,
                Some(_) => failure,
            };
            Err(format!("EMQ_MODEL_SEED={seed} fails at step {steps}; so does:\n{short}"))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout)] // What was covered, for those who ask with --nocapture.
async fn the_scripts_do_what_the_model_says() {
    let runs = SEEDS.map(|seed| tokio::spawn(run(seed)));
    let mut coverage = Coverage::default();
    for run in runs {
        coverage.add(run.await.unwrap().unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{coverage}");
    assert_eq!(coverage.steps, SEEDS.len() * steps());
    let missing = coverage.missing(MUST_BE_SEEN);
    assert!(missing.is_empty() || steps() < STEPS, "never seen: {missing:#?}\n{coverage}");
}

#[tokio::test]
async fn the_scripts_do_what_the_model_says_from_a_fresh_seed() {
    let seed = number_of("EMQ_MODEL_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    let coverage = run(seed).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(coverage.steps, steps());
}

#[tokio::test]
async fn malformed_calls_are_refused_and_write_nothing() {
    let fenced = fenced(Valkey::of_this_process()).await;
    let name = format!("malformed.{}", std::process::id());
    // In a queue that such a call would change.
    let mut steps = populated();
    steps.extend((0..faults().len()).map(Step::Malformed));
    let outcome = replay(&fenced, &name, &steps).await;
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A leased job, a pending one with a unique key, a leased and a pending one in a lane, and a
/// scheduled one.
fn populated() -> Vec<Step> {
    let admission = |n, group, unique: Option<&str>| {
        let options = Options { unique: unique.map(str::to_owned), ..Options::default() };
        Admission { id: job(n), payload: b"x".to_vec(), group, due: Due::Now, options }
    };
    let (group, durable) = (lane(0), false);
    let enqueue = |n, unique| Step::Enqueue { job: admission(n, None, unique), durable };
    let lane_enqueue =
        |n| Step::LaneEnqueue { job: admission(n, Some(group), None), group, durable };
    let later = Admission { due: Due::In(3_600_000), ..admission(4, None, None) };
    vec![
        enqueue(0, None),
        Step::Claim { lease_ms: 3_600_000, ticket: None },
        enqueue(1, Some("key")),
        lane_enqueue(2),
        Step::LaneClaim { lease_ms: 3_600_000, ticket: None },
        lane_enqueue(3),
        Step::Schedule { job: later, durable },
    ]
}

#[test]
fn the_laws_notice_each_corruption() {
    const NOW_MS: u64 = 1_800_000_000_000;
    let (mut world, nothing) = (World::default(), Snapshot::default());
    for step in populated() {
        world.apply(
            &step,
            &Moment { from_ms: NOW_MS, to_ms: NOW_MS, after: &nothing, next_ms: None },
        );
    }
    let sound = world.snapshot();
    let torn = BTreeSet::new();
    let check = |before: &Snapshot, after: &Snapshot, step: &Step| {
        Laws { before, after, step, torn: &torn }.check()
    };
    check(&nothing, &sound, &Step::QueueResume).unwrap();
    for (name, says, corrupt) in CORRUPTIONS {
        let (mut before, mut after) = (sound.clone(), sound.clone());
        let step = corrupt(&mut before, &mut after);
        let broken = check(&before, &after, &step).expect_err(name);
        assert!(broken.contains(says), "{name}: {broken}");
    }
}

/// Runs a mutant until it is noticed.
async fn hunt(place: usize, mutant: &Mutant) -> (Fenced, Failure) {
    let options = FenceOptions::default().bundle(mutant.bundle());
    let fenced = Fenced::connect(config(Valkey::of_this_process()), options).await.unwrap();
    let name = format!("mutant.{place}.{}", std::process::id());
    // Seed 2 makes turns, seed 1 more of the rest.
    let seed = if mutant.script == ScriptName::Turn { 2 } else { 1 };
    match random(&fenced, &name, seed, MUTANT_STEPS).await {
        Err(failure) => (fenced, failure),
        Ok(_) => panic!("{MUTANT_STEPS} steps don't notice: {}", mutant.name),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout)] // When each was noticed, for those who ask with --nocapture.
async fn every_mutant_is_noticed() {
    let hunts = MUTANTS.iter().enumerate();
    let hunts: Vec<_> = hunts.map(|(place, it)| tokio::spawn(hunt(place, it))).collect();
    for (mutant, hunt) in MUTANTS.iter().zip(hunts) {
        let (_, failure) = hunt.await.unwrap_or_else(|_| panic!("missed: {}", mutant.name));
        let why = failure.why.lines().next().unwrap_or_default();
        println!("{:6}  {}: {why}", failure.history.len(), mutant.name);
    }
}

#[tokio::test]
async fn a_failure_is_told_in_few_steps() {
    let (fenced, failure) = hunt(MUTANTS.len(), &MUTANTS[0]).await;
    let name = format!("short.{}", std::process::id());
    let short = shrink(&fenced, &name, failure).await;
    // An admission, a claim, and a complete with a wrong token; a turn may stand for some of them.
    assert!(short.history.len() <= 5, "{short}");
}
