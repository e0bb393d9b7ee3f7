//! Processes that are killed, and processes that share a file.
//!
//! The other process is this test binary again, with a variable that says what it shall do.
#![cfg(feature = "sqlite")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use emq_keys::{BrandedId, Namespace, namespace};
use emq_stores::sqlite::Sqlite;
use emq_stores::{Absorbed, Store, StoreError};
use tempfile::TempDir;
use tokio::task::JoinSet;

const KIND: Namespace = namespace!("POS");
const FILE: &str = "EMQ_TEST_CHILD_FILE";
const ROWS: u64 = 5;
const JOBS: u64 = 2_000;

fn row(number: u64) -> BrandedId {
    BrandedId::encode(KIND, number).unwrap()
}

fn job(number: u64) -> BrandedId {
    BrandedId::encode(Namespace::JOB, number).unwrap()
}

/// What the other process does: it delivers every job, eight at a time, and says each that was
/// answered. In this process it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(file) = std::env::var(FILE) else { return };
    let store: Store<u64> = Sqlite::open(file).await.unwrap().store(KIND);
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (store, next) = (store.clone(), Arc::clone(&next));
        workers.spawn(async move {
            loop {
                let by = next.fetch_add(1, Ordering::Relaxed);
                if by >= JOBS {
                    return;
                }
                deliver(&store, by).await;
            }
        });
    }
    workers.join_all().await;
}

async fn deliver(store: &Store<u64>, by: u64) {
    let effect = move |sum: &mut u64| {
        *sum += by;
        by
    };
    let answer = loop {
        match store.absorb(row(by % ROWS), job(by), effect).await {
            Err(StoreError::Unavailable(_)) => {}
            answer => break answer.unwrap(),
        }
    };
    let word = if answer == Absorbed::Applied { "applied" } else { "declined" };
    // One write, so that lines of several workers don't mix; a killed reader is no fault.
    let _ = std::io::stdout().write_all(format!("\n{word} {by}\n").as_bytes());
}

/// A child, which is killed when the test ends.
struct Other {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Other {
    fn start(file: &Path) -> Other {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(FILE, file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Other { process, lines }
    }

    /// The next job that was applied, after an answer to each that was declined.
    fn next_applied(&mut self) -> Option<u64> {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if let Some(by) = line.strip_prefix("applied ") {
                return Some(by.trim().parse().unwrap());
            }
            line.clear();
        }
        None
    }

    /// Kills it as `kill -9` does, and answers what it still said.
    fn kill(mut self) -> Vec<u64> {
        self.process.kill().unwrap();
        std::iter::from_fn(|| self.next_applied()).collect()
    }

    /// Waits for its end, and answers what it said.
    fn end(mut self) -> Vec<u64> {
        let applied = std::iter::from_fn(|| self.next_applied()).collect();
        assert!(self.process.wait().unwrap().success());
        applied
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every row is the sum of the names that it remembers, each of which contributed itself. Answers
/// the names.
async fn whole(file: &Path) -> BTreeSet<u64> {
    let store: Store<u64> = Sqlite::open(file).await.unwrap().store(KIND);
    let mut all = BTreeSet::new();
    for at in 0..ROWS {
        let mut sum = 0;
        for kept in store.absorbed(row(at), usize::MAX, None).await.unwrap() {
            let by: u64 = serde_json::from_slice(&kept.contribution).unwrap();
            assert_eq!(kept.name.job(), job(by));
            sum += by;
            all.insert(by);
        }
        assert_eq!(store.get(row(at)).await.unwrap().unwrap_or(0), sum, "row {at} is torn");
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_nothing_it_acknowledged_and_tears_nothing() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("desk.db");
    let mut acknowledged = BTreeSet::new();
    for answers in [1, 40, 7, 113, 2, 64, 300, 19] {
        let mut other = Other::start(&file);
        for _ in 0..answers {
            let by = other.next_applied().expect("it ended too soon");
            assert!(acknowledged.insert(by), "{by} was applied twice");
        }
        for by in other.kill() {
            assert!(acknowledged.insert(by), "{by} was applied twice");
        }
        let kept = whole(&file).await;
        assert!(acknowledged.is_subset(&kept), "an acknowledged job is not remembered");
        // What was committed and not said any more: the next process is declined.
        acknowledged = kept;
    }
    for by in Other::start(&file).end() {
        assert!(acknowledged.insert(by), "{by} was applied twice");
    }
    assert_eq!(whole(&file).await, (0..JOBS).collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_share_a_fresh_file_apply_each_job_once() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("desk.db");
    let others: Vec<_> = (0..4).map(|_| Other::start(&file)).collect();
    let mut applied: Vec<_> = others.into_iter().flat_map(Other::end).collect();
    applied.sort_unstable();
    assert_eq!(applied, (0..JOBS).collect::<Vec<_>>());
    assert_eq!(whole(&file).await, (0..JOBS).collect());
}
