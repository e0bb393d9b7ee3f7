//! Schedules: what an operator does with them, and what their ticks admit.

mod ground;
mod recurring;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use emq_core::{
    DrainScope, Enqueued, Error, Missed, Put, Removed, Schedule, ScheduleError, SchedulerPhase,
    Switched, Timing,
};
use emq_testkit::Valkey;
use ground::raw::{everyone_parks, hash, int, run, strings, tenant};
use ground::{builder_on, bus_on, healthy, until};
use recurring::{Running, Served, every, id_of, recurring, seldom, server_ms, wait_past};

const BEAT: Duration = Duration::from_millis(50);
/// A beat that no test waits for.
const NO_BEAT: Duration = Duration::from_secs(3_600);

fn is_schedule_error<T: std::fmt::Debug>(
    outcome: Result<T, Error>,
    is: impl Fn(&ScheduleError) -> bool,
) {
    match outcome {
        Err(Error::Schedule(error)) if is(&error) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_schedule_is_put_read_changed_and_removed() {
    let (bus, queue, table) = recurring().await;
    let nightly = Timing::cron("30 2 * * *", "Europe/Berlin").unwrap();
    let lane = tenant("acme");
    let schedule = Schedule::new("nightly", nightly.clone())
        .unwrap()
        .json(&("sales", 7))
        .unwrap()
        .lane(lane)
        .kind("report")
        .headers(r#"{"trace":"1"}"#)
        .max_attempts(3)
        .unique("nightly")
        .missed(Missed::None)
        .tolerance(Duration::from_secs(90));
    let before = server_ms(&bus).await;
    assert_eq!(table.put(&schedule).await.unwrap(), Put::Added);
    assert_eq!(table.put(&schedule).await.unwrap(), Put::Same);

    let record = table.get("nightly").await.unwrap().unwrap();
    assert_eq!(record.schedule.as_ref().unwrap(), &schedule);
    assert_eq!(record.timing, "cron Europe/Berlin 30 2 * * *");
    assert_eq!((record.last_ms, record.paused), (None, false));
    assert_eq!(record.next_ms, nightly.after(before));

    // Another payload leaves the tick; another timing has one of its own.
    let changed = schedule.clone().payload("other");
    assert_eq!(table.put(&changed).await.unwrap(), Put::Changed);
    let second = table.get("nightly").await.unwrap().unwrap();
    assert!(second.revision > record.revision);
    assert_eq!((second.next_ms, second.schedule.unwrap()), (record.next_ms, changed));
    let hourly = Schedule::new("nightly", Timing::cron("@hourly", "UTC").unwrap()).unwrap();
    assert_eq!(table.put(&hourly).await.unwrap(), Put::Changed);
    let third = table.get("nightly").await.unwrap().unwrap();
    assert_eq!(third.next_ms, hourly.timing().after(before));
    assert_eq!(third.schedule.unwrap(), hourly);

    assert_eq!(table.remove("nightly").await.unwrap(), Removed::Done);
    assert_eq!(table.remove("nightly").await.unwrap(), Removed::NoRow);
    assert_eq!(table.get("nightly").await.unwrap(), None);
    assert_eq!(int(&queue, &["EXISTS", queue.keys().timetable()]).await, 0);
}

#[tokio::test]
async fn a_long_list_is_read_in_pages_by_name() {
    let (_bus, _queue, table) = recurring().await;
    for n in 0..230 {
        table.put(&seldom(&format!("s{n:03}")).payload(format!("{n}"))).await.unwrap();
    }
    let list = table.list().await.unwrap();
    let names: Vec<&str> = list.iter().map(|record| record.name.as_str()).collect();
    let expected: Vec<String> = (0..230).map(|n| format!("s{n:03}")).collect();
    assert_eq!(names, expected);
    for (n, record) in list.iter().enumerate() {
        let payload = record.schedule.as_ref().unwrap().job_payload();
        assert_eq!(payload, n.to_string().as_bytes());
    }
}

#[tokio::test]
async fn what_is_wrong_is_refused_by_type_before_it_is_written() {
    let (_bus, queue, table) = recurring().await;
    let timing = Timing::every(Duration::from_secs(1)).unwrap();
    for name in ["", "a:b", "a b", "ä", &"x".repeat(129)] {
        let refused = Schedule::new(name, timing.clone());
        assert!(matches!(refused, Err(ScheduleError::Name { .. })), "{name}: {refused:?}");
        is_schedule_error(table.get(name).await, |it| matches!(it, ScheduleError::Name { .. }));
        is_schedule_error(table.remove(name).await, |it| matches!(it, ScheduleError::Name { .. }));
    }
    let setting = |outcome: Result<Put, Error>, of: &str| {
        assert!(matches!(&outcome, Err(Error::Setting { what, .. }) if *what == of), "{outcome:?}");
    };
    setting(table.put(&seldom("s").kind("")).await, "kind");
    setting(table.put(&seldom("s").unique("")).await, "unique");
    setting(table.put(&seldom("s").headers("")).await, "headers");
    setting(table.put(&seldom("s").headers("h".repeat(65_536))).await, "headers");
    setting(table.put(&seldom("s").max_attempts(0)).await, "max_attempts");
    let large = table.put(&seldom("s").payload(vec![0; 100_000])).await;
    assert!(matches!(large, Err(Error::PayloadTooLarge { .. })), "{large:?}");
    is_schedule_error(table.pause("s").await, |it| matches!(it, ScheduleError::Unknown { .. }));
    is_schedule_error(table.resume("s").await, |it| matches!(it, ScheduleError::Unknown { .. }));
    is_schedule_error(table.run_now("s").await, |it| matches!(it, ScheduleError::Unknown { .. }));
    assert_eq!(int(&queue, &["EXISTS", queue.keys().timetable()]).await, 0);
}

/// Two names of one queue whose jobs would have the same ids at each common tick.
#[tokio::test]
async fn a_name_whose_ids_are_those_of_another_schedule_is_refused() {
    let (_bus, queue, table) = recurring().await;
    let mut seen = HashMap::new();
    let (first, second) = (0..)
        .map(|n| format!("s{n}"))
        .find_map(|name| {
            let id = id_of(&queue, &name, 1_800_000_000_000);
            seen.insert(id, name.clone()).map(|other| (other, name))
        })
        .unwrap();
    assert_eq!(table.put(&seldom(&first)).await.unwrap(), Put::Added);
    let clash = table.put(&seldom(&second)).await;
    is_schedule_error(clash, |it| matches!(it, ScheduleError::Clash { .. }));
    assert_eq!(table.put(&seldom(&first).payload("x")).await.unwrap(), Put::Changed);
    // Its ids are free when it goes.
    table.remove(&first).await.unwrap();
    assert_eq!(table.put(&seldom(&second)).await.unwrap(), Put::Added);
}

#[tokio::test]
async fn a_tick_admits_what_its_schedule_says() {
    let (bus, queue, table) = recurring().await;
    let lane = tenant("acme");
    let said = every("pulse", 100).lane(lane).kind("report").headers("{}").max_attempts(3);
    table.put(&said.unique("pulse").payload("now")).await.unwrap();
    everyone_parks(&queue).await;
    let mut running = Running::start(&bus, &queue, NO_BEAT);
    running.until(|status| status.totals.admitted == 1).await;
    // The key is held by the first job, so that the ticks that follow have none.
    running.until(|status| status.totals.held >= 2).await;
    let totals = running.stop().await;
    assert_eq!((totals.admitted, totals.duplicate), (1, 0));

    let ids = queue.browse(10).await.unwrap();
    let record = table.get("pulse").await.unwrap().unwrap();
    let tick_ms = record.last_ms.unwrap();
    let lanes = ground::raw::lane(&queue, lane).await;
    assert_eq!((ids.len(), lanes), (0, vec![id_of(&queue, "pulse", tick_ms)]));
    let job = queue.get(id_of(&queue, "pulse", tick_ms)).await.unwrap().unwrap();
    assert_eq!((job.id.unix_ms(), tick_ms % 100), (tick_ms, 0));
    let row = hash(&queue, &queue.keys().job(&job.id)).await;
    let row: Vec<(&str, &str)> = row.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let group = lane.to_string();
    assert_eq!(
        row,
        [
            ("attempts", "0"),
            ("group", group.as_str()),
            ("headers", "{}"),
            ("kind", "report"),
            ("max_attempts", "3"),
            ("payload", "now"),
            ("state", "pending"),
            ("unique", "pulse"),
        ]
    );
    assert_eq!(ground::raw::tokens(&queue).await, 1);
    healthy(&queue).await;
}

#[tokio::test]
async fn one_is_run_now_beside_its_ticks_and_also_while_it_is_paused() {
    let (_bus, queue, table) = recurring().await;
    let lane = tenant("acme");
    table.put(&seldom("yearly").lane(lane).kind("report").payload("p")).await.unwrap();
    let before = table.get("yearly").await.unwrap().unwrap();
    table.pause("yearly").await.unwrap();
    let Enqueued::Admitted(first) = table.run_now("yearly").await.unwrap() else { panic!("new") };
    let Enqueued::Admitted(second) = table.run_now("yearly").await.unwrap() else { panic!("new") };
    assert_eq!(ground::raw::lane(&queue, lane).await, [first, second]);
    let job = queue.get(second).await.unwrap().unwrap();
    assert_eq!(
        (job.kind.as_deref(), queue.payload(second).await.unwrap()),
        (Some("report"), "p".into())
    );
    let after = table.get("yearly").await.unwrap().unwrap();
    assert_eq!((after.next_ms, after.last_ms), (before.next_ms, None));
}

#[tokio::test]
async fn a_pause_stops_the_ticks_and_is_not_made_up() {
    let (bus, queue, table) = recurring().await;
    table.put(&every("pulse", 30)).await.unwrap();
    // This one never looks: what it knows of a pause it learns from its ticks.
    let mut running = Running::start(&bus, &queue, NO_BEAT);
    running.until(|status| status.totals.admitted >= 3).await;
    assert_eq!(table.pause("pulse").await.unwrap(), Switched::Changed);
    let paused_ms = server_ms(&bus).await;
    assert_eq!(table.pause("pulse").await.unwrap(), Switched::Already);
    let at_pause = table.get("pulse").await.unwrap().unwrap();
    assert!(at_pause.paused);
    let depth = queue.depth().await.unwrap();
    running.until(|status| status.schedules == 0).await;
    wait_past(&bus, paused_ms + 120).await;
    assert_eq!(queue.depth().await.unwrap(), depth);

    assert_eq!(table.resume("pulse").await.unwrap(), Switched::Changed);
    let resumed = table.get("pulse").await.unwrap().unwrap();
    assert!(resumed.next_ms.unwrap() > paused_ms + 120 && !resumed.paused);
    assert_eq!(table.resume("pulse").await.unwrap(), Switched::Already);
    running.stop().await;
    // One that starts now finds it resumed.
    let mut running = Running::start(&bus, &queue, NO_BEAT);
    running.until(|status| status.totals.admitted >= 2).await;
    running.stop().await;
    queue.drain(DrainScope::Waiting).await.unwrap();
    let last_ms = table.get("pulse").await.unwrap().unwrap().last_ms.unwrap();
    assert!(last_ms >= resumed.next_ms.unwrap());
}

/// The timetable as ten intervals without a scheduler leave it, in the middle of the eleventh.
#[tokio::test]
async fn each_missed_tick_the_last_one_or_none_has_a_job() {
    const HOUR_MS: u64 = 3_600_000;
    let (bus, queue, table) = recurring().await;
    let half_ms = HOUR_MS / 2;
    let offset_ms = (server_ms(&bus).await + half_ms) % HOUR_MS;
    let timing = Timing::every(Duration::from_millis(HOUR_MS)).unwrap();
    let timing = timing.offset(Duration::from_millis(offset_ms)).unwrap();
    let names = [("all", Missed::All), ("last", Missed::Last), ("none", Missed::None)];
    for (name, missed) in names {
        table.put(&Schedule::new(name, timing.clone()).unwrap().missed(missed)).await.unwrap();
    }
    let coming_ms = table.get("all").await.unwrap().unwrap().next_ms.unwrap();
    let first_ms = coming_ms - 10 * HOUR_MS;
    for (name, _) in names {
        let (key, field) = (queue.keys().timetable(), format!("{name}:next"));
        run(&queue, &["HSET", key, &field, &first_ms.to_string()]).await;
    }
    let mut running = Running::start(&bus, &queue, NO_BEAT);
    running.until(|status| status.totals.admitted >= 11 && status.totals.passed >= 1).await;
    let totals = running.stop().await;
    assert_eq!((totals.admitted, totals.passed), (11, 1));

    let waiting = strings(&queue, &["ZRANGE", queue.keys().pending(), "0", "-1"]).await;
    let jobs: HashSet<&str> = waiting.iter().map(String::as_str).collect();
    for missed in 0..10 {
        let had_a_job =
            |name: &str| jobs.contains(id_of(&queue, name, first_ms + missed * HOUR_MS).as_str());
        assert!(had_a_job("all"), "all {missed}");
        assert_eq!(had_a_job("last"), missed == 9, "last {missed}");
        assert!(!had_a_job("none"), "none {missed}");
    }
    // All of them go on with the tick that is to come.
    for (name, _) in names {
        let next_ms = table.get(name).await.unwrap().unwrap().next_ms;
        assert_eq!(next_ms, Some(coming_ms), "{name}");
    }
}

#[tokio::test]
async fn a_new_schedule_is_noticed_within_a_beat_and_an_idle_scheduler_only_looks() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let scheduler_bus = builder_on(&valkey).connect().await.unwrap();
    let mut running = Running::start(&scheduler_bus, &queue, BEAT);
    running.until(|status| status.totals.looks >= 1).await;
    let (before, looks) = (scheduler_bus.counters().commands, running.status.borrow().totals.looks);
    let begun = Instant::now();
    running.until(|status| status.totals.looks >= looks + 5).await;
    // A beat is between two looks; the first of them may have been due at once.
    assert!(begun.elapsed() >= 4 * BEAT, "{:?}", begun.elapsed());
    let looks = running.status.borrow().totals.looks - looks;
    // Each look asks for the time and one revision.
    let sent = scheduler_bus.counters().commands - before;
    assert!(sent <= 2 * (looks + 1), "{sent} commands in {looks} looks");

    let table = bus.schedules().queue("work").unwrap();
    table.put(&every("pulse", 20)).await.unwrap();
    running.until(|status| status.totals.admitted >= 3).await;
    table.remove("pulse").await.unwrap();
    running.until(|status| status.schedules == 0).await;
    assert_eq!(running.status.borrow().totals.elsewhere, 0);
    running.stop().await;
}

#[tokio::test]
async fn one_that_a_newer_version_wrote_is_left_alone_and_the_others_tick() {
    let (bus, queue, table) = recurring().await;
    table.put(&every("odd", 20)).await.unwrap();
    table.put(&every("torn", 20)).await.unwrap();
    table.put(&every("pulse", 20)).await.unwrap();
    let key = queue.keys().timetable();
    run(&queue, &["HSET", key, "odd:timing", "moon full"]).await;
    run(&queue, &["HSET", key, "torn:next", "x", "torn:options", "{"]).await;
    let mut running = Running::start(&bus, &queue, BEAT);
    running.until(|status| status.totals.admitted >= 3).await;
    assert_eq!(running.status.borrow().schedules, 1);
    running.stop().await;
    let record = table.get("odd").await.unwrap().unwrap();
    assert!(matches!(record.schedule, Err(ScheduleError::Unreadable { .. })), "{record:?}");
    let resume = async {
        table.pause("odd").await.unwrap();
        table.resume("odd").await
    };
    is_schedule_error(resume.await, |it| matches!(it, ScheduleError::Unreadable { .. }));
    // Options that this version doesn't know are passed over.
    run(&queue, &["HSET", key, "pulse:options", r#"{"missed":"all","moon":1}"#]).await;
    let pulse = table.get("pulse").await.unwrap().unwrap().schedule.unwrap();
    assert_eq!(pulse.missed_ticks(), Missed::All);
}

#[tokio::test]
async fn a_timetable_of_another_type_stops_no_other_queue() {
    let (bus, queue, table) = recurring().await;
    let broken = bus.queue(ground::fresh_name()).unwrap();
    run(&broken, &["SET", broken.keys().timetable(), "x"]).await;
    table.put(&every("pulse", 20)).await.unwrap();
    let queues = [broken.name().as_str(), queue.name().as_str()];
    let scheduler = bus.schedules().scheduler(queues).unwrap().beat(BEAT);
    let mut status = scheduler.status();
    let task = tokio::spawn(scheduler.run(std::future::pending()));
    let ticks = status.wait_for(|status| status.totals.admitted >= 3);
    ground::soon("the ticks", ticks).await.unwrap();
    task.abort();
}

#[tokio::test]
async fn a_queue_that_is_obliterated_has_no_schedules_left() {
    let (_bus, queue, table) = recurring().await;
    table.put(&seldom("yearly")).await.unwrap();
    let _job = table.run_now("yearly").await.unwrap();
    assert!(matches!(queue.obliterate().await, Err(Error::State { .. })));
    assert_eq!(table.list().await.unwrap().len(), 1);
    queue.pause().await.unwrap();
    assert_eq!(queue.obliterate().await.unwrap(), 1);
    assert_eq!(table.list().await.unwrap(), []);
    // Also one that has nothing else.
    table.put(&seldom("yearly")).await.unwrap();
    queue.pause().await.unwrap();
    assert_eq!(queue.obliterate().await.unwrap(), 0);
    assert_eq!(table.list().await.unwrap(), []);
}

#[tokio::test]
async fn a_full_server_keeps_the_ticks_until_there_is_room() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let table = bus.schedules().queue("work").unwrap();
    table.put(&every("pulse", 20)).await.unwrap();
    let mut served = Served::start(&queue);
    let mut running = Running::start(&bus, &queue, BEAT);
    served.until(3, &queue, "pulse").await;
    valkey.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    running.until(|status| status.phase == SchedulerPhase::Reconnecting).await;
    let full = table.put(&every("other", 20)).await;
    assert!(matches!(full, Err(Error::OutOfMemory { .. })), "{full:?}");
    // Pausing needs no room.
    table.pause("pulse").await.unwrap();
    table.resume("pulse").await.unwrap();
    let resumed_ms = table.get("pulse").await.unwrap().unwrap().next_ms.unwrap();
    wait_past(&bus, resumed_ms + 100).await;
    valkey.cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    served.ticks.retain(|tick, _| *tick >= resumed_ms);
    served.until(10, &queue, "pulse").await;
    served.assert_whole(resumed_ms, 20, &queue, "pulse").await;
    running.stop().await;
}

#[tokio::test]
async fn a_scheduler_of_a_closed_bus_says_why_it_ends() {
    let (_bus, queue, _table) = recurring().await;
    let bus = emq_core::Bus::connect(&Valkey::of_this_process().url()).await.unwrap();
    let scheduler = bus.schedules().scheduler([queue.name().as_str()]).unwrap().beat(BEAT);
    let status = scheduler.status();
    let task = tokio::spawn(scheduler.run(std::future::pending()));
    until("a look", async || status.borrow().totals.looks > 0).await;
    bus.close().await;
    let ended = ground::soon("the end", task).await.unwrap();
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    assert_eq!(status.borrow().phase, SchedulerPhase::Stopped);
    let none = bus.schedules().scheduler::<&str>([]);
    assert!(matches!(none, Err(Error::Setting { .. })));
}
