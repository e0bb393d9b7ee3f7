//! What the tests of `emq top` and `emq serve` stand on: a real server with something to see, and
//! waiting for signs instead of for time.
#![allow(dead_code)] // Each test binary uses a part of it.

pub(crate) mod http;
pub(crate) mod screen;

use std::time::Duration;

use emq_core::{Bus, Enqueued, Failure, NewJob, Queue};
use emq_keys::{BrandedId, Namespace, namespace};
use emq_testkit::Valkey;

/// How long a test waits for what must happen. Only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A lease that no test outlives.
pub(crate) const LONG: Duration = Duration::from_secs(600);
/// A queue's name as long as they come.
pub(crate) const LONG_NAME: &str = "as-long-as-the-name-of-a-queue-may-be.\
    as-long-as-the-name-of-a-queue-may-be.as-long-as-the-name-of-a-queue-may-be.the-end-of-it.";
/// What must come out of no page and no screen as it is.
pub(crate) const HOSTILE: &str = "<script>document.title='owned'</script>\"'>\
    <img src=x onerror=document.title='owned'>\u{1b}[2J";

/// The tenant of a number.
pub(crate) fn tenant(n: u64) -> BrandedId {
    BrandedId::derive(namespace!("TEN"), n.to_string().as_bytes()).unwrap()
}

pub(crate) async fn bus_on(valkey: &Valkey) -> Bus {
    Bus::connect(&valkey.url()).await.unwrap()
}

pub(crate) async fn admit(queue: &Queue, payload: impl AsRef<[u8]>) -> BrandedId {
    match queue.enqueue(payload).await.unwrap() {
        Enqueued::Admitted(id) => id,
        other => panic!("{other:?}"),
    }
}

/// A dead letter.
pub(crate) async fn bury(queue: &Queue, payload: impl AsRef<[u8]>, error: &str) -> BrandedId {
    let id = admit(queue, payload).await;
    let lease = queue.claim(LONG).await.unwrap().unwrap();
    assert_eq!(lease.id(), id);
    lease.retry(&Failure::new(error).dead()).await.unwrap();
    id
}

/// One job in each of the lanes of so many tenants.
pub(crate) async fn fill_lanes(queue: &Queue, tenants: u64) {
    let mut jobs = Vec::new();
    for n in 0..tenants {
        jobs.push(NewJob::new(queue.bus().mint_job().await.unwrap(), "x").lane(tenant(n)));
    }
    assert_eq!(queue.enqueue_many(&jobs).await.unwrap().len() as u64, tenants);
}

/// Names of jobs that wait in a queue's flat set, put there by hand: a watcher counts them and
/// never reads their rows.
pub(crate) fn plant_waiting(valkey: &Valkey, queue: &str, jobs: u64) {
    const AT_ONCE: u64 = 50_000;
    let key = format!("emq:{{{queue}}}:pending");
    let first = BrandedId::min_for(Namespace::JOB, 1_764_489_600_000).unwrap().snowflake();
    for start in (0..jobs).step_by(AT_ONCE as usize) {
        let mut args = vec!["ZADD".to_owned(), key.clone()];
        for n in start..jobs.min(start + AT_ONCE) {
            let id = BrandedId::encode(Namespace::JOB, first + n).unwrap();
            args.extend(["0".to_owned(), id.to_string()]);
        }
        valkey.cli(&args).unwrap();
    }
}

/// How often the server ran a command so far.
pub(crate) fn calls(valkey: &Valkey, command: &str) -> u64 {
    let info = valkey.cli(&["INFO", "commandstats"]).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    let calls = line.and_then(|line| line.strip_prefix("calls="));
    calls.and_then(|rest| rest.split(',').next()).map_or(0, |n| n.parse().unwrap())
}

/// How many commands the server ran so far.
pub(crate) fn commands(valkey: &Valkey) -> u64 {
    let info = valkey.cli(&["INFO", "stats"]).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.unwrap().trim().parse().unwrap()
}

/// Looks until a condition holds. For states of the server, which sends no signals.
pub(crate) async fn until<F>(what: &str, mut holds: F)
where
    F: AsyncFnMut() -> bool,
{
    let looks = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, looks).await;
    assert!(outcome.is_ok(), "{what} took more than {PATIENCE:?}");
}
