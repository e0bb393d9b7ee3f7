//! The wake rules, searched: every world of few workers and few jobs, and whether one of them is at
//! rest with work and an idle worker, or goes in a circle.
//!
//! A breadth-first search of a hundred lines does it. A model checker from the registry would
//! bring a web server for its explorer, forty packages in all, and the replay needs the steps as
//! plain values anyway.

mod support;

#[path = "model/mutants.rs"]
#[allow(dead_code)] // The model test uses all of it.
mod mutants;
#[path = "wake_search/replay.rs"]
mod replay;
#[path = "wake_search/search.rs"]
mod search;
#[path = "wake_search/server.rs"]
mod server;
#[path = "wake_search/world.rs"]
mod world;

use emq_scripts::{FenceOptions, Fenced, ScriptName};
use emq_testkit::Valkey;
use mutants::Mutant;
use search::{Fault, Found, search};
use server::Rule;
use support::{config, fenced};
use world::World;

/// A world of workers with so many slots. Jobs and events may be given from outside, for a search
/// that takes longer.
fn world(slots: &[u8], jobs: u8, events: u8) -> World {
    let given = |variable: &str, or: u8| {
        let text = std::env::var(variable);
        text.map_or(or, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
    };
    World::new(slots, given("EMQ_WAKE_JOBS", jobs), given("EMQ_WAKE_EVENTS", events))
}

#[allow(clippy::print_stdout)] // How much was searched, for those who ask with --nocapture.
fn never_rests_beside_work(first: World) {
    match search(first, None) {
        Found::Nothing { worlds } => {
            println!("{worlds} worlds");
            assert!(worlds > 20_000, "{worlds} are few");
        }
        Found::Fault { fault, path } => panic!("{fault:?} after {path:?}"),
    }
}

#[test]
fn two_workers_never_rest_beside_three_jobs() {
    never_rests_beside_work(world(&[2, 2], 3, 1));
}

#[test]
fn two_workers_never_rest_whatever_two_things_happen() {
    never_rests_beside_work(world(&[2, 2], 2, 2));
}

#[test]
fn three_workers_never_rest_beside_work() {
    never_rests_beside_work(world(&[1, 2, 1], 2, 1));
}

/// A test for each rule: without it the search finds this, among workers with so
/// many slots and so many jobs.
macro_rules! each_is_needed {
    ($($name:ident: $rule:ident in $slots:expr, $jobs:literal => $fault:ident;)*) => {
        $(
            #[test]
            #[allow(clippy::print_stdout)]
            fn $name() {
                let found = search(World::new(&$slots, $jobs, 1), Some(Rule::$rule));
                println!("{found:?}");
                let Found::Fault { fault, .. } = found else { panic!("{found:?}") };
                assert_eq!(fault, Fault::$fault);
            }
        )*
    };
}

each_is_needed! {
    without_a_push_at_admission: AdmissionPushes in [2, 2], 2 => Stuck;
    without_a_push_for_each_of_a_batch: BatchPushes in [2, 2], 2 => ShortBurst;
    without_a_cascade_of_turns: TurnCascades in [1, 1], 3 => Stuck;
    without_a_cascade_of_full_workers: FullTurnCascades in [1, 1], 3 => Stuck;
    without_a_cascade_of_single_claims: ClaimCascades in [2, 2], 2 => Stuck;
    without_a_push_for_the_earliest_of_the_schedule: EarliestPushes in [2, 2], 2 => Stuck;
    without_a_nudge_at_a_stop: StopNudges in [2, 2], 2 => Stuck;
    without_a_push_when_the_queue_is_resumed: QueueResumePushes in [2, 2], 2 => Stuck;
    without_a_push_when_a_lane_is_resumed: LaneResumePushes in [2, 2], 2 => Stuck;
    with_a_cascade_on_a_paused_queue: PausedIsQuiet in [1, 1], 1 => Spin;
}

/// Walks of so many steps with the scripts beside the model.
const WALKS: u64 = 24;
const STEPS: usize = 150;

async fn walks(fenced: &Fenced, name: &str) -> Result<(), String> {
    let seeds = (0..WALKS).chain([fastrand::u64(..)]);
    for seed in seeds {
        let slots: &[u8] = if seed % 2 == 0 { &[2, 2] } else { &[1, 2, 1] };
        let name = format!("walk.{name}.{seed}.{}", std::process::id());
        let walked = replay::walk(fenced, &name, World::new(slots, 30, 30), seed, STEPS).await;
        walked.map_err(|why| format!("seed {seed}: {why}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn the_scripts_do_what_the_model_does() {
    let fenced = fenced(Valkey::of_this_process()).await;
    if let Err(why) = walks(&fenced, "whole").await {
        panic!("{why}");
    }
}

/// A change of one script that makes it drop a rule.
const fn without(script: ScriptName, from: &'static str, to: &'static str) -> Mutant {
    Mutant { name: "a rule is dropped", script, from, to }
}

const DROPPED: &[Mutant] = &[
    without(ScriptName::Enqueue, "if tokens == 0 then", "if false then"),
    without(ScriptName::LaneEnqueue, "if runnable and tokens == 0 then", "if false then"),
    without(ScriptName::EnqueueMany, "math.min(runnable, 64)", "math.min(runnable, 1)"),
    without(ScriptName::Schedule, "if runnable and tokens == 0 then", "if false then"),
    without(ScriptName::Turn, "if tokens == 0 and not facts[1]", "if false"),
    without(ScriptName::Turn, "if tokens == 0 and not facts[1]", "if tokens == 0"),
    without(ScriptName::Turn, "if wakes and tokens == 0 then", "if false then"),
    without(ScriptName::Claim, "if cascade then", "if false then"),
    without(ScriptName::LaneClaim, "if (turning > 0 or flat > 0) and tokens == 0", "if false"),
    without(ScriptName::QueueResume, "if work > 0 and tokens == 0 then", "if false then"),
    without(ScriptName::LaneResume, "if tokens == 0 then", "if false then"),
    without(ScriptName::Nudge, "< 64", "< 0"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_drops_a_rule_is_told_from_the_model() {
    let hunt = async |n: usize, mutant: Mutant| {
        let options = FenceOptions::default().bundle(mutant.bundle());
        let fenced = Fenced::connect(config(Valkey::of_this_process()), options).await.unwrap();
        walks(&fenced, &format!("mutant.{n}")).await
    };
    for (n, mutant) in DROPPED.iter().enumerate() {
        assert!(hunt(n, *mutant).await.is_err(), "nobody misses {mutant:?}");
    }
}
