//! What is seen of queues, lanes and jobs, by people and by scripts.

mod hands;

use std::time::Duration;

use emq_core::Failure;
use emq_testkit::Valkey;
use hands::{emq, emq_on, emq_with, fresh, with_queue};

/// The columns of a table's line.
fn words(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
}

/// The job at the head, claimed and failed for good.
fn bury(queue: &str, error: &str) -> String {
    with_queue(queue, async |queue| {
        let lease = queue.claim(Duration::from_secs(60)).await.unwrap().unwrap();
        let _ = lease.retry(&Failure::new(error).dead()).await.unwrap();
        lease.id().to_string()
    })
}

#[test]
fn ls_counts_what_each_queue_has() {
    let valkey = Valkey::start().unwrap();
    let emq = |args: &[&str]| emq_on(&valkey.url(), args);
    assert_eq!(emq(&["ls"]).ok(), "no queues: none has a job or a setting");
    assert_eq!(emq(&["ls", "--json"]).json(), serde_json::json!([]));

    emq(&["enqueue", "mail", "1"]).ok();
    emq(&["enqueue", "mail", "2", "--lane-name", "acme"]).ok();
    emq(&["enqueue", "mail", "3", "--in", "1h"]).ok();
    emq(&["enqueue", "orders", "1"]).ok();
    emq(&["pause", "orders"]).ok();
    let table = emq(&["ls"]);
    let lines: Vec<&str> = table.ok().lines().collect();
    let head = ["QUEUE", "WAITING", "IN FLIGHT", "SCHEDULED", "DEAD", "LANES", "OLDEST", "STATE"];
    assert_eq!(words(lines[0]), head);
    assert_eq!(words(lines[1])[..6], ["mail", "2", "0", "1", "0", "1"]);
    assert_eq!((words(lines[2])[0], words(lines[2])[7], lines.len()), ("orders", "paused", 3));
    assert!(!table.out.contains('\u{1b}'), "no colour where there is no terminal");
    assert!(emq(&["ls", "--colour", "always"]).ok().contains('\u{1b}'));

    let rows = emq(&["--json", "ls"]).json();
    let mail = &rows[0];
    assert_eq!(
        (&mail["waiting"], &mail["in_lanes"], &mail["scheduled"]),
        (&2.into(), &1.into(), &1.into())
    );
    assert!(mail["oldest_wait_ms"].is_u64());
    assert_eq!((&rows[1]["paused"], rows[1]["queue"].as_str()), (&true.into(), Some("orders")));
    assert_eq!(emq(&["ls", "orders", "--json"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn lanes_come_the_fullest_first() {
    let queue = fresh("lanes");
    emq(&["enqueue", &queue, "1", "--lane-name", "TEN:small"]).ok();
    emq_with(&["enqueue", &queue, "--lane-name", "TEN:big"], "1\n2\n3\n").ok();
    emq(&["limit", &queue, "2", "--lane-name", "TEN:big"]).ok();
    emq(&["weight", &queue, "3", "--lane-name", "TEN:big"]).ok();
    emq(&["pause", &queue, "--lane-name", "TEN:small"]).ok();
    let rows = emq(&["lanes", &queue, "--json"]).json();
    let big = emq_keys::BrandedId::derive(emq_keys::namespace!("TEN"), b"big").unwrap();
    assert_eq!(rows[0]["lane"].as_str(), Some(big.as_str()));
    assert_eq!(
        (&rows[0]["waiting"], &rows[0]["ceiling"], &rows[0]["weight"]),
        (&3.into(), &2.into(), &3.into())
    );
    assert_eq!((&rows[1]["paused"], &rows[1]["serviceable"]), (&true.into(), &false.into()));

    let table = emq(&["lanes", &queue]);
    let lines: Vec<&str> = table.ok().lines().collect();
    assert_eq!(words(lines[1]), [big.as_str(), "3", "0", "2", "3", "ready"]);
    assert_eq!(words(lines[2])[5], "paused");
    assert_eq!(
        emq(&["lanes", &queue, "-n", "1"]).ok().lines().last(),
        Some("and 1 more; -n 0 shows all")
    );
}

#[test]
fn show_explains_a_job_by_its_id_alone() {
    let queue = fresh("show");
    let id = emq(&["enqueue", &queue, r#"{"to":"a"}"#, "--kind", "mail", "--max-attempts", "3"]);
    let id = id.ok();
    let shown = emq(&["show", id]);
    let text = shown.ok();
    assert!(text.starts_with(&format!("{id}  of {queue}\n")), "{text}");
    assert!(text.contains("pending: it is the next of its lane"), "{text}");
    assert!(
        text.contains("kind        mail") && text.contains(r#"10 bytes: {"to":"a"}"#),
        "{text}"
    );
    let row = emq(&["show", id, "--json", "--queue", &queue]).json();
    assert_eq!((row["standing"].as_str(), &row["ahead"]), (Some("waiting"), &0.into()));
    assert_eq!(
        (&row["max_attempts"], row["payload"]["text"].as_str()),
        (&3.into(), Some(r#"{"to":"a"}"#))
    );
    assert!(row["minted"].as_str().unwrap().ends_with('Z') && row["age_ms"].is_u64());

    let holder = with_queue(&queue, async |queue| {
        let lease = queue.claim(Duration::from_secs(60)).await.unwrap().unwrap();
        lease.ticket().unwrap().to_owned()
    });
    let held = emq(&["show", id]);
    assert!(
        held.ok().contains("active: its lease ends in") && held.out.contains(&holder),
        "{held:?}"
    );
    let row = emq(&["show", id, "--json"]).json();
    assert!(row["left_ms"].as_u64().unwrap() <= 60_000 && row["holder"].as_str() == Some(&holder));
    let flying = emq(&["browse", &queue, "--state", "in-flight", "--json"]).json();
    assert_eq!(
        (flying[0]["id"].as_str(), flying[0]["holder"].as_str()),
        (Some(id), Some(&*holder))
    );
}

#[test]
fn what_stands_in_a_job_cannot_command_the_terminal() {
    let queue = fresh("hostile");
    let hostile = "\u{1b}]0;owned\u{7}\r\u{1b}[2J";
    let id = with_queue(&queue, async |queue| queue.enqueue(hostile).await.unwrap().id());
    let id = id.to_string();
    for args in [&["show", &id][..], &["browse", &queue]] {
        let seen = emq(args);
        assert!(!seen.ok().contains(['\u{1b}', '\u{7}', '\r']), "{seen:?}");
        assert!(seen.out.contains("\\u{1b}[2J"), "{seen:?}");
    }
    bury(&queue, hostile);
    let seen = emq(&["morgue", &queue]);
    assert!(!seen.ok().contains('\u{1b}') && seen.out.contains("owned"), "{seen:?}");
}

#[test]
fn browse_lists_what_waits_and_what_is_scheduled() {
    let queue = fresh("browse");
    let first = emq(&["enqueue", &queue, "\"one\""]);
    let second = emq(&["enqueue", &queue, "\"two\""]);
    let laned = emq(&["enqueue", &queue, "\"three\"", "--lane-name", "acme"]);
    let later = emq(&["enqueue", &queue, "\"four\"", "--in", "2h"]);
    let table = emq(&["browse", &queue]);
    let lines: Vec<&str> = table.ok().lines().collect();
    assert_eq!((words(lines[1])[0], words(lines[2])[0]), (second.ok(), first.ok()));
    assert_eq!(words(lines[1]).last(), Some(&"\"two\""));
    assert_eq!(emq(&["browse", &queue, "-n", "1", "--json"]).json().as_array().unwrap().len(), 1);
    let in_lane = emq(&["browse", &queue, "--lane-name", "acme", "--json"]).json();
    assert_eq!(in_lane[0]["id"].as_str(), Some(laned.ok()));
    let due = emq(&["browse", &queue, "--state", "scheduled"]);
    assert!(due.ok().contains(later.ok()) && due.out.contains("1 h 59 min"), "{due:?}");
    let due = emq(&["browse", &queue, "--state", "scheduled", "--json"]).json();
    assert!((7_000_000..=7_200_000).contains(&due[0]["left_ms"].as_u64().unwrap()), "{due}");
    assert_eq!(emq(&["browse", &queue, "--state", "in-flight"]).ok(), "there is none");
}

#[test]
fn the_morgue_is_listed_requeued_and_purged() {
    let queue = fresh("morgue");
    emq_with(&["enqueue", &queue], "1\n2\n3\n4\n").ok();
    let dead: Vec<String> = (1..=4).map(|n| bury(&queue, &format!("broken {n}"))).collect();
    let table = emq(&["morgue", &queue, "-n", "3"]);
    let lines: Vec<&str> = table.ok().lines().collect();
    assert_eq!((words(lines[1])[0], words(lines[1])[4]), (&*dead[3], "broken 4"));
    assert_eq!(lines[4], "and 1 more");
    let rows = emq(&["morgue", &queue, "--json"]).json();
    assert_eq!(rows[3]["last_error"].as_str(), Some("broken 1"));

    let back = emq(&["morgue", &queue, "--requeue", &dead[0]]);
    assert_eq!(back.ok(), format!("{} requeued ({queue})", dead[0]));
    // It isn't dead any more: one line and the code for a verb that doesn't fit.
    emq(&["morgue", &queue, "--requeue", &dead[0]]).failed(7);
    let two = emq(&["morgue", &queue, "--json", "--requeue", &dead[0], "--requeue", &dead[1]]);
    assert_eq!(two.code, 8, "{two:?}");
    let outcomes: Vec<&str> = two.out.lines().collect();
    assert!(outcomes[0].contains("failed") && outcomes[1].contains("requeued"), "{two:?}");

    let nothing = emq(&["morgue", &queue, "--purge-older", "1d", "--yes", "--json"]).json();
    assert_eq!(nothing["purged"], 0);
    assert_eq!(emq(&["morgue", &queue, "--requeue-all"]).ok(), "2 requeued");
    bury(&queue, "again");
    emq(&["morgue", &queue, "--purge-all"]).failed(10);
    assert_eq!(emq(&["morgue", &queue, "--purge-all", "-y"]).ok(), "1 purged");
    assert_eq!(emq(&["morgue", &queue]).ok(), format!("the morgue of {queue} is empty"));
}
