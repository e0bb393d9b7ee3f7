//! The examples run against real servers, and do what they say.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use echomq::{Bus, JobState};
use emq_testkit::Valkey;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// How long a test waits for what must happen. Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds an example as this test was built, and says where it is.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let profile = tests.ancestors().nth(2).unwrap();
    let mut build = std::process::Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--example", name]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success());
    profile.join("examples").join(name)
}

/// Runs an example to its end; without a server it starts its own.
async fn run(name: &str, valkey: Option<&Valkey>) -> String {
    let mut command = Command::new(example(name));
    command.env_remove("EMQ_VALKEY_URL").kill_on_drop(true);
    if let Some(valkey) = valkey {
        command.env("EMQ_VALKEY_URL", valkey.url());
    }
    let ran = timeout(PATIENCE, command.output()).await;
    let ran = ran.unwrap_or_else(|_| panic!("{name} took more than {PATIENCE:?}")).unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test]
async fn the_quick_start_enqueues_and_works_its_job() {
    let said = run("quickstart", Some(&Valkey::start().unwrap())).await;
    assert!(said.contains("ORD0NgWEfAEJfs owes 4200"), "{said}");
    assert!(said.ends_with("1 job done\n"), "{said}");
}

#[tokio::test]
async fn the_small_tenant_doesnt_wait_for_the_storm() {
    let said = run("tenants", Some(&Valkey::start().unwrap())).await;
    assert!(said.contains("40 wait, ceiling Some(2), weight 1"), "{said}");
    assert!(said.contains("12 wait, ceiling None, weight 3"), "{said}");
    let place = said.lines().find_map(|line| {
        line.strip_prefix("small: the last of 4 jobs started at place ")?.parse::<u32>().ok()
    });
    // Small is through after four turns of at most six jobs, give or take the four slots. In one
    // flat queue it would have waited for the fifty-two jobs before its own.
    assert!(place.unwrap() <= 28, "{said}");
    let at_once = said.lines().find_map(|line| line.strip_prefix("storm had at most "));
    assert!(matches!(at_once.unwrap().as_bytes()[0], b'1' | b'2'), "{said}");
    assert!(said.ends_with("56 jobs done\n"), "{said}");
}

#[tokio::test]
async fn a_killed_process_leaves_its_checkpoint_to_the_next() {
    // By itself, as a reader would run it.
    let said = run("checkpoints", None).await;
    assert!(said.contains("first process: attempt 1 begins after step 0\n"), "{said}");
    assert!(said.contains("first process: killed\nattempt 2 begins after step 2\n"), "{said}");
    assert!(said.contains("step 10 is saved\ndone in attempt "), "{said}");
    assert!(!said.contains("first process: done"), "{said}");
}

#[tokio::test]
async fn a_terminated_worker_finishes_what_is_short_and_hands_back_what_is_long() {
    let valkey = Valkey::start().unwrap();
    let mut worker = Command::new(example("sigterm"))
        .env("EMQ_VALKEY_URL", valkey.url())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let pid = worker.id().unwrap();
    let mut said = BufReader::new(worker.stdout.take().unwrap()).lines();
    let at_work = timeout(PATIENCE, said.next_line()).await.unwrap().unwrap();
    assert_eq!(at_work, Some(format!("process {pid} is at work")));
    let term = format!("kill -TERM {pid}");
    assert!(Command::new("sh").args(["-c", &term]).status().await.unwrap().success());
    let last = timeout(PATIENCE, said.next_line()).await.unwrap().unwrap();
    assert_eq!(last.as_deref(), Some("1 finished, 1 handed back"));
    assert!(worker.wait().await.unwrap().success());

    // The long job waits; it may be claimed at once.
    let queue = Bus::connect(&valkey.url()).await.unwrap().queue("exports").unwrap();
    let ids = queue.browse(9).await.unwrap();
    assert_eq!(ids.len(), 1);
    let job = queue.get(ids[0]).await.unwrap().unwrap();
    assert_eq!((job.failures(), job.attempts, job.state), (0, 1, JobState::Pending));
}
