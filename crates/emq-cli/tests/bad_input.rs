//! Bad input of every command: one clear line and the documented exit code, never a panic.

mod hands;

use std::process::Stdio;

use emq_testkit::Valkey;
use hands::{command, emq, emq_on, emq_with, ended, fresh, run};

/// Every command that goes to a server, with arguments that are otherwise right.
const REACHING: [&[&str]; 21] = [
    &["ls"],
    &["ls", "q"],
    &["lanes", "q"],
    &["show", "JOB0NgWEfAEJfs"],
    &["browse", "q"],
    &["morgue", "q"],
    &["morgue", "q", "--requeue-all"],
    &["limit", "q", "1", "--lane-name", "a"],
    &["weight", "q", "1", "--lane-name", "a"],
    &["pause", "q"],
    &["resume", "q"],
    &["cancel", "JOB0NgWEfAEJfs"],
    &["remove", "JOB0NgWEfAEJfs", "-y"],
    &["drain", "q", "-y"],
    &["obliterate", "q", "-y"],
    &["doctor"],
    &["bench", "--jobs", "1", "--samples", "1"],
    &["conform"],
    &["enqueue", "q", "1"],
    &["work", "q", "--", "true"],
    &["checkpoint", "x", "--queue", "q", "--id", "JOB0NgWEfAEJfs", "--token", "1"],
];

#[test]
fn a_server_that_is_not_there_is_said_by_every_command() {
    // A port that was free a moment ago, and that nobody listens on.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("valkey://127.0.0.1:{port}");
    std::thread::scope(|scope| {
        for args in REACHING {
            let url = &url;
            scope.spawn(move || {
                let ran = emq_on(url, args);
                let line = ran.failed(4);
                assert!(line.contains(&format!("127.0.0.1:{port}")), "{args:?}: {line}");
            });
        }
    });
    let ran = emq_on(&url, &["ls", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((ran.code, &said["exit"], &said["code"]), (4, &4.into(), &"unreachable".into()));
}

#[test]
fn a_keyspace_of_another_version_is_said_by_every_command() {
    let valkey = Valkey::start().unwrap();
    valkey.cli(&["SET", "{emq}:version", "echomq:1.0.0"]).unwrap();
    for args in REACHING {
        let ran = emq_on(&valkey.url(), args);
        let line = ran.failed(5);
        assert!(line.contains("echomq:1.0.0") && line.contains("echomq:2.0.0"), "{args:?}: {line}");
    }
    assert_eq!(valkey.cli(&["KEYS", "*"]).unwrap().trim(), "{emq}:version");
}

#[test]
fn a_wrong_password_is_said_by_every_command_and_shown_by_none() {
    let valkey = Valkey::builder().requirepass("right-one").start().unwrap();
    let wrong = valkey.url().replace("right-one", "hunter2");
    for args in REACHING {
        let ran = emq_on(&wrong, args);
        let line = ran.failed(6);
        assert!(line.contains("WRONGPASS") && !line.contains("hunter2"), "{args:?}: {line}");
    }
    let none = wrong.replace(":hunter2@", "");
    assert!(emq_on(&none, &["ls"]).failed(6).contains("NOAUTH"));
    emq_on(&valkey.url(), &["ls"]).ok();
    // Nor is it in the help, which names the variable.
    assert!(!emq_on(&wrong, &["ls", "--help"]).ok().contains("hunter2"));
}

#[test]
fn a_right_that_is_missing_is_said() {
    let rules = "on >secret ~* +@all -evalsha";
    let valkey = Valkey::builder().acl_user("ann", rules).start().unwrap();
    let ran = emq_on(&valkey.url_as("ann", "secret"), &["enqueue", "q", "1"]);
    assert!(ran.failed(6).contains("NOPERM"), "{ran:?}");
}

#[test]
fn a_queue_that_is_not_there_is_said_by_every_command_that_needs_it() {
    let nobody = fresh("nobody");
    for words in [
        "ls Q",
        "lanes Q",
        "browse Q",
        "morgue Q",
        "morgue Q --requeue-all",
        "resume Q",
        "pause Q",
        "limit Q 1 --lane-name a",
        "weight Q 1 --lane-name a",
        "drain Q -y",
        "obliterate Q -y",
        "doctor Q",
        "show JOB0NgWEfAEJfs --queue Q",
        "cancel JOB0NgWEfAEJfs --queue Q",
        "remove JOB0NgWEfAEJfs -y --queue Q",
    ] {
        let args: Vec<&str> =
            words.split(' ').map(|word| if word == "Q" { &nobody } else { word }).collect();
        let ran = emq(&args);
        assert!(ran.failed(3).contains(&format!("no queue \"{nobody}\"")), "{words}: {ran:?}");
    }
    // Nothing came to be by asking for it.
    emq(&["ls", &nobody]).failed(3);
}

#[test]
fn what_no_queue_has_is_said() {
    for args in [&["show"][..], &["cancel"], &["remove", "-y"]] {
        let ran = emq(&[args, &["JOB0NgWEfAEJfs"]].concat());
        assert!(ran.failed(3).contains("no queue has a job JOB0NgWEfAEJfs"), "{ran:?}");
    }
    let queue = fresh("gone");
    emq(&["enqueue", &queue, "1"]).ok();
    let ran = emq(&["show", "JOB0NgWEfAEJfs", "-q", &queue]);
    assert!(ran.failed(3).contains("has no job JOB0NgWEfAEJfs"), "{ran:?}");
}

#[test]
fn what_is_wrong_on_the_command_line_is_one_line_and_reaches_no_server() {
    let nowhere = "valkey://127.0.0.1:1";
    for (args, said) in [
        (&["show", "JOB"][..], "14 bytes"),
        (&["show", "JOB0NgWEfAEJf!"], "JOB0NgWEfAEJf!"),
        (&["show", "ORD0NgWEfAEJfs"], "no job"),
        (&["cancel", "x"], "14 bytes"),
        (&["morgue", "q", "--requeue", "x"], "14 bytes"),
        (&["enqueue", "a b", "1"], "queue's name"),
        (&["enqueue", "emq", "1"], "reserve"),
        (&["ls", ""], "queue's name"),
        (&["enqueue", "q", "oops"], "not JSON"),
        (&["enqueue", "q", "1", "--in", "5"], "unit"),
        (&["enqueue", "q", "1", "--at", "noon"], "zone"),
        (&["enqueue", "q", "1", "--in", "5s", "--at", "2026-12-01T09:00:00Z"], "cannot be used"),
        (&["enqueue", "q", "1", "--lane", "acme"], "14 bytes"),
        (&["enqueue", "q", "1", "--lane-name", "JOB:x"], "JOB"),
        (&["enqueue", "q", "1", "--headers", "[1]"], "JSON object"),
        (&["enqueue", "q", "1", "--id", "ORD0NgWEfAEJfs"], "no job"),
        (&["enqueue", "q", "-", "--unique", "k"], "--unique"),
        (&["limit", "q", "many", "--lane-name", "a"], "number"),
        (&["work", "q"], "CMD"),
        (&["work", "q", "--timeout", "soon", "--", "true"], "unit"),
        (&["drain"], "QUEUE"),
        (&["frobnicate"], "frobnicate"),
        (&["ls", "--frobnicate"], "--frobnicate"),
        (&["ls", "--colour", "pink"], "pink"),
        (&[], "--help"),
    ] {
        let ran = emq_on(nowhere, args);
        assert!(ran.failed(2).contains(said), "{args:?}: {ran:?}");
        assert_eq!(ran.out, "", "{args:?}");
    }
    for (url, said) in [
        ("", "EMQ_URL"),
        ("http://127.0.0.1", "scheme"),
        ("127.0.0.1:6379", "URL"),
        ("valkey://:secret@/x", "host"),
        ("valkey://127.0.0.1/orders", "database"),
    ] {
        let ran = emq_on(url, &["ls"]);
        let line = ran.failed(2);
        assert!(line.to_lowercase().contains(&said.to_lowercase()), "{url}: {line}");
        assert!(!line.contains("secret"));
    }
    let json = emq_on(nowhere, &["show", "JOB", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!((json.code, said["code"].as_str()), (2, Some("usage")));
}

#[test]
fn settings_out_of_range_are_said() {
    let queue = fresh("range");
    emq(&["enqueue", &queue, "1", "--lane-name", "a"]).ok();
    assert!(emq(&["limit", &queue, "0", "--lane-name", "a"]).failed(2).contains("ceiling"));
    assert!(emq(&["weight", &queue, "0", "--lane-name", "a"]).failed(2).contains("weight"));
    assert!(emq(&["limit", &queue, "1"]).failed(2).contains("--lane"));
    let many = emq(&["work", &queue, "-c", "0", "--", "true"]);
    assert!(many.failed(2).contains("concurrency"), "{many:?}");
    let large = format!("\"{}\"", "x".repeat(65_536));
    let ran = emq_with(&["enqueue", &queue, &large], "");
    assert!(ran.failed(2).contains("65536"), "{ran:?}");
}

#[test]
fn output_that_nobody_reads_is_no_panic() {
    let queue = fresh("closed");
    let lines: String = (0..3_000).map(|n| format!("{n}\n")).collect();
    emq_with(&["enqueue", &queue], &lines).ok();
    for args in [
        &["ls"][..],
        &["ls", "--json"],
        &["browse", &queue, "-n", "3000"],
        &["browse", &queue, "-n", "3000", "--json"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["--version"],
        &["enqueue", &queue, "1"],
    ] {
        let mut command = command(&Valkey::of_this_process().url(), args);
        // Closed before it starts: a short output would be written before it is closed here.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut err = child.stderr.take().unwrap();
        let status = ended(&mut child);
        let mut said = String::new();
        std::io::Read::read_to_string(&mut err, &mut said).unwrap();
        assert_eq!(status.code(), Some(141), "{args:?}: {said}");
        assert!(said.contains("whoever read the output closed it"), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
    }
}

#[test]
fn a_full_disk_under_the_output_is_said() {
    let mut command = command(&Valkey::of_this_process().url(), &["completions", "bash"]);
    command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut err = child.stderr.take().unwrap();
    assert_eq!(ended(&mut child).code(), Some(1));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut err, &mut said).unwrap();
    assert!(said.starts_with("emq: can't write the output") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_full_server_is_said() {
    let valkey = Valkey::start().unwrap();
    emq_on(&valkey.url(), &["enqueue", "q", "1"]).ok();
    valkey.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let ran = emq_on(&valkey.url(), &["enqueue", "q", "2"]);
    assert!(ran.failed(1).contains("out of memory"), "{ran:?}");
    // What drains still runs.
    emq_on(&valkey.url(), &["drain", "q", "-y"]).ok();
}

#[test]
fn deleting_asks_first_and_nobody_can_be_asked_here() {
    let queue = fresh("asks");
    let id = emq(&["enqueue", &queue, "1"]);
    let id = id.ok();
    emq(&["pause", &queue]).ok();
    for args in [
        &["remove", id][..],
        &["drain", &queue],
        &["drain", &queue, "--scheduled"],
        &["obliterate", &queue],
        &["morgue", &queue, "--purge-older", "7d"],
        &["morgue", &queue, "--purge-all"],
    ] {
        let ran = emq(args);
        assert!(ran.failed(10).contains("--yes"), "{args:?}: {ran:?}");
    }
    emq(&["show", id]).ok();
}

#[test]
fn help_names_every_exit_code() {
    let help = run(command("", &["--help"]), "");
    for code in ["0  done", "10  unconfirmed", "141  closed", "4  unreachable"] {
        assert!(help.ok().contains(code), "{help:?}");
    }
}
