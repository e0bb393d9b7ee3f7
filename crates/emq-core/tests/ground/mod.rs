//! What the tests of this crate stand on: real servers, and signals instead of sleeps.
#![allow(dead_code)] // Each test binary uses a part of it.

pub(crate) mod crew;
pub(crate) mod proxy;
pub(crate) mod raw;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use emq_core::{Bus, BusBuilder, Enqueued, Error, Phase, Queue, Worker};
use emq_keys::BrandedId;
use emq_testkit::Valkey;

/// How long a test waits for what must happen. Only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// A lease that no test outlives.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A bus on the server that the tests of one binary share, and a queue of the test's own.
pub(crate) async fn shared() -> (Bus, Queue) {
    let bus = Bus::connect(&Valkey::of_this_process().url()).await.unwrap();
    let queue = bus.queue(fresh_name()).unwrap();
    (bus, queue)
}

/// A bus and a queue on a server of the test's own.
pub(crate) async fn bus_on(valkey: &Valkey) -> (Bus, Queue) {
    let bus = builder_on(valkey).connect().await.unwrap();
    let queue = bus.queue("work").unwrap();
    (bus, queue)
}

/// A bus that comes back fast after its server did.
pub(crate) fn builder_on(valkey: &Valkey) -> BusBuilder {
    Bus::builder(&valkey.url()).unwrap().configure(|config| config.reconnect(emq_wire_reconnect()))
}

fn emq_wire_reconnect() -> emq_wire::Reconnect {
    emq_wire::Reconnect {
        base: Duration::from_millis(5),
        cap: Duration::from_millis(50),
        call_wait: Duration::from_millis(200),
        initial_wait: Duration::from_secs(5),
    }
}

/// A queue's name that no other test has, on a shared server too.
pub(crate) fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("t{}-{}-{n}", std::process::id(), since.as_nanos())
}

/// Enqueues a new job.
pub(crate) async fn admit(queue: &Queue, payload: impl AsRef<[u8]>) -> BrandedId {
    admitted(queue.enqueue(payload).await)
}

/// The id of a job that must be new.
pub(crate) fn admitted(outcome: Result<Enqueued, Error>) -> BrandedId {
    match outcome.unwrap() {
        Enqueued::Admitted(id) => id,
        other => panic!("{other:?}"),
    }
}

/// Lets the doctor say that nothing is out of order.
pub(crate) async fn healthy(queue: &Queue) {
    let report = queue.doctor().examine().await.unwrap();
    assert!(report.is_healthy(), "{report:#?}");
}

/// Waits for a future that must come to an end.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} took more than {PATIENCE:?}"),
    }
}

/// Looks until a condition holds. For states of the server, which sends no signals.
pub(crate) async fn until<F>(what: &str, mut holds: F)
where
    F: AsyncFnMut() -> bool,
{
    soon(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Waits for a worker's phase.
pub(crate) async fn phase(worker: &Worker, wanted: Phase) {
    let mut status = worker.status();
    let reached = async { status.wait_for(|status| status.phase == wanted).await.is_ok() };
    assert!(soon(&format!("{wanted:?}"), reached).await);
}

/// The fields of a row, as the server has them.
pub(crate) async fn row(bus: &Bus, queue: &Queue, id: BrandedId) -> Vec<String> {
    let cmd = emq_wire::Cmd::new("HKEYS").arg(queue.keys().job(&id));
    let reply = bus.fenced().connection().command(cmd).await.unwrap();
    let mut fields: Vec<String> = reply
        .as_array()
        .unwrap()
        .iter()
        .map(|field| String::from_utf8_lossy(field.as_bytes().unwrap()).into_owned())
        .collect();
    fields.sort();
    fields
}

/// How often a server has run a command so far.
pub(crate) fn calls(valkey: &Valkey, command: &str) -> u64 {
    let info = valkey.cli(&["INFO", "commandstats"]).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    let calls = line.and_then(|line| line.strip_prefix("calls="));
    calls.and_then(|rest| rest.split(',').next()).map_or(0, |n| n.parse().unwrap())
}

/// How many commands a server has run in all.
pub(crate) fn commands(valkey: &Valkey) -> u64 {
    let info = valkey.cli(&["INFO", "stats"]).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.unwrap().trim().parse().unwrap()
}
