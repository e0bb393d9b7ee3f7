//! `emq schedules`, from a shell, on a real server.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};

use emq_core::{Bus, Job, Worker};
use emq_testkit::Valkey;
use serde_json::Value;

fn command(valkey: &Valkey, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_emq"));
    command.args(["--url", &valkey.url(), "--json", "schedules"]).args(args);
    command
}

fn emq(valkey: &Valkey, args: &[&str]) -> Output {
    command(valkey, args).output().unwrap()
}

/// What a command that succeeds writes.
fn said(valkey: &Valkey, args: &[&str]) -> Value {
    let output = emq(valkey, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One line on standard error, and the exit code.
fn refused(valkey: &Valkey, args: &[&str]) -> i32 {
    let output = emq(valkey, args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!error.contains("panicked"), "{args:?}: {error}");
    output.status.code().unwrap()
}

#[test]
fn schedules_are_added_listed_paused_resumed_and_removed() {
    let valkey = Valkey::start().unwrap();
    let daily = ["add", "reports", "nightly", "{\"of\":\"sales\"}", "--cron", "30 2 * * *"];
    let daily = [&daily[..], &["--zone", "Europe/Berlin", "--kind", "report"]].concat();
    let added = said(&valkey, &daily);
    assert_eq!(added["outcome"], "added");
    assert_eq!(said(&valkey, &daily)["outcome"], "same");
    let changed = [&daily[..], &["--missed", "all"]].concat();
    assert_eq!(said(&valkey, &changed)["outcome"], "changed");
    assert_eq!(said(&valkey, &["add", "mails", "pulse", "--every", "90s"])["outcome"], "added");

    // Queues are found by their timetables, too.
    let list = said(&valkey, &["list"]);
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["pulse", "nightly"]);
    let row = &said(&valkey, &["list", "reports"])[0];
    assert_eq!((&row["missed"], &row["kind"]), (&"all".into(), &"report".into()));
    assert_eq!(row["timing"], "cron Europe/Berlin 30 2 * * *");
    assert_eq!((&row["next"], &row["paused"]), (&added["next"], &false.into()));

    let paused = ["pause", "reports", "nightly"];
    assert_eq!(said(&valkey, &paused)["changed"], true);
    assert_eq!(said(&valkey, &paused)["changed"], false);
    assert_eq!(said(&valkey, &["list", "reports"])[0]["paused"], true);
    assert_eq!(said(&valkey, &["run-now", "reports", "nightly"])["outcome"], "enqueued");
    assert_eq!(said(&valkey, &["resume", "reports", "nightly"])["changed"], true);
    assert_eq!(said(&valkey, &["remove", "reports", "nightly"])["outcome"], "removed");
    assert_eq!(said(&valkey, &["list", "reports"]), serde_json::json!([]));
}

#[test]
fn what_is_wrong_has_its_exit_code() {
    let valkey = Valkey::start().unwrap();
    for (args, code) in [
        (&["add", "q", "s"][..], 2),
        (&["add", "q", "s", "--every", "1ms"], 2),
        (&["add", "q", "s", "--every", "soon"], 2),
        (&["add", "q", "s", "--cron", "* * * * *"], 2),
        (&["add", "q", "s", "--cron", "61 * * * *", "--zone", "UTC"], 2),
        (&["add", "q", "s", "--cron", "* * * * *", "--zone", "Mars/Base"], 2),
        (&["add", "q", "s", "--cron", "0 0 30 2 *", "--zone", "UTC"], 2),
        (&["add", "q", "a:b", "--every", "1h"], 2),
        (&["add", "q", "s", "no json", "--every", "1h"], 2),
        (&["add", "a b", "s", "--every", "1h"], 2),
        (&["pause", "q", "s"], 3),
        (&["resume", "q", "s"], 3),
        (&["run-now", "q", "s"], 3),
        (&["remove", "q", "s"], 3),
        (&["run"], 2),
    ] {
        assert_eq!(refused(&valkey, args), code, "{args:?}");
    }
    assert_eq!(said(&valkey, &["list"]), serde_json::json!([]));
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_scheduler_in_a_shell_admits_ticks_until_it_is_told_to_end() {
    let valkey = Valkey::start().unwrap();
    let args = ["add", "work", "pulse", "tick", "--raw", "--every", "50ms", "--missed", "all"];
    said(&valkey, &args);
    let bus = Bus::connect(&valkey.url()).await.unwrap();
    let (tell, mut ticks) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::builder(&bus.queue("work").unwrap())
        .handler(move |job: Job<bytes::Bytes>| {
            let told = tell.send((job.id().unix_ms(), job.payload.clone()));
            async move { told.map_err(emq_core::JobError::from) }
        })
        .start()
        .unwrap();
    let spawn = || {
        let mut command = command(&valkey, &["run", "work", "--beat", "100ms"]);
        Running(command.stdout(Stdio::piped()).spawn().unwrap())
    };
    let mut running = [spawn(), spawn()];
    let mut last = None;
    for _ in 0..10 {
        let (tick, payload) = ticks.recv().await.unwrap();
        assert_eq!(payload, "tick");
        assert!(last.is_none_or(|last| tick == last + 50), "{tick} after {last:?}");
        last = Some(tick);
    }
    let mut admitted = 0;
    for Running(child) in &mut running {
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(child.wait().unwrap().success());
        let mut output = String::new();
        child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        let totals: Value = serde_json::from_str(&output).unwrap();
        admitted += totals["admitted"].as_u64().unwrap();
    }
    assert!(admitted >= 10, "{admitted}");
    drop(worker);
}
