//! Each tick once: whatever number of schedulers run, whatever their clocks say, and whatever dies.

mod ground;
mod recurring;

use std::collections::BTreeSet;
use std::time::Duration;

use emq_core::{Enqueued, Missed, Put, Schedule, SchedulerPhase, Timing};
use emq_testkit::{Fsync, Valkey};
use ground::proxy::Proxy;
use ground::raw::strings;
use ground::{builder_on, bus_on, healthy};
use recurring::{Running, Served, every, id_of, recurring, server_ms};

const BEAT: Duration = Duration::from_millis(20);
const NO_BEAT: Duration = Duration::from_secs(3_600);
const TWO_HOURS_S: i64 = 7_200;
const HOUR_MS: u64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_schedulers_of_which_two_have_a_clock_two_hours_off_admit_each_tick_once() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let table = bus.schedules().queue("work").unwrap();
    table.put(&every("pulse", 50)).await.unwrap();
    let mut served = Served::start(&queue);
    // On each beat these two hear a time that is two hours from the server's.
    let (ahead, behind) = (Proxy::before(&valkey).await, Proxy::before(&valkey).await);
    ahead.clock_ahead(TWO_HOURS_S);
    behind.clock_ahead(-TWO_HOURS_S);
    let mut running = Vec::new();
    for url in [valkey.url(), ahead.url(), behind.url(), valkey.url(), valkey.url()] {
        let bus = emq_core::Bus::connect(&url).await.unwrap();
        running.push(Running::start(&bus, &queue, BEAT));
    }
    while served.ticks.len() < 200 {
        let tick_ms = served.next(&queue, "pulse").await;
        let now_ms = server_ms(&bus).await;
        assert!(tick_ms <= now_ms, "the tick at {tick_ms} came at {now_ms}");
    }
    served.assert_whole(0, 50, &queue, "pulse").await;
    let mut totals = Vec::new();
    for scheduler in running {
        totals.push(scheduler.stop().await);
    }
    // The one that is ahead has tried, and was told that it is too early.
    assert!(totals[1].off_time > 0, "{totals:?}");
    let admitted: u64 = totals.iter().map(|it| it.admitted).sum();
    let elsewhere: u64 = totals.iter().map(|it| it.elsewhere).sum();
    // One that was stopped may not have heard what its last call came to.
    assert!(admitted + totals.len() as u64 >= 200 && elsewhere > 0, "{totals:?}");
    assert_eq!(totals.iter().map(|it| it.duplicate).sum::<u64>(), 0, "{totals:?}");
    healthy(&queue).await;
}

/// By a clock that is two hours ahead the next tick of an hour's interval is due, and long missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_ahead_neither_brings_a_tick_forward_nor_passes_it_over() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let table = bus.schedules().queue("work").unwrap();
    let all = [("none", Missed::None), ("last", Missed::Last), ("all", Missed::All)];
    // Far from its next tick, whatever the time is.
    let half_ms = HOUR_MS / 2;
    let offset_ms = (server_ms(&bus).await + half_ms) % HOUR_MS;
    let timing = Timing::every(Duration::from_millis(HOUR_MS)).unwrap();
    let timing = timing.offset(Duration::from_millis(offset_ms)).unwrap();
    for (name, missed) in all {
        let schedule = Schedule::new(name, timing.clone()).unwrap().missed(missed);
        table.put(&schedule.tolerance(Duration::ZERO)).await.unwrap();
    }
    let before = table.list().await.unwrap();
    let ahead = Proxy::before(&valkey).await;
    ahead.clock_ahead(TWO_HOURS_S);
    let misled = emq_core::Bus::connect(&ahead.url()).await.unwrap();
    let mut running = Running::start(&misled, &queue, BEAT);
    running.until(|status| status.totals.looks > 10 && status.totals.off_time > 30).await;
    let totals = running.stop().await;
    assert_eq!((totals.admitted, totals.passed), (0, 0), "{totals:?}");
    assert_eq!(table.list().await.unwrap(), before);
    assert_eq!(queue.depth().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedulers_that_are_killed_at_random_lose_and_repeat_no_tick() {
    let (bus, queue, table) = recurring().await;
    table.put(&every("pulse", 30)).await.unwrap();
    let mut served = Served::start(&queue);
    let url = Valkey::of_this_process().url();
    let mut random = random();
    let start = async || {
        let bus = emq_core::Bus::connect(&url).await.unwrap();
        (Running::start(&bus, &queue, BEAT), bus)
    };
    let mut running = vec![start().await, start().await, start().await];
    for _ in 0..40 {
        // Not in step with the ticks.
        tokio::time::sleep(Duration::from_micros(random.u64(0..40_000))).await;
        let at = random.usize(..running.len());
        let (victim, connection) = running.swap_remove(at);
        victim.kill().await;
        drop(connection);
        running.push(start().await);
    }
    let enough = served.ticks.len() + 40;
    served.until(enough, &queue, "pulse").await;
    served.assert_whole(0, 30, &queue, "pulse").await;
    drop(bus);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_and_comes_back_loses_and_repeats_no_tick() {
    let valkey = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let table = bus.schedules().queue("work").unwrap();
    table.put(&every("pulse", 30)).await.unwrap();
    let first_ms = table.get("pulse").await.unwrap().unwrap().next_ms.unwrap();
    let mut served = Served::start(&queue);
    let mut running = Vec::new();
    for _ in 0..3 {
        let bus = builder_on(&valkey).connect().await.unwrap();
        running.push(Running::start(&bus, &queue, BEAT));
    }
    for round in 1..=3 {
        served.until(round * 20, &queue, "pulse").await;
        if round % 2 == 0 {
            valkey.restart().unwrap();
        } else {
            valkey.kill9().unwrap();
            running[0].until(|status| status.phase == SchedulerPhase::Reconnecting).await;
            valkey.start_again().unwrap();
        }
    }
    let ticks = (first_ms..).step_by(30).take(100);
    served.until_whole(ticks, &queue, "pulse").await;
    for scheduler in running {
        scheduler.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_changes_under_schedulers_that_never_look_is_followed_at_once() {
    let (bus, queue, table) = recurring().await;
    table.put(&every("pulse", 40).payload("old")).await.unwrap();
    let mut served = Served::start(&queue);
    let running: Vec<Running> = (0..3).map(|_| Running::start(&bus, &queue, NO_BEAT)).collect();
    served.until(5, &queue, "pulse").await;
    // The payload, then the timing: what ticks after the change is as it says.
    assert_eq!(table.put(&every("pulse", 40).payload("new")).await.unwrap(), Put::Changed);
    let changed_ms = server_ms(&bus).await;
    served.until_from(changed_ms, 10, &queue, "pulse").await;
    served.assert_whole(0, 40, &queue, "pulse").await;
    let is_old = |tick: &&u64| served.ticks[*tick] == "old";
    assert_eq!(served.ticks.keys().filter(|tick| **tick > changed_ms).find(is_old), None);

    assert_eq!(table.put(&every("pulse", 70).payload("new")).await.unwrap(), Put::Changed);
    let record = table.get("pulse").await.unwrap().unwrap();
    let first_ms = record.next_ms.unwrap();
    served.until_from(first_ms, 10, &queue, "pulse").await;
    served.assert_whole(first_ms, 70, &queue, "pulse").await;
    for scheduler in running {
        scheduler.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_on_demand_stand_beside_the_ticks() {
    let (bus, queue, table) = recurring().await;
    table.put(&every("pulse", 10)).await.unwrap();
    let first_ms = table.get("pulse").await.unwrap().unwrap().next_ms.unwrap();
    let mut running: Vec<Running> = (0..2).map(|_| Running::start(&bus, &queue, BEAT)).collect();
    let mut on_demand = BTreeSet::new();
    let end_ms = first_ms + 500;
    while server_ms(&bus).await < end_ms {
        let Enqueued::Admitted(id) = table.run_now("pulse").await.unwrap() else { panic!("new") };
        on_demand.insert(id.to_string());
    }
    running[0].until(|status| status.totals.admitted + status.totals.elsewhere > 40).await;
    for scheduler in running {
        scheduler.stop().await;
    }
    let last_ms = table.get("pulse").await.unwrap().unwrap().last_ms.unwrap();
    let ticks = (first_ms..=last_ms).step_by(10).map(|at| id_of(&queue, "pulse", at).to_string());
    let ticks: BTreeSet<String> = ticks.collect();
    assert!(ticks.len() > 40 && on_demand.len() > 40);
    let jobs = strings(&queue, &["ZRANGE", queue.keys().pending(), "0", "-1"]).await;
    let jobs: BTreeSet<String> = jobs.into_iter().collect();
    assert_eq!(jobs, &ticks | &on_demand);
    assert_eq!(jobs.len(), ticks.len() + on_demand.len());
}

/// A source of chance that says how to repeat a run: with its seed in `EMQ_SCHEDULES_SEED`.
#[allow(clippy::print_stderr)]
fn random() -> fastrand::Rng {
    let given = std::env::var("EMQ_SCHEDULES_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    eprintln!("EMQ_SCHEDULES_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
