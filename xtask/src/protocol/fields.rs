//! Which fields the scripts write into rows and into `meta`, read off their text.

use std::collections::BTreeSet;

/// Keys of hashes whose fields are lanes, unique keys, nodes or parts of schedules.
const BY_NAME: [&str; 6] = ["gactive", "glimit", "gweight", "unique", "owners", "timetable"];

/// The fields, by where they are written.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) row: BTreeSet<String>,
    pub(super) meta: BTreeSet<String>,
}

impl Written {
    /// Adds what one script writes.
    pub(super) fn add(&mut self, text: &str) {
        for verb in ["'HSET', ", "'HSETNX', "] {
            for (at, _) in text.match_indices(verb) {
                self.call(&words(&text[at + verb.len()..]), text);
            }
        }
        // The registered options travel as ARGV, so their names stand where they are checked.
        for (at, _) in text.match_indices("field ~= '") {
            if !text.contains("EMQARG options must be pairs") {
                continue;
            }
            self.row.extend(literal(&text[at + "field ~= ".len()..]));
        }
    }

    fn call(&mut self, words: &[String], text: &str) {
        let Some((key, pairs)) = words.split_first() else { return };
        let first_key = key == "KEYS[1]" && text.contains("KEYS[1] emq:{q}:meta");
        let fields = pairs.iter().step_by(2).filter_map(|word| literal(word));
        if key == "meta" || first_key {
            self.meta.extend(fields);
        } else if !BY_NAME.contains(&key.as_str()) && !key.starts_with("KEYS[") {
            self.row.extend(fields);
        }
    }
}

/// The arguments of a call, from the first on.
fn words(rest: &str) -> Vec<String> {
    let (mut words, mut word, mut depth, mut quoted) = (Vec::new(), String::new(), 0, false);
    for c in rest.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' | '[' | '{' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => break,
            ')' | ']' | '}' if !quoted => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 && !quoted {
            words.push(std::mem::take(&mut word).trim().to_owned());
        } else {
            word.push(c);
        }
    }
    words.push(word.trim().to_owned());
    words
}

/// What stands between the quotes that a text starts with.
fn literal(text: &str) -> Option<String> {
    let (name, _) = text.strip_prefix('\'')?.split_once('\'')?;
    Some(name.to_owned())
}
