//! The body of a script, read for what a header must tell: which keys and arguments it uses and
//! under which names, whether it asks the clock, what it refuses with, which keys it derives.

use std::collections::BTreeSet;

/// What a body does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    /// The numbers n of each `KEYS[n]`.
    pub(super) keys: BTreeSet<usize>,
    /// The numbers n of each `ARGV[n]`.
    pub(super) args: BTreeSet<usize>,
    /// `local name = KEYS[n]`.
    pub(super) key_names: Vec<(usize, String)>,
    /// `local name = ARGV[n]`.
    pub(super) arg_names: Vec<(usize, String)>,
    /// The condition on the count of keys, as `~= 5`.
    pub(super) keys_checked: Option<String>,
    /// The condition on the count of arguments, as `~= 3`, or `< 4` before a tail.
    pub(super) args_checked: Option<String>,
    pub(super) asks_clock: bool,
    /// The first words of its own errors.
    pub(super) refuses: BTreeSet<String>,
    pub(super) derives_rows: bool,
    pub(super) derives_lanes: bool,
}

impl Body {
    /// Reads the lines below the header. Comments don't count.
    pub(super) fn read(lines: &str) -> Body {
        let mut body = Body::default();
        for line in lines.lines().filter(|line| !line.trim_start().starts_with("--")) {
            body.keys.extend(indices(line, "KEYS["));
            body.args.extend(indices(line, "ARGV["));
            body.asks_clock |= line.contains("('TIME')");
            body.derives_rows |= line.contains("base .. 'job:'");
            body.derives_lanes |= line.contains("base .. 'g:' .. group .. ':pending'");
            body.keys_checked = body.keys_checked.or_else(|| condition(line, "#KEYS "));
            body.args_checked = body.args_checked.or_else(|| condition(line, "#ARGV "));
            if let Some((_, message)) = line.split_once("error_reply('") {
                let word = message.split(|c: char| !c.is_ascii_alphanumeric()).next();
                body.refuses.extend(word.map(str::to_owned));
            }
            body.bind(line.trim());
        }
        body
    }

    /// Notes the names of `local a, b = KEYS[1], ARGV[2]`.
    fn bind(&mut self, line: &str) {
        let Some((names, values)) = line.strip_prefix("local ").and_then(|l| l.split_once(" = "))
        else {
            return;
        };
        for (name, value) in names.split(", ").zip(values.split(", ")) {
            let exact = |prefix| {
                let digits = value.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(']'));
                digits.and_then(|digits| digits.parse::<usize>().ok())
            };
            if let Some(n) = exact("KEYS[") {
                self.key_names.push((n, name.to_owned()));
            } else if let Some(n) = exact("ARGV[") {
                self.arg_names.push((n, name.to_owned()));
            }
        }
    }
}

/// The numbers that follow a prefix such as `KEYS[`.
fn indices<'a>(line: &'a str, prefix: &'a str) -> impl Iterator<Item = usize> + 'a {
    line.match_indices(prefix).filter_map(move |(at, _)| {
        let rest = &line[at + prefix.len()..];
        rest[..rest.find(']')?].parse().ok()
    })
}

/// The comparison that follows `#KEYS ` or `#ARGV `: its operator and its number.
fn condition(line: &str, subject: &str) -> Option<String> {
    let (_, rest) = line.split_once(subject)?;
    let mut words = rest.split_whitespace();
    let (operator, number) = (words.next()?, words.next()?);
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    (!digits.is_empty()).then(|| format!("{operator} {digits}"))
}
