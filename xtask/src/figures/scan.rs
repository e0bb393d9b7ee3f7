//! Finds the numbers in a text that look measured.

use super::unit::Unit;

/// A number that looks measured.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// Where it starts, in bytes.
    pub(super) at: usize,
    /// As it stands there, its unit included.
    pub(super) text: String,
    /// Its digits without separators: `13153`, `0.42`.
    pub(super) value: String,
    pub(super) unit: Unit,
}

impl Figure {
    /// Whether both say the same.
    pub(super) fn is(&self, other: &Figure) -> bool {
        self.value == other.value && self.unit == other.unit
    }
}

/// Words after which a number names something.
const NAMES: &[&str] = &[
    "chapter",
    "chapters",
    "rung",
    "section",
    "decision",
    "gate",
    "law",
    "version",
    "revision",
    "port",
    "Valkey",
    "Redis",
    "Rust",
    "rustc",
    "PostgreSQL",
    "SQLite",
    "Python",
    "Node",
    "Oban",
    "BullMQ",
    "apalis",
    "Debian",
    "Apache",
    "Elixir",
    "RESP",
    "TLS",
    "Docker",
    "Linux",
    "Ubuntu",
    "and",
];

/// Number words that stand before a unit.
const WORDS: &[(&str, &str)] = &[
    ("half", "0.5"),
    ("quarter", "0.25"),
    ("third", "0.33"),
    ("one", "1"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("twelve", "12"),
    ("twenty", "20"),
    ("thirty", "30"),
    ("fifty", "50"),
    ("hundred", "100"),
    ("a", "1"),
];

/// From this number on, a number alone looks like a count that somebody made.
const COUNTED: u64 = 1_000;

/// The numbers that look measured; `every` takes all numbers but names.
pub(super) fn figures(text: &str, every: bool) -> Vec<Figure> {
    let mut found: Vec<Figure> = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(|c: char| c.is_ascii_digit()).map(|n| at + n) {
        let number = Number::starting(&text[start..]);
        at = start + number.len;
        let (unit, unit_len) = Unit::starting(&text[at..]);
        if number.is_name(&text[..start], &text[at..], unit) {
            continue;
        }
        let measured = every
            || unit != Unit::None
            || number.value.contains('.')
            || number.value.parse::<u64>().is_ok_and(|n| n >= COUNTED);
        if measured {
            let text = text[start..at + unit_len].trim().to_owned();
            let value = number.value;
            found.push(Figure { at: start, text, value, unit });
        }
        at += unit_len;
    }
    found.extend(words(text));
    found.sort_by_key(|figure| figure.at);
    found
}

/// A run of digits with separators.
struct Number {
    len: usize,
    value: String,
    /// More than one point: a version, an address.
    dotted: bool,
}

impl Number {
    fn starting(text: &str) -> Number {
        let bytes = text.as_bytes();
        let (mut len, mut value, mut points) = (0, String::new(), 0);
        while let Some(byte) = bytes.get(len) {
            let followed = bytes.get(len + 1).is_some_and(u8::is_ascii_digit);
            match byte {
                b'0'..=b'9' => value.push(char::from(*byte)),
                b',' | b'_' if followed && groups(&bytes[len + 1..]) => {}
                b'.' if followed => {
                    points += 1;
                    value.push('.');
                }
                _ => break,
            }
            len += 1;
        }
        Number { len, value, dotted: points > 1 }
    }

    /// Whether it is a part of a name rather than a quantity.
    fn is_name(&self, before: &str, after: &str, unit: Unit) -> bool {
        let glued = before.ends_with(|c: char| c.is_alphanumeric() || "_-.#/:^{=".contains(c))
            && !before.ends_with(" -")
            && !before.ends_with("..");
        let runs_on = unit == Unit::None
            && after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            && !after.starts_with('x');
        let date = self.len == 4 && is_year(&self.value) && unit == Unit::None;
        let last_word = before.trim_end().rsplit([' ', '(', '\n']).next().unwrap_or_default();
        let named = unit == Unit::None
            && before.ends_with([' ', '\n'])
            && (NAMES.iter().any(|name| name.eq_ignore_ascii_case(last_word))
                && (last_word != "and" || self.is_chapter())
                || last_word.ends_with(super::page::CODE) && self.value.contains('.')
                || matches!(last_word, ">=" | "<="));
        let heading = before.trim().is_empty()
            && self.value.contains('.')
            && unit == Unit::None
            && after.starts_with(' ');
        let power = after.starts_with('^');
        self.dotted || glued || runs_on || date || named || heading || power
    }

    /// `3.4` after another chapter's number.
    fn is_chapter(&self) -> bool {
        self.value.starts_with("3.") && self.value.len() == 3
    }
}

fn groups(rest: &[u8]) -> bool {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits == 3
}

fn is_year(value: &str) -> bool {
    value.parse::<u32>().is_ok_and(|year| (1970..2100).contains(&year))
}

/// Quantities in words: `two minutes`, `a quarter of a microsecond`, `five times as fast`. Seconds,
/// minutes and hours in words are how people speak of waiting, and count only with a fraction.
fn words(text: &str) -> Vec<Figure> {
    let mut found = Vec::new();
    let mut at = 0;
    for word in text.split_inclusive([' ', '-', '\n']) {
        let (start, end) = (at, at + word.len());
        at = end;
        let bare = word.trim_end_matches([' ', '-', '\n']).to_lowercase();
        let bare = bare.trim_start_matches(['(', '"']);
        let Some((_, value)) = WORDS.iter().find(|(name, _)| *name == bare) else { continue };
        let mut rest = &text[end..];
        if matches!(bare, "half" | "quarter" | "third") {
            rest = rest.strip_prefix("of ").unwrap_or(rest);
            rest = rest.strip_prefix("a ").unwrap_or(rest);
        }
        let (unit, len) = Unit::starting(rest);
        let measured = matches!(
            unit,
            Unit::Nanos | Unit::Micros | Unit::Millis | Unit::Percent | Unit::Ratio | Unit::Million
        ) || bare != "a" && bare != "one" && matches!(unit, Unit::Minutes)
            || value.contains('.') && unit != Unit::None;
        let ratio_of_one = unit == Unit::Ratio && matches!(bare, "a" | "one");
        if measured && !ratio_of_one && !(bare == "a" && unit == Unit::Millis) {
            let end = text.len() - rest.len() + len;
            let text = text[start..end].trim().to_owned();
            found.push(Figure { at: start, text, value: (*value).to_owned(), unit });
        }
    }
    found
}
