//! Units, brought to one spelling each.

/// What a number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    None,
    Percent,
    /// How many times as much.
    Ratio,
    Nanos,
    Micros,
    Millis,
    Seconds,
    Minutes,
    Hours,
    PerSecond,
    Bytes,
    KiB,
    MiB,
    GiB,
    Million,
}

/// Spellings, the longest first where one begins another.
const SPELLINGS: &[(&str, Unit)] = &[
    ("nanoseconds", Unit::Nanos),
    ("nanosecond", Unit::Nanos),
    ("ns", Unit::Nanos),
    ("microseconds", Unit::Micros),
    ("microsecond", Unit::Micros),
    ("\u{b5}s", Unit::Micros),
    ("\u{3bc}s", Unit::Micros),
    ("us", Unit::Micros),
    ("milliseconds", Unit::Millis),
    ("millisecond", Unit::Millis),
    ("ms", Unit::Millis),
    ("seconds", Unit::Seconds),
    ("second", Unit::Seconds),
    ("s", Unit::Seconds),
    ("minutes", Unit::Minutes),
    ("minute", Unit::Minutes),
    ("min", Unit::Minutes),
    ("hours", Unit::Hours),
    ("hour", Unit::Hours),
    ("h", Unit::Hours),
    ("/s", Unit::PerSecond),
    ("/sec", Unit::PerSecond),
    ("per second", Unit::PerSecond),
    ("a second", Unit::PerSecond),
    ("jobs/s", Unit::PerSecond),
    ("jobs a second", Unit::PerSecond),
    ("jobs per second", Unit::PerSecond),
    ("ops/s", Unit::PerSecond),
    ("calls/s", Unit::PerSecond),
    ("commands/s", Unit::PerSecond),
    ("bytes", Unit::Bytes),
    ("byte", Unit::Bytes),
    ("B", Unit::Bytes),
    ("KiB", Unit::KiB),
    ("kB", Unit::KiB),
    ("KB", Unit::KiB),
    ("MiB", Unit::MiB),
    ("MB", Unit::MiB),
    ("GiB", Unit::GiB),
    ("GB", Unit::GiB),
    ("%", Unit::Percent),
    ("percent", Unit::Percent),
    ("x", Unit::Ratio),
    ("\u{d7}", Unit::Ratio),
    ("times as", Unit::Ratio),
    ("times the", Unit::Ratio),
    ("times faster", Unit::Ratio),
    ("times slower", Unit::Ratio),
    ("times more", Unit::Ratio),
    ("times less", Unit::Ratio),
    ("-fold", Unit::Ratio),
    ("million", Unit::Million),
];

impl Unit {
    /// The unit that a text begins with, after at most one space or hyphen: the longest spelling
    /// that ends where a word does. The length is that of everything taken.
    pub(super) fn starting(text: &str) -> (Unit, usize) {
        let joined = text.strip_prefix([' ', '-', '\u{a0}']);
        let gap = text.len() - joined.unwrap_or(text).len();
        let rest = joined.unwrap_or(text);
        let fits = |spelling: &str| {
            let fold = spelling == "-fold" && text.starts_with(spelling);
            let body =
                if fold { Some(&text[spelling.len()..]) } else { rest.strip_prefix(spelling) };
            body.is_some_and(|end| {
                let sign = spelling.ends_with(['%', '\u{d7}']);
                sign || !end.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            })
        };
        let best = SPELLINGS.iter().filter(|(spelling, _)| fits(spelling));
        match best.max_by_key(|(spelling, _)| spelling.len()) {
            Some((spelling, unit)) => (*unit, gap + spelling.len()),
            None => (Unit::None, 0),
        }
    }
}
