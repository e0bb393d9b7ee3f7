//! `emq enqueue`: one payload, and lines.

mod hands;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use emq_testkit::{Fsync, Valkey};
use hands::{command, emq, emq_on, emq_with, ended, fresh, run, with_queue};

/// The payloads that wait in a queue, oldest first.
fn payloads(queue: &str) -> Vec<String> {
    with_queue(queue, async |queue| {
        let ids = queue.browse(100_000).await.unwrap();
        let rows = queue.get_many(&ids).await.unwrap();
        let text = |row: emq_core::JobRecord| String::from_utf8_lossy(&row.payload).into_owned();
        rows.into_iter().rev().map(|row| text(row.unwrap())).collect()
    })
}

#[test]
fn one_payload_answers_its_id_alone() {
    let queue = fresh("one");
    let ran = emq(&["enqueue", &queue, r#"{"a": 1}"#]);
    let id: emq_keys::BrandedId = ran.ok().parse().unwrap();
    // The bytes are those that were given.
    assert_eq!(payloads(&queue), [r#"{"a": 1}"#]);
    let again = emq(&["enqueue", &queue, "2", "--id", id.as_str(), "--json"]).json();
    assert_eq!(
        (again["verdict"].as_str(), again["id"].as_str()),
        (Some("duplicate"), Some(id.as_str()))
    );
    emq(&["enqueue", &queue, "no json", "--raw"]).ok();
    assert_eq!(payloads(&queue), [r#"{"a": 1}"#, "no json"]);
}

#[test]
fn what_is_said_of_a_job_is_in_its_row() {
    let queue = fresh("said");
    let id = emq(&[
        "enqueue",
        &queue,
        "1",
        "--kind",
        "mail",
        "--unique",
        "k",
        "--max-attempts",
        "3",
        "--headers",
        r#"{"traceparent":"x"}"#,
        "--lane-name",
        "TEN:acme",
    ]);
    let row = emq(&["show", id.ok(), "--json"]).json();
    assert_eq!((row["kind"].as_str(), row["unique"].as_str()), (Some("mail"), Some("k")));
    assert_eq!(row["headers"].as_str(), Some(r#"{"traceparent":"x"}"#));
    assert_eq!((&row["max_attempts"], row["lane"].is_string()), (&3.into(), true));
    let held = emq(&["enqueue", &queue, "2", "--unique", "k", "--json"]).json();
    assert_eq!((held["verdict"].as_str(), held["id"].as_str()), (Some("held"), Some(id.ok())));
    assert!(emq(&["enqueue", &queue, "2", "--unique", "k"]).ok().contains("holds the unique key"));

    let at = emq(&["enqueue", &queue, "1", "--at", "2090-01-01T00:00:00+01:00"]);
    assert!(emq(&["show", at.ok()]).ok().contains("scheduled: it is due in"));
    let passed = emq(&["enqueue", &queue, "1", "--at", "2024-06-01T00:00:00Z"]);
    assert_eq!(emq(&["show", passed.ok(), "--json"]).json()["state"], "pending");
}

#[test]
fn each_good_line_is_a_job_and_each_bad_one_is_told_with_its_number() {
    let queue = fresh("lines");
    let large = "9".repeat(70_000);
    let input = format!("1\n{{\"n\":2}}\noops\n\n[3,\n{large}\n\"six\"");
    let ran = emq_with(&["enqueue", &queue], &input);
    assert_eq!((ran.code, ran.out.as_str()), (8, "3 enqueued, 3 bad\n"), "{ran:?}");
    let told: Vec<&str> = ran.err.lines().collect();
    assert!(told[0].starts_with("emq: line 3 is not JSON"), "{told:?}");
    assert!(told[1].starts_with("emq: line 5 is not JSON"), "{told:?}");
    assert!(told[2].starts_with("emq: line 6 is 70000 bytes"), "{told:?}");
    assert_eq!(told[3], "emq: 3 of 7 lines were not enqueued as asked");
    assert_eq!(payloads(&queue), ["1", r#"{"n":2}"#, r#""six""#]);

    let json = emq_with(&["enqueue", &queue, "-", "--json"], "1\nx\n");
    assert_eq!(json.code, 8);
    let mut lines: Vec<serde_json::Value> =
        json.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // Of lines that came together, the bad ones are told first.
    lines[..2].sort_by_key(|told| told["line"].as_u64());
    assert_eq!((&lines[0]["line"], lines[0]["verdict"].as_str()), (&1.into(), Some("admitted")));
    assert_eq!((&lines[1]["line"], lines[1]["verdict"].as_str()), (&2.into(), Some("bad")));
    assert_eq!(
        (&lines[2]["lines"], &lines[2]["admitted"], &lines[2]["bad"]),
        (&2.into(), &1.into(), &1.into())
    );

    let told = emq_with(&["enqueue", &queue, "-v"], "7\n");
    let words: Vec<&str> = told.ok().lines().next().unwrap().split(' ').collect();
    assert_eq!((words[0], words[2]), ("1", "admitted"));
    emq(&["show", words[1]]).ok();
}

#[test]
fn many_lines_keep_their_order_and_lines_of_any_bytes_go_raw() {
    let queue = fresh("many");
    let lines: String = (0..5_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(emq_with(&["enqueue", &queue], &lines).ok(), "5000 enqueued");
    let wanted: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
    assert_eq!(payloads(&queue), wanted);
    let raw = fresh("raw");
    assert_eq!(emq_with(&["enqueue", &raw, "--raw"], b"\xff\xfe\nx y\r\n").ok(), "2 enqueued");
    assert_eq!(payloads(&raw)[1], "x y");
    assert_eq!(emq_with(&["enqueue", &raw], "").ok(), "0 enqueued");
}

#[test]
fn a_line_is_enqueued_when_it_comes_and_not_when_the_input_ends() {
    let queue = fresh("slow");
    let mut command = command(&Valkey::of_this_process().url(), &["enqueue", &queue, "-v"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    for n in 1..=3 {
        stdin.write_all(format!("{n}\n").as_bytes()).unwrap();
        assert!(told.next().unwrap().unwrap().ends_with("admitted"));
        assert_eq!(payloads(&queue).len(), n);
    }
    drop(stdin);
    assert_eq!(told.next().unwrap().unwrap(), "3 enqueued");
    assert!(ended(&mut child).success());
}

#[test]
fn lines_survive_a_restart_of_the_server_and_none_is_there_twice() {
    let valkey = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    let mut command = command(&valkey.url(), &["enqueue", "q"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut send = |lines: std::ops::Range<u32>| {
        for n in lines {
            writeln!(stdin, "{n}").unwrap();
        }
    };
    send(0..3_000);
    hands::until("the first lines", || {
        valkey.cli(&["ZCARD", "emq:{q}:pending"]).unwrap() == "3000"
    });
    valkey.kill9().unwrap();
    send(3_000..4_000);
    valkey.start_again().unwrap();
    drop(stdin);
    assert!(ended(&mut child).success());
    assert_eq!(valkey.cli(&["ZCARD", "emq:{q}:pending"]).unwrap(), "4000");
}

#[test]
fn a_server_that_stays_away_is_said_with_the_place_to_go_on_from() {
    let valkey = Valkey::start().unwrap();
    let mut command = command(&valkey.url(), &["enqueue", "q", "-v"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut err = child.stderr.take().unwrap();
    stdin.write_all(b"1\n2\n").unwrap();
    assert!(told.next().unwrap().unwrap().ends_with("admitted"));
    assert!(told.next().unwrap().unwrap().ends_with("admitted"));
    valkey.kill9().unwrap();
    stdin.write_all(b"3\n").unwrap();
    assert_eq!(ended(&mut child).code(), Some(4));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut err, &mut said).unwrap();
    assert!(said.contains("every good line before line 3 is enqueued"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn durable_is_promised_by_a_server_that_can_and_refused_by_one_that_cannot() {
    let volatile = Valkey::of_this_process().url();
    let queue = fresh("durable");
    let ran = emq_on(&volatile, &["enqueue", &queue, "1", "--durable"]);
    assert!(ran.failed(1).contains("appendonly no"), "{ran:?}");
    emq(&["ls", &queue]).failed(3);
    let synced = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    emq_on(&synced.url(), &["enqueue", &queue, "1", "--durable"]).ok();
    let lines = run(command(&synced.url(), &["enqueue", &queue, "--durable"]), "1\n2\n");
    assert_eq!(lines.ok(), "2 enqueued");
}
