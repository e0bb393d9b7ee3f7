//! The two changes of the clock in a year, on a real server: a schedule that has stood still since
//! before them makes up each of its ticks.

mod ground;
mod recurring;

use std::collections::BTreeSet;
use std::time::Duration;

use emq_core::{Missed, Schedule, Timing};
use emq_keys::BrandedId;
use ground::raw::{run, strings};
use jiff::Timestamp;
use recurring::{Running, id_of, recurring, server_ms};

fn unix_ms(time: &str) -> u64 {
    u64::try_from(time.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
}

/// The ticks that had a job from one moment up to another, as UTC, when a schedule stood still since
/// before them.
async fn made_up(expression: &str, zone: &str, from: &str, until: &str) -> Vec<String> {
    let (bus, queue, table) = recurring().await;
    let timing = Timing::cron(expression, zone).unwrap();
    let schedule = Schedule::new("daily", timing.clone()).unwrap().missed(Missed::All);
    table.put(&schedule).await.unwrap();
    let first_ms = timing.after(unix_ms(from)).unwrap().to_string();
    run(&queue, &["HSET", queue.keys().timetable(), "daily:next", &first_ms]).await;
    let mut running = Running::start(&bus, &queue, Duration::from_secs(3_600));
    let now_ms = server_ms(&bus).await;
    ground::until("all ticks", async || {
        let next_ms = table.get("daily").await.unwrap().unwrap().next_ms;
        next_ms.is_some_and(|next_ms| next_ms > now_ms)
    })
    .await;
    running.until(|status| status.totals.admitted > 0).await;
    let totals = running.stop().await;

    let jobs = strings(&queue, &["ZRANGE", queue.keys().pending(), "0", "-1"]).await;
    let ids: BTreeSet<BrandedId> = jobs.iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!((totals.admitted, totals.duplicate), (ids.len() as u64, 0));
    let within = unix_ms(from)..unix_ms(until);
    let ticks = ids.iter().map(BrandedId::unix_ms).filter(|tick| within.contains(tick));
    let ticks: Vec<u64> = ticks.collect();
    assert!(ticks.iter().all(|tick| ids.contains(&id_of(&queue, "daily", *tick))));
    let utc = |tick: &u64| Timestamp::from_millisecond(i64::try_from(*tick).unwrap()).unwrap();
    ticks.iter().map(|tick| utc(tick).to_string()).collect()
}

#[tokio::test]
async fn a_fixed_time_in_the_gap_has_one_job_after_it() {
    // Berlin skips 02:00 to 03:00 on 30 March 2025, New York on 9 March.
    assert_eq!(
        made_up("30 2 * * *", "Europe/Berlin", "2025-03-29T00:00:00Z", "2025-04-01T00:00:00Z")
            .await,
        ["2025-03-29T01:30:00Z", "2025-03-30T01:00:00Z", "2025-03-31T00:30:00Z"]
    );
    assert_eq!(
        made_up("30 2 * * *", "America/New_York", "2025-03-08T00:00:00Z", "2025-03-11T00:00:00Z")
            .await,
        ["2025-03-08T07:30:00Z", "2025-03-09T07:00:00Z", "2025-03-10T06:30:00Z"]
    );
}

#[tokio::test]
async fn a_fixed_time_that_comes_twice_has_one_job_at_the_first() {
    // Berlin repeats 02:00 to 03:00 on 26 October 2025, New York 01:00 to 02:00 on 2 November.
    assert_eq!(
        made_up("30 2 * * *", "Europe/Berlin", "2025-10-25T00:00:00Z", "2025-10-28T00:00:00Z")
            .await,
        ["2025-10-25T00:30:00Z", "2025-10-26T00:30:00Z", "2025-10-27T01:30:00Z"]
    );
    assert_eq!(
        made_up("30 1 * * *", "America/New_York", "2025-11-01T00:00:00Z", "2025-11-04T00:00:00Z")
            .await,
        ["2025-11-01T05:30:00Z", "2025-11-02T05:30:00Z", "2025-11-03T06:30:00Z"]
    );
}

#[tokio::test]
async fn any_other_expression_follows_local_time_as_it_comes() {
    // Nothing in the gap.
    assert_eq!(
        made_up("*/30 2 * * *", "Europe/Berlin", "2025-03-30T00:00:00Z", "2025-04-01T00:00:00Z")
            .await,
        ["2025-03-31T00:00:00Z", "2025-03-31T00:30:00Z"]
    );
    // And all of it twice.
    assert_eq!(
        made_up("*/30 1 * * *", "America/New_York", "2025-11-02T00:00:00Z", "2025-11-03T12:00:00Z")
            .await,
        [
            "2025-11-02T05:00:00Z",
            "2025-11-02T05:30:00Z",
            "2025-11-02T06:00:00Z",
            "2025-11-02T06:30:00Z",
            "2025-11-03T06:00:00Z",
            "2025-11-03T06:30:00Z"
        ]
    );
}
