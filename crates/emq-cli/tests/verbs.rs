//! What an operator does to queues, lanes and jobs.

mod hands;

use std::time::Duration;

use emq_core::{Cancelled, Error};
use emq_testkit::Valkey;
use hands::{emq, emq_on, emq_with, fresh, with_queue};

#[test]
fn a_queue_and_a_lane_are_paused_and_resumed() {
    let queue = fresh("pause");
    emq(&["enqueue", &queue, "1"]).ok();
    assert_eq!(emq(&["pause", &queue]).ok(), format!("{queue} is paused"));
    assert_eq!(emq(&["pause", &queue]).ok(), format!("{queue} is paused, as before"));
    let paused = with_queue(&queue, async |queue| queue.counts().await.unwrap().paused);
    assert!(paused);
    let open = emq(&["resume", &queue, "--json"]).json();
    assert_eq!((&open["paused"], &open["changed"]), (&false.into(), &true.into()));
    let lane = emq(&["pause", &queue, "--lane-name", "acme", "--json"]).json();
    assert_eq!((&lane["paused"], lane["lane"].is_string()), (&true.into(), true));
    assert!(emq(&["resume", &queue, "--lane-name", "acme"]).ok().ends_with("is open"));
    // A queue that has nothing yet is set on purpose only.
    let new = fresh("new");
    assert!(emq(&["pause", &new]).failed(3).contains("--new"));
    emq(&["pause", &new, "--new"]).ok();
    emq(&["ls", &new]).ok();
}

#[test]
fn a_lane_is_bounded_and_weighted() {
    let queue = fresh("bound");
    emq(&["enqueue", &queue, "1", "--lane-name", "acme"]).ok();
    let said = emq(&["limit", &queue, "2", "--lane-name", "acme"]);
    assert!(said.ok().starts_with("at most 2 of lane LAN"), "{said:?}");
    emq(&["weight", &queue, "4", "--lane-name", "acme"]).ok();
    let lane = &emq(&["lanes", &queue, "--json"]).json()[0];
    assert_eq!((&lane["ceiling"], &lane["weight"]), (&2.into(), &4.into()));
    let id = lane["lane"].as_str().unwrap();
    let none = emq(&["limit", &queue, "none", "--lane", id, "--json"]).json();
    assert_eq!((&none["ceiling"], &none["changed"]), (&serde_json::Value::Null, &true.into()));
}

#[test]
fn jobs_are_cancelled_and_removed_by_their_ids_alone() {
    let queue = fresh("cancel");
    let ids: Vec<String> =
        (0..4).map(|n| emq(&["enqueue", &queue, &n.to_string()]).ok().to_owned()).collect();
    assert_eq!(emq(&["cancel", &ids[1]]).ok(), format!("{} cancelled ({queue})", ids[1]));
    let held = with_queue(&queue, async |queue| {
        queue.claim(Duration::from_secs(60)).await.unwrap().unwrap().id().to_string()
    });
    assert_eq!(held, ids[0]);
    let asked = emq(&["cancel", &held, "--json"]).json();
    assert!(asked["outcome"].as_str().unwrap().contains("asked to stop"), "{asked}");
    let again =
        with_queue(&queue, async |queue| queue.cancel(held.parse().unwrap()).await.unwrap());
    assert_eq!(again, Cancelled::Asked);
    // One that is held can't be removed.
    assert!(emq(&["remove", &held, "-y"]).failed(7).contains("state"));
    let three = emq(&["remove", &ids[2], "JOB0NgWEfAEJfs", &ids[3], "-y", "-q", &queue]);
    assert_eq!((three.code, three.out.lines().count()), (8, 3), "{three:?}");
    assert!(three.err.contains("1 of 3 jobs failed"), "{three:?}");
    emq(&["show", &ids[3]]).failed(3);
}

#[test]
fn an_id_that_two_queues_have_is_no_guess() {
    let valkey = Valkey::start().unwrap();
    let emq = |args: &[&str]| emq_on(&valkey.url(), args);
    let id = emq(&["enqueue", "one", "1"]);
    let id = id.ok();
    emq(&["enqueue", "two", "2", "--id", id]).ok();
    assert!(emq(&["cancel", id]).failed(2).contains("one and two"));
    emq(&["cancel", id, "-q", "two"]).ok();
    assert!(emq(&["show", id]).ok().contains("of one"));
}

#[test]
fn what_waits_is_drained_and_what_is_scheduled_only_when_said() {
    let queue = fresh("drain");
    emq_with(&["enqueue", &queue], "1\n2\n3\n").ok();
    emq_with(&["enqueue", &queue, "--lane-name", "a"], "1\n2\n").ok();
    emq_with(&["enqueue", &queue, "--lane-name", "b"], "1\n").ok();
    emq(&["enqueue", &queue, "1", "--in", "1h"]).ok();
    assert_eq!(emq(&["drain", &queue, "--lane-name", "a", "-y"]).ok(), "2 deleted");
    assert_eq!(emq(&["drain", &queue, "-y", "--json"]).json()["deleted"], 4);
    assert_eq!(emq(&["drain", &queue, "-y", "--scheduled"]).ok(), "1 deleted");
    emq(&["ls", &queue]).failed(3);
}

#[test]
fn a_queue_is_taken_down_when_it_is_paused_and_nothing_is_in_flight() {
    let queue = fresh("down");
    emq_with(&["enqueue", &queue], "1\n2\n").ok();
    assert!(emq(&["obliterate", &queue, "-y"]).failed(7).contains("isn't paused"));
    let lease = with_queue(&queue, async |queue| {
        queue.claim(Duration::from_secs(600)).await.unwrap().unwrap().hold().clone()
    });
    emq(&["pause", &queue]).ok();
    assert!(emq(&["obliterate", &queue, "-y"]).failed(7).contains("--in-flight"));
    let gone = emq(&["obliterate", &queue, "-y", "--in-flight", "--json"]).json();
    assert_eq!(gone["removed"], 2);
    emq(&["ls", &queue]).failed(3);
    let late = with_queue(&queue, async |queue| {
        queue.extend(&lease, Duration::from_secs(60)).await.unwrap_err()
    });
    assert!(matches!(late, Error::Stale { .. }), "{late:?}");
}

#[test]
fn the_doctor_finds_mends_and_says_so_by_its_code() {
    let valkey = Valkey::start().unwrap();
    let emq = |args: &[&str]| emq_on(&valkey.url(), args);
    assert!(emq(&["doctor"]).ok().contains("no queues"));
    let id = emq(&["enqueue", "q", "1"]);
    let id = id.ok();
    emq(&["enqueue", "other", "1"]).ok();
    assert_eq!(emq(&["doctor"]).ok().lines().count(), 2);
    valkey.cli(&["ZREM", "emq:{q}:pending", id]).unwrap();
    let found = emq(&["doctor", "q"]);
    assert_eq!(found.code, 9, "{found:?}");
    assert!(
        found.out.contains(&format!("job {id} is pending and in no set (stands)")),
        "{found:?}"
    );
    assert!(found.failed(9).contains("--repair"));
    let json = emq(&["doctor", "q", "--json"]);
    let seen: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, &seen["healthy"]), (9, &false.into()));
    let mended = emq(&["doctor", "q", "--repair"]);
    assert!(mended.ok().contains("(mended)"), "{mended:?}");
    assert!(emq(&["doctor", "q"]).ok().starts_with("q: sound"));
}
