//! The keyspace as the server has it, read and written behind the library's back.

use std::collections::BTreeMap;

use emq_core::Queue;
use emq_keys::{BrandedId, namespace};
use emq_wire::{Cmd, Reply};

/// A tenant's id; the same name gives the same lane.
pub(crate) fn tenant(name: &str) -> BrandedId {
    BrandedId::derive(namespace!("TEN"), name.as_bytes()).unwrap()
}

/// Runs one command.
pub(crate) async fn run(queue: &Queue, args: &[&str]) -> Reply {
    let cmd = args[1..].iter().fold(Cmd::new(args[0]), Cmd::arg);
    let reply = queue.bus().fenced().connection().command(cmd).await.unwrap();
    assert!(reply.as_error().is_none(), "{args:?}: {reply:?}");
    reply
}

/// A number.
pub(crate) async fn int(queue: &Queue, args: &[&str]) -> i64 {
    let reply = run(queue, args).await;
    reply.as_int().unwrap_or_else(|| panic!("{args:?}: {reply:?}"))
}

/// A list of strings.
pub(crate) async fn strings(queue: &Queue, args: &[&str]) -> Vec<String> {
    let reply = run(queue, args).await;
    match &reply {
        Reply::Array(items) | Reply::Set(items) => items.iter().map(text).collect(),
        _ => panic!("{args:?}: {reply:?}"),
    }
}

/// A hash.
pub(crate) async fn hash(queue: &Queue, key: &str) -> BTreeMap<String, String> {
    match run(queue, &["HGETALL", key]).await {
        Reply::Map(pairs) => pairs.iter().map(|(name, value)| (text(name), text(value))).collect(),
        Reply::Array(items) => items.chunks(2).map(|two| (text(&two[0]), text(&two[1]))).collect(),
        other => panic!("{key}: {other:?}"),
    }
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap()
}

/// The lanes in the ring, from its head.
pub(crate) async fn ring(queue: &Queue) -> Vec<BrandedId> {
    let ring = strings(queue, &["LRANGE", queue.keys().ring(), "0", "-1"]).await;
    ring.iter().map(|id| id.parse().unwrap()).collect()
}

/// The jobs in a lane, from the oldest.
pub(crate) async fn lane(queue: &Queue, lane: BrandedId) -> Vec<BrandedId> {
    let key = queue.keys().lane(&lane);
    let ids = strings(queue, &["ZRANGE", &key, "0", "-1"]).await;
    ids.iter().map(|id| id.parse().unwrap()).collect()
}

/// How many wake tokens stand.
pub(crate) async fn tokens(queue: &Queue) -> i64 {
    int(queue, &["LLEN", queue.keys().wake()]).await
}

/// Takes the wake tokens away, as consumers would that are parked from now on.
pub(crate) async fn everyone_parks(queue: &Queue) {
    run(queue, &["DEL", queue.keys().wake()]).await;
}

/// The leases out, by lane.
pub(crate) async fn leases(queue: &Queue) -> BTreeMap<BrandedId, u64> {
    let counts = hash(queue, queue.keys().gactive()).await;
    counts.iter().map(|(id, n)| (id.parse().unwrap(), n.parse().unwrap())).collect()
}

/// A row's lane.
pub(crate) async fn group(queue: &Queue, id: BrandedId) -> Option<BrandedId> {
    queue.get(id).await.unwrap().unwrap().group
}
