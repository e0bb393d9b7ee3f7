//! `emq work`: one process a job.

mod hands;

use std::process::{Child, Stdio};

use emq_testkit::Valkey;
use hands::{code, command, emq, emq_with, ended, fresh, signal, until};

fn working(queue: &str, flags: &[&str], script: &str) -> Child {
    let args = [&["work", queue], flags, &["--", "sh", "-c", script]].concat();
    let mut command = command(&Valkey::of_this_process().url(), &args);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn folder(word: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(fresh(word));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_process_gets_its_job_and_its_end_settles_it() {
    let queue = fresh("ends");
    emq_with(&["enqueue", &queue, "--lane-name", "acme"], "0\n3\n65\n75\n").ok();
    let script = r#"read n; test "$EMQ_LANE" && test "$EMQ_TICKET" && test "$EMQ_URL" || exit 65
        test "$EMQ_ATTEMPT" = 1 || exit 0; echo first >&2; echo "end $n of $EMQ_QUEUE" >&2; exit $n"#;
    let args = [
        "work",
        &queue,
        "-c",
        "4",
        "--retry-after",
        "10ms",
        "--backoff",
        "10ms",
        "--json",
        "--until-empty",
        "--",
        "sh",
        "-c",
        script,
    ];
    let ran = emq(&args);
    let told: Vec<serde_json::Value> =
        ran.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = told.last().unwrap();
    assert_eq!((&sum["done"], &sum["retried"], &sum["dead"]), (&3.into(), &2.into(), &1.into()));
    let dead = emq(&["morgue", &queue, "--json"]).json();
    assert_eq!(dead[0]["last_error"].as_str(), Some(&*format!("end 65 of {queue}")));
}

#[test]
fn a_checkpoint_is_kept_for_the_next_attempt() {
    let queue = fresh("checkpoint");
    emq(&["enqueue", &queue, "1"]).ok();
    let script = format!(
        "test \"$EMQ_CHECKPOINT\" = half && exit 0; '{}' checkpoint half && exit 1",
        env!("CARGO_BIN_EXE_emq")
    );
    let args = ["work", &queue, "--backoff", "10ms", "--until-empty", "--", "sh", "-c", &script];
    assert_eq!(emq(&args).ok(), "1 done, 1 to be tried again");
}

#[test]
fn a_timeout_kills_the_whole_group_also_what_ignores_sigterm() {
    let (queue, folder) = (fresh("timeout"), folder("timeout"));
    emq(&["enqueue", &queue, "1", "--max-attempts", "1"]).ok();
    let pids = folder.join("pids");
    let script = stubborn(&pids);
    let args = [
        "work",
        &queue,
        "--timeout",
        "300ms",
        "--kill-after",
        "200ms",
        "--until-empty",
        "--",
        "sh",
        "-c",
        &script,
    ];
    assert_eq!(emq(&args).ok(), "0 done, 1 dead");
    end_of_both(&read(&pids));
    let dead = emq(&["morgue", &queue, "--json"]).json();
    assert!(dead[0]["last_error"].as_str().unwrap().contains("timed out"), "{dead}");
}

/// A process and its child that don't end when they are told to, and write down who they are.
fn stubborn(pids: &std::path::Path) -> String {
    format!(
        "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ >> {0}; sleep 600' & echo $$ >> {0}; wait; \
         sleep 600",
        pids.display()
    )
}

fn end_of_both(pids: &str) {
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        until("the end of the group", gone);
    }
}

#[test]
fn a_lost_lease_kills_the_whole_group_while_the_worker_goes_on() {
    let (queue, folder) = (fresh("lost"), folder("lost"));
    emq(&["enqueue", &queue, "1"]).ok();
    let pids = folder.join("pids");
    let mut worker = working(&queue, &["--lease", "1s", "--kill-after", "600s"], &stubborn(&pids));
    until("both processes", || read(&pids).lines().count() == 2);
    emq(&["pause", &queue]).ok();
    emq(&["obliterate", &queue, "--in-flight", "--yes"]).ok();
    end_of_both(&read(&pids));
    assert!(worker.try_wait().unwrap().is_none());
    signal(&worker, "TERM");
    assert_eq!(code(ended(&mut worker)), 0);
}

#[test]
fn sigterm_drains_and_a_second_one_stops_at_once() {
    let (queue, folder) = (fresh("drain"), folder("drain"));
    emq_with(&["enqueue", &queue], "1\n2\n").ok();
    let (begun, go) = (folder.join("begun"), folder.join("go"));
    let script = format!(
        "echo x >> {}; while ! test -e {}; do sleep 0.02; done",
        begun.display(),
        go.display()
    );
    let mut draining = working(&queue, &[], &script);
    until("the first job", || !read(&begun).is_empty());
    signal(&draining, "TERM");
    std::fs::write(&go, "").unwrap();
    assert_eq!(code(ended(&mut draining)), 0);
    // The first one ended as it should, and the second one was not begun.
    assert_eq!(emq(&["ls", &queue, "--json"]).json()[0]["waiting"], 1);

    std::fs::remove_file(&go).unwrap();
    std::fs::remove_file(&begun).unwrap();
    let mut cut = working(&queue, &[], &script);
    until("the second job", || !read(&begun).is_empty());
    signal(&cut, "TERM");
    signal(&cut, "TERM");
    let mut twice = || {
        signal(&cut, "TERM");
        cut.try_wait().unwrap().is_some()
    };
    until("its end", &mut twice);
    assert_eq!(code(ended(&mut cut)), 143);
    // It was handed back.
    assert_eq!(emq(&["ls", &queue, "--json"]).json()[0]["waiting"], 1);
}

#[test]
fn a_command_that_is_not_there_ends_the_worker_and_harms_no_job() {
    let queue = fresh("nothing");
    let id = emq(&["enqueue", &queue, "1"]);
    let ran = emq(&["work", &queue, "--", "/no/such/command"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("can't run /no/such/command"), "{ran:?}");
    assert_eq!(emq(&["show", id.ok(), "--json"]).json()["failures"], 0);
}
