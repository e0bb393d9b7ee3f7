//! Numbers, spans of time and foreign text, made short enough for a column.

use std::time::Duration;

/// A count in at most six characters.
pub(crate) fn count(n: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    if n < 100_000 {
        return n.to_string();
    }
    let (unit, letter) = UNITS.into_iter().find(|(unit, _)| n >= *unit).unwrap_or((1, ""));
    let whole = n / unit;
    let tenths = (n % unit) * 10 / unit;
    match whole {
        0..=999 => format!("{whole}.{tenths}{letter}"),
        _ => format!("{whole}{letter}"),
    }
}

/// A change per time with its sign; nothing where it isn't known.
pub(crate) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => String::new(),
        Some(rate) if rate.abs() < 0.05 => "0".to_owned(),
        Some(rate) if rate.abs() < 100.0 => format!("{rate:+.1}"),
        Some(rate) => {
            let sign = if rate < 0.0 { '-' } else { '+' };
            format!("{sign}{}", count(rate.abs() as u64))
        }
    }
}

/// A span of time in at most six characters.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}", seconds / 3_600, seconds / 60 % 60),
        86_400..8_640_000 => format!("{}d{:02}", seconds / 86_400, seconds / 3_600 % 24),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Text from outside with whatever could steer a terminal, or turn the line around, made visible.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { '\u{b7}' } else { c }).collect()
}

fn is_unsafe(c: char) -> bool {
    let turns_around = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
    c.is_control() || turns_around || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// At most this many characters, the last of them an ellipsis where something was cut.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('\u{2026}');
    short
}

/// A name of at most this many characters; where it is cut, its start and its end are kept, since
/// names that are alike often differ only there.
pub(crate) fn cut_name(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let kept = width.saturating_sub(1);
    let tail = kept / 2;
    let mut short: String = name.chars().take(kept - tail).collect();
    short.push('\u{2026}');
    short.extend(name.chars().skip(length - tail));
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stay_within_six_characters_and_never_round_up() {
        for (n, wanted) in [
            (0, "0"),
            (99_999, "99999"),
            (100_000, "100.0k"),
            (999_999, "999.9k"),
            (1_000_000, "1.0M"),
            (1_999_999, "1.9M"),
            (5_000_000_000, "5.0G"),
            (999_900_000_000_000, "999.9T"),
        ] {
            assert_eq!(count(n), wanted);
            assert!(count(n).len() <= 6);
        }
    }

    #[test]
    fn rates_have_a_sign_and_say_nothing_when_unknown() {
        let told: Vec<String> =
            [None, Some(0.01), Some(3.25), Some(-12.0), Some(123_456.0), Some(-250.0)]
                .into_iter()
                .map(rate)
                .collect();
        assert_eq!(told, ["", "0", "+3.2", "-12.0", "+123.4k", "-250"]);
    }

    #[test]
    fn spans_stay_within_six_characters() {
        for (seconds, wanted) in
            [(0, "0s"), (59, "59s"), (61, "1m01"), (7_260, "2h01"), (90_000, "1d01")]
        {
            assert_eq!(span(Duration::from_secs(seconds)), wanted);
        }
        for days in [999, 1_000, 99_999] {
            assert!(span(Duration::from_secs(days * 86_400 + 86_399)).len() <= 6);
        }
    }

    #[test]
    fn text_from_outside_steers_nothing() {
        assert_eq!(plain("a\u{1b}[2Jb\n\u{9b}c\u{202e}d"), "a·[2Jb··c·d");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("äöüß", 4), "äöüß");
        assert_eq!(cut_name("abcdefgh", 8), "abcdefgh");
        assert_eq!(cut_name("abcdefghi", 6), "abc…hi");
    }
}
