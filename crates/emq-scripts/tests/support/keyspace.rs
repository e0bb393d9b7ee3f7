//! A whole keyspace, or one queue's, as text that two moments can be compared by.

use std::collections::BTreeMap;

use emq_wire::{Cmd, Connection, Pipeline, Reply};

/// Key -> its type and content, one line an element, in an order of their own.
pub(crate) type Snapshot = BTreeMap<String, Vec<String>>;

/// Everything that matches a pattern.
pub(crate) async fn snapshot(connection: &Connection, pattern: &str) -> Snapshot {
    let keys = connection.command(Cmd::new("KEYS").arg(pattern)).await.unwrap();
    let keys: Vec<_> = keys.as_array().unwrap().iter().map(|key| key.as_bytes().unwrap()).collect();
    if keys.is_empty() {
        return Snapshot::new();
    }
    let types: Pipeline = keys.iter().map(|key| Cmd::new("TYPE").arg(key)).collect();
    let types = connection.pipeline(types).await.unwrap();
    let types: Vec<String> = types.iter().map(text).collect();
    let reads: Pipeline = keys
        .iter()
        .zip(&types)
        .map(|(key, kind)| match kind.as_str() {
            "string" => Cmd::new("GET").arg(key),
            "hash" => Cmd::new("HGETALL").arg(key),
            "list" => Cmd::new("LRANGE").arg(key).int(0).int(-1),
            "set" => Cmd::new("SMEMBERS").arg(key),
            "zset" => Cmd::new("ZRANGE").arg(key).int(0).int(-1).arg("WITHSCORES"),
            other => panic!("a key of type {other}"),
        })
        .collect();
    let reads = connection.pipeline(reads).await.unwrap();
    let contents = types.iter().zip(&reads).map(|(kind, read)| content(kind, read));
    keys.iter().map(|key| printable(key)).zip(contents).collect()
}

fn content(kind: &str, read: &Reply) -> Vec<String> {
    let items: Vec<String> = match read {
        Reply::Array(items) => items.iter().map(text).collect(),
        one => vec![text(one)],
    };
    let mut lines: Vec<String> = match kind {
        "hash" | "zset" => {
            items.chunks(2).map(|pair| format!("{} = {}", pair[0], pair[1])).collect()
        }
        _ => items,
    };
    if kind != "list" {
        lines.sort();
    }
    lines.insert(0, format!("({kind})"));
    lines
}

fn text(reply: &Reply) -> String {
    printable(reply.as_bytes().unwrap_or_else(|| panic!("{reply:?} is no text")))
}

fn printable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
