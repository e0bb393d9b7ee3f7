//! What a contract expects of a reply, and whether a reply is that.

use emq_wire::Reply;
use serde_json::Value;

use crate::contract::Arg;
use crate::names::{Names, unhex};
use crate::show::show;

/// An expectation. `${name}` stands for its value wherever text does.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    /// Exactly this integer.
    Int(i64),
    /// Exactly these bytes.
    Text(String),
    /// Exactly these bytes.
    Hex(Vec<u8>),
    /// A text many times over.
    Repeat(String, usize),
    /// Nothing.
    Nil,
    /// Whatever comes.
    Any,
    /// A refusal of this class.
    Error(String),
    /// Bytes, where `*` stands for any number of any bytes.
    Pattern(String),
    /// A number from the first to the second.
    Range(Arg, Arg),
    /// A list of exactly these.
    List(Vec<Expect>),
    /// A list that begins with these.
    Prefix(Vec<Expect>),
    /// A list of exactly these in any order.
    Set(Vec<Expect>),
    /// A list of this many, each of them so.
    Length(usize, Option<Box<Expect>>),
    /// A flat list of fields and values: these, and others where `more` is set.
    Map(Vec<(String, Expect)>, bool),
    /// One of these.
    OneOf(Vec<Expect>),
}

impl Expect {
    /// What a reply must be.
    pub(crate) fn parse(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::Null => Self::Nil,
            Value::Number(n) => Self::Int(n.as_i64().ok_or("a number is an integer")?),
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(items) => Self::List(all(items)?),
            Value::Object(map) => Self::parse_object(map)?,
            Value::Bool(_) => return Err("no reply is a truth value".to_owned()),
        })
    }

    fn parse_object(map: &serde_json::Map<String, Value>) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or("text is expected");
        let list = |value: &Value| all(value.as_array().ok_or("a list is expected")?);
        let only = |words: &[&str]| map.keys().all(|key| words.contains(&key.as_str()));
        let count = |value: &Value| {
            value.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or("a count is expected")
        };
        Ok(match map.iter().next().map(|(key, value)| (key.as_str(), value)) {
            Some(("any", Value::Bool(true))) if only(&["any"]) => Self::Any,
            Some(("error", class)) if only(&["error"]) => Self::Error(text(class)?),
            Some(("pattern", pattern)) if only(&["pattern"]) => Self::Pattern(text(pattern)?),
            Some(("hex", hex)) if only(&["hex"]) => Self::Hex(unhex(&text(hex)?)?),
            Some(("prefix", items)) if only(&["prefix"]) => Self::Prefix(list(items)?),
            Some(("set", items)) if only(&["set"]) => Self::Set(list(items)?),
            Some(("one_of", items)) if only(&["one_of"]) => Self::OneOf(list(items)?),
            Some(("map", fields)) if only(&["map"]) => Self::parse_map(fields)?,
            Some(("range", ends)) if only(&["range"]) => {
                let ends: [Arg; 2] = serde_json::from_value(ends.clone())
                    .map_err(|_| "a range has two ends".to_owned())?;
                let [first, last] = ends;
                Self::Range(first, last)
            }
            Some((_, _)) if only(&["repeat", "times"]) && map.len() == 2 => {
                Self::Repeat(text(&map["repeat"])?, count(&map["times"])?)
            }
            Some((_, _)) if only(&["length", "each"]) && map.contains_key("length") => {
                let each = map.get("each").map(Self::parse).transpose()?;
                Self::Length(count(&map["length"])?, each.map(Box::new))
            }
            _ => return Err(format!("no expectation: {}", Value::Object(map.clone()))),
        })
    }

    /// Fields and values; a field `...` allows others.
    fn parse_map(value: &Value) -> Result<Self, String> {
        let map = value.as_object().ok_or("fields and values are expected")?;
        let mut fields = Vec::new();
        for (field, value) in map.iter().filter(|(field, _)| *field != "...") {
            fields.push((field.clone(), Self::parse(value)?));
        }
        Ok(Self::Map(fields, map.contains_key("...")))
    }

    /// What a key must hold, read as [`reading`] says.
    pub(crate) fn of_key(key: &str, value: &Value) -> Result<Self, String> {
        match (reading(key)?, value) {
            (Reading::Hash, Value::Object(_)) => Self::parse_map(value),
            (Reading::Unordered | Reading::Keys, Value::Array(items)) => Ok(Self::Set(all(items)?)),
            _ => Self::parse(value),
        }
    }

    /// Whether the reply is what is expected; what isn't, in words.
    pub(crate) fn check(&self, reply: &Reply, names: &Names) -> Result<(), String> {
        if self.accepts(reply, names)? {
            return Ok(());
        }
        Err(format!("expected {}, got {}", self.words(names), show(reply)))
    }

    fn accepts(&self, reply: &Reply, names: &Names) -> Result<bool, String> {
        let bytes = || reply.as_bytes().map(AsRef::as_ref);
        Ok(match self {
            Self::Any => true,
            Self::Nil => reply.is_nil(),
            Self::Int(n) => reply.as_int() == Some(*n),
            Self::Text(text) => bytes() == Some(&names.fill(text)?[..]),
            Self::Hex(hex) => bytes() == Some(&hex[..]),
            Self::Repeat(text, times) => bytes() == Some(text.repeat(*times).as_bytes()),
            Self::Error(class) => reply.as_error().is_some_and(|error| error.is(class)),
            Self::Pattern(pattern) => {
                let pattern = names.fill(pattern)?;
                bytes().is_some_and(|text| fits(&pattern, text))
            }
            Self::Range(first, last) => {
                let (first, last) = (names.number(first)?, names.number(last)?);
                number(reply).is_some_and(|n| first <= n && n <= last)
            }
            Self::List(items) => match reply.as_array() {
                Some(found) => found.len() == items.len() && each(items, found, names)?,
                None => false,
            },
            Self::Prefix(items) => match reply.as_array() {
                Some(found) => found.len() >= items.len() && each(items, found, names)?,
                None => false,
            },
            Self::Set(items) => match reply.as_array() {
                Some(found) => same_set(items, found, names)?,
                None => false,
            },
            Self::Length(length, one) => match reply.as_array() {
                Some(found) if found.len() == *length => match one {
                    Some(one) => each(&vec![one.as_ref().clone(); *length], found, names)?,
                    None => true,
                },
                _ => false,
            },
            Self::Map(fields, more) => match reply.as_array() {
                Some(found) => same_map(fields, *more, found, names)?,
                None => false,
            },
            Self::OneOf(choices) => {
                let mut any = false;
                for choice in choices {
                    any = any || choice.accepts(reply, names)?;
                }
                any
            }
        })
    }

    /// The expectation, for a line of a report.
    fn words(&self, names: &Names) -> String {
        let filled = |text: &str| match names.fill(text) {
            Ok(bytes) => format!("{:?}", String::from_utf8_lossy(&bytes)),
            Err(_) => format!("{text:?}"),
        };
        let list = |items: &[Self]| {
            items.iter().map(|item| item.words(names)).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Int(n) => n.to_string(),
            Self::Text(text) => filled(text),
            Self::Nil => "nil".to_owned(),
            Self::Any => "anything".to_owned(),
            Self::Hex(hex) => format!("{} bytes", hex.len()),
            Self::Repeat(text, times) => format!("{text:?} {times} times"),
            Self::Error(class) => format!("a refusal {class}"),
            Self::Pattern(pattern) => format!("a text like {}", filled(pattern)),
            Self::Range(first, last) => match (names.number(first), names.number(last)) {
                (Ok(first), Ok(last)) => format!("a number from {first} to {last}"),
                _ => "a number".to_owned(),
            },
            Self::List(items) => format!("[{}]", list(items)),
            Self::Prefix(items) => format!("[{}, ...]", list(items)),
            Self::Set(items) => format!("in any order [{}]", list(items)),
            Self::Length(length, _) => format!("a list of {length}"),
            Self::Map(fields, more) => {
                let fields = fields
                    .iter()
                    .map(|(field, value)| format!("{}: {}", filled(field), value.words(names)));
                let more = if *more { ", ..." } else { "" };
                format!("{{{}{more}}}", fields.collect::<Vec<_>>().join(", "))
            }
            Self::OneOf(choices) => format!("one of {}", list(choices)),
        }
    }
}

/// How the content of a key is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// `LRANGE 0 -1`, in order.
    List,
    /// `LLEN`: tokens are all alike.
    Count,
    /// `ZRANGE 0 -1`, in order.
    Sorted,
    /// `SMEMBERS`, in no order.
    Unordered,
    /// `HGETALL`.
    Hash,
    /// The parts of the queue's keys after its base.
    Keys,
}

/// The reading of a key by its part after the queue's base; `*` is all of the queue's keys.
pub(crate) fn reading(key: &str) -> Result<Reading, String> {
    Ok(match key {
        "*" => Reading::Keys,
        "ring" => Reading::List,
        "wake" => Reading::Count,
        "paused" => Reading::Unordered,
        "pending" | "active" | "schedule" | "dead" => Reading::Sorted,
        "glimit" | "gactive" | "gweight" | "unique" | "meta" | "timetable" => Reading::Hash,
        _ if key.starts_with("job:") => Reading::Hash,
        _ if key.starts_with("g:") && key.ends_with(":pending") => Reading::Sorted,
        _ => return Err(format!("no key of a queue: {key:?}")),
    })
}

fn all(items: &[Value]) -> Result<Vec<Expect>, String> {
    items.iter().map(Expect::parse).collect()
}

fn each(items: &[Expect], found: &[Reply], names: &Names) -> Result<bool, String> {
    for (item, reply) in items.iter().zip(found) {
        if !item.accepts(reply, names)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_set(items: &[Expect], found: &[Reply], names: &Names) -> Result<bool, String> {
    let mut left: Vec<&Reply> = found.iter().collect();
    for item in items {
        let mut place = None;
        for (n, reply) in left.iter().enumerate() {
            if place.is_none() && item.accepts(reply, names)? {
                place = Some(n);
            }
        }
        match place {
            Some(n) => drop(left.swap_remove(n)),
            None => return Ok(false),
        }
    }
    Ok(left.is_empty())
}

fn same_map(
    fields: &[(String, Expect)],
    more: bool,
    found: &[Reply],
    names: &Names,
) -> Result<bool, String> {
    if !more && found.len() != 2 * fields.len() {
        return Ok(false);
    }
    for (field, expect) in fields {
        let field = names.fill(field)?;
        let is = |pair: &&[Reply]| pair[0].as_bytes().is_some_and(|name| name[..] == field[..]);
        match found.chunks_exact(2).find(is) {
            Some(pair) if expect.accepts(&pair[1], names)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// An integer, as such or as text.
fn number(reply: &Reply) -> Option<i64> {
    let text = || std::str::from_utf8(reply.as_bytes()?).ok()?.parse().ok();
    reply.as_int().or_else(text)
}

/// Whether the text is the pattern with each `*` replaced by something.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = (0..=rest.len()).find(|at| rest[*at..].starts_with(part)) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_bytes() {
        for (pattern, text, is) in [
            ("lost * times*", "lost 3 times: gone", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*", "", true),
            ("abc", "abcd", false),
            ("*b*d", "abcd", true),
            ("*b*c", "abcd", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), is, "{pattern} {text}");
        }
    }
}
