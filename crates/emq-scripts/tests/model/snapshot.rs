//! Everything that a queue's keys hold, in a form that the model's world has too.

use std::collections::{BTreeMap, BTreeSet};

use emq_keys::{BrandedId, QueueFact, QueueKeys};
use emq_wire::{Cmd, Connection, Pipeline, Reply};

/// A queue's keys, named without its base. A key that holds nothing isn't there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) keys: BTreeMap<String, Content>,
}

/// What one key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Member -> score.
    Zset(BTreeMap<String, u64>),
    /// Field -> value.
    Hash(BTreeMap<String, Vec<u8>>),
    List(Vec<String>),
    Set(BTreeSet<String>),
    /// A key that nobody expects, or one of the wrong type.
    Unknown(String),
}

impl Content {
    fn is_empty(&self) -> bool {
        match self {
            Self::Zset(members) => members.is_empty(),
            Self::Hash(fields) => fields.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Set(members) => members.is_empty(),
            Self::Unknown(_) => false,
        }
    }

    /// One line an element.
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Zset(members) => members.iter().map(|(id, at)| format!("{id} @ {at}")).collect(),
            Self::Hash(fields) => fields.iter().map(line_of_field).collect(),
            Self::List(items) => vec![items.join(" ")],
            Self::Set(members) => members.iter().cloned().collect(),
            Self::Unknown(why) => vec![why.clone()],
        }
    }
}

fn line_of_field((field, value): (&String, &Vec<u8>)) -> String {
    let text = value.escape_ascii().to_string();
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{field} = {}... ({} bytes)", &text[..at], value.len()),
        None => format!("{field} = {text}"),
    }
}

/// The facts of a queue, and how each is read.
const FACTS: [(QueueFact, &[&str]); 12] = [
    (QueueFact::Pending, &ZSET),
    (QueueFact::Active, &ZSET),
    (QueueFact::Schedule, &ZSET),
    (QueueFact::Dead, &ZSET),
    (QueueFact::Ring, &["LRANGE", "0", "-1"]),
    (QueueFact::Wake, &["LRANGE", "0", "-1"]),
    (QueueFact::Paused, &["SMEMBERS"]),
    (QueueFact::Glimit, &["HGETALL"]),
    (QueueFact::Gactive, &["HGETALL"]),
    (QueueFact::Gweight, &["HGETALL"]),
    (QueueFact::Unique, &["HGETALL"]),
    (QueueFact::Meta, &["HGETALL"]),
];

const ZSET: [&str; 4] = ["ZRANGE", "0", "-1", "WITHSCORES"];

impl Snapshot {
    /// Reads a queue in one pipeline: its facts, and the rows and lanes that may be there. Any
    /// other key of the queue is told as unknown. Answers the server's clock as well, unix ms.
    pub(crate) async fn read(
        connection: &Connection,
        keys: &QueueKeys,
        jobs: &BTreeSet<BrandedId>,
        lanes: &[BrandedId],
    ) -> (Snapshot, u64) {
        let facts = FACTS.iter().map(|(fact, how)| (keys.fact(*fact).to_owned(), *how));
        let rows = jobs.iter().map(|id| (keys.job(id), &["HGETALL"][..]));
        let waiting = lanes.iter().map(|group| (keys.lane(group), &ZSET[..]));
        let reads: Vec<(String, &[&str])> = facts.chain(rows).chain(waiting).collect();

        let mut pipeline: Pipeline = reads.iter().map(|(key, how)| read_of(key, how)).collect();
        pipeline.push(Cmd::new("KEYS").arg(format!("{}*", keys.base())));
        pipeline.push(Cmd::new("TIME"));
        let mut replies = connection.pipeline(pipeline).await.expect("the queue is read");
        let now_ms = clock(&replies.pop().expect("TIME"));
        let all = replies.pop().expect("KEYS");

        let mut snapshot = Snapshot::default();
        for ((key, how), reply) in reads.iter().zip(&replies) {
            snapshot.put(&key[keys.base().len()..], content(how[0], reply));
        }
        for key in all.as_array().expect("a list of keys") {
            let key = text(key);
            let name = &key[keys.base().len()..];
            if !snapshot.keys.contains_key(name) {
                snapshot.put(name, Content::Unknown("nobody expects this key".to_owned()));
            }
        }
        snapshot.forget_a_zero_left();
        (snapshot, now_ms)
    }

    /// `left` of 0 and none say the same: the flat set is due.
    fn forget_a_zero_left(&mut self) {
        if let Some(Content::Hash(mut meta)) = self.keys.remove("meta") {
            meta.retain(|field, value| field != "left" || value != b"0");
            self.put("meta", Content::Hash(meta));
        }
    }

    /// Adds a key, unless it holds nothing.
    pub(crate) fn put(&mut self, name: &str, content: Content) {
        if !content.is_empty() {
            self.keys.insert(name.to_owned(), content);
        }
    }

    /// Whether nothing is there at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// A sorted set's members with their scores.
    pub(crate) fn zset(&self, name: &str) -> BTreeMap<String, u64> {
        match self.keys.get(name) {
            Some(Content::Zset(members)) => members.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// A hash, as text.
    pub(crate) fn hash(&self, name: &str) -> BTreeMap<String, String> {
        match self.keys.get(name) {
            Some(Content::Hash(fields)) => fields
                .iter()
                .map(|(field, value)| (field.clone(), printable(value.clone())))
                .collect(),
            _ => BTreeMap::new(),
        }
    }

    /// A list.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        match self.keys.get(name) {
            Some(Content::List(items)) => items.clone(),
            _ => Vec::new(),
        }
    }

    /// A set.
    pub(crate) fn set(&self, name: &str) -> BTreeSet<String> {
        match self.keys.get(name) {
            Some(Content::Set(members)) => members.clone(),
            _ => BTreeSet::new(),
        }
    }

    /// The ids of every row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().filter_map(|name| name.strip_prefix("job:"))
    }

    /// The lanes that hold jobs.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().filter_map(|name| name.strip_prefix("g:")?.strip_suffix(":pending"))
    }

    /// What this one, the server's, has otherwise than the model's: a line each.
    pub(crate) fn differences(&self, model: &Snapshot) -> Vec<String> {
        if self == model {
            return Vec::new();
        }
        let names: BTreeSet<&String> = self.keys.keys().chain(model.keys.keys()).collect();
        let mut lines = Vec::new();
        for name in names {
            let of = |side: &Snapshot| side.keys.get(name).map(Content::lines).unwrap_or_default();
            let (server, model) = (of(self), of(model));
            let only = |a: &[String], b: &[String], who: &str| -> Vec<String> {
                let lines = a.iter().filter(|line| !b.contains(line));
                lines.map(|line| format!("{name}: {who} {line}")).collect()
            };
            lines.extend(only(&server, &model, "the server has"));
            lines.extend(only(&model, &server, "the model has "));
        }
        lines
    }
}

fn read_of(key: &str, how: &[&str]) -> Cmd {
    how[1..].iter().fold(Cmd::new(how[0]).arg(key), Cmd::arg)
}

fn content(how: &str, reply: &Reply) -> Content {
    if let Reply::Error(error) = reply {
        return Content::Unknown(format!("{how}: {error}"));
    }
    match how {
        "ZRANGE" => Content::Zset(pairs(reply, text, score)),
        "HGETALL" => Content::Hash(pairs(reply, text, bytes)),
        "LRANGE" => Content::List(items(reply).iter().map(text).collect()),
        _ => Content::Set(items(reply).iter().map(text).collect()),
    }
}

/// Pairs as either version of the protocol sends them.
fn pairs<V>(
    reply: &Reply,
    name: impl Fn(&Reply) -> String,
    value: impl Fn(&Reply) -> V,
) -> BTreeMap<String, V> {
    if let Reply::Map(pairs) = reply {
        return pairs.iter().map(|(left, right)| (name(left), value(right))).collect();
    }
    let items = items(reply);
    let nested = items.first().is_some_and(|item| item.as_array().is_some());
    let flat: Vec<&Reply> = match nested {
        true => items.iter().flat_map(|pair| pair.as_array().expect("a pair")).collect(),
        false => items.iter().collect(),
    };
    flat.chunks(2).map(|pair| (name(pair[0]), value(pair[1]))).collect()
}

fn items(reply: &Reply) -> &[Reply] {
    reply.as_array().unwrap_or_else(|| panic!("{reply:?} is no list"))
}

fn bytes(reply: &Reply) -> Vec<u8> {
    reply.as_bytes().unwrap_or_else(|| panic!("{reply:?} is no text")).to_vec()
}

/// Names and ids are text; what isn't differs from anything that the model has.
fn text(reply: &Reply) -> String {
    printable(bytes(reply))
}

fn printable(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| error.as_bytes().escape_ascii().to_string())
}

/// Scores are whole milliseconds from 0; anything else differs from all that the model has.
fn score(reply: &Reply) -> u64 {
    let digits = match reply {
        Reply::Double(score) => score.to_string(),
        other => text(other),
    };
    digits.parse().unwrap_or(u64::MAX)
}

fn clock(reply: &Reply) -> u64 {
    let part = |at: usize| -> u64 { text(&items(reply)[at]).parse().expect("a number") };
    part(0) * 1000 + part(1) / 1000
}
