//! What a command writes: text and tables for people, JSON for scripts, to standard output.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};

use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::exit::Failure;

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, and not where `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Where and how to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    json: bool,
    colour: bool,
    terminal: bool,
}

impl Out {
    pub(crate) fn new(json: bool, colour: Colour) -> Out {
        let terminal = io::stdout().is_terminal();
        let colour = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
                terminal && !refused
            }
        };
        Out { json, colour, terminal }
    }

    /// Whether JSON was asked for.
    pub(crate) fn json(self) -> bool {
        self.json
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn value(self, value: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(value)
            .map_err(|error| Failure::failed(format!("can't write JSON: {error}")))?;
        line.push(b'\n');
        write(&line)
    }

    /// Writes a line of text.
    pub(crate) fn line(self, line: impl fmt::Display) -> Result<(), Failure> {
        write(format!("{line}\n").as_bytes())
    }

    /// Writes the value for scripts, or the line for people.
    pub(crate) fn tell(
        self,
        value: &impl Serialize,
        line: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json { self.value(value) } else { self.line(line()) }
    }

    /// Writes a table.
    pub(crate) fn grid(self, grid: &Grid) -> Result<(), Failure> {
        self.line(grid.render(self))
    }
}

/// All of it or an error: a command that can't tell what it found has failed.
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::of_output(&error))
}

/// What a cell says by its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// Nothing of interest.
    Quiet,
    Good,
    /// To be looked at.
    Warn,
    Bad,
}

/// A table with a head.
pub(crate) struct Grid {
    head: Vec<(&'static str, CellAlignment)>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Grid {
    /// The columns; a name that begins with `>` is that of numbers.
    pub(crate) fn new(columns: &[&'static str]) -> Grid {
        let column = |name: &&'static str| match name.strip_prefix('>') {
            Some(name) => (name, CellAlignment::Right),
            None => (*name, CellAlignment::Left),
        };
        Grid { head: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = (String, Tone)>) {
        self.rows.push(cells.into_iter().map(|(text, tone)| (printable(&text), tone)).collect());
    }

    fn render(&self, out: Out) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(match out.terminal {
            true => ContentArrangement::Dynamic,
            false => ContentArrangement::Disabled,
        });
        if out.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let head = self
            .head
            .iter()
            .map(|(name, side)| Cell::new(name).set_alignment(*side).add_attribute(Attribute::Dim));
        table.set_header(head);
        for row in &self.rows {
            let cells = row.iter().zip(&self.head);
            table.add_row(cells.map(|((text, tone), (_, side))| {
                let cell = Cell::new(text).set_alignment(*side);
                match tone {
                    Tone::Plain => cell,
                    Tone::Quiet => cell.add_attribute(Attribute::Dim),
                    Tone::Good => cell.fg(Color::Green),
                    Tone::Warn => cell.fg(Color::Yellow),
                    Tone::Bad => cell.fg(Color::Red),
                }
            }));
        }
        let last = self.head.len().saturating_sub(1);
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if at == last { 0 } else { 2 }));
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

/// Text from elsewhere as it may stand on a terminal: what could move the cursor, change colours or
/// turn the writing is escaped.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if char.is_control() || turns {
            // A string takes any text.
            let _ = write!(safe, "{}", char.escape_default());
        } else {
            safe.push(char);
        }
    }
    safe
}

/// Bytes as text for people, at most so many characters.
pub(crate) fn glimpse(bytes: &[u8], most: usize) -> String {
    // A character has at most four bytes.
    let head = &bytes[..bytes.len().min(most.saturating_mul(4))];
    let text = String::from_utf8_lossy(head);
    let mut chars = text.chars();
    let mut seen: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() || head.len() < bytes.len() {
        seen.push('…');
    }
    printable(&seen)
}

/// How long, for people: two units at most.
pub(crate) fn span(time: std::time::Duration) -> String {
    let ms = time.as_millis();
    let s = time.as_secs();
    match s {
        0 => format!("{ms} ms"),
        1..=9 => format!("{}.{} s", s, ms % 1000 / 100),
        10..=59 => format!("{s} s"),
        60..=3_599 => format!("{} min {} s", s / 60, s % 60),
        3_600..=86_399 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// A moment in UTC, to the millisecond.
pub(crate) fn moment(time: std::time::SystemTime) -> String {
    match jiff::Timestamp::try_from(time) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => "out of range".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_could_command_a_terminal_is_escaped() {
        assert_eq!(printable("a\u{1b}[2Jb\r\n\u{202e}é"), "a\\u{1b}[2Jb\\r\\n\\u{202e}é");
        assert_eq!(glimpse(b"\x1b\xff12345", 4), "\\u{1b}\u{fffd}12…");
        assert_eq!(glimpse("ééé".as_bytes(), 3), "ééé");
    }

    #[test]
    fn times_are_said_in_two_units() {
        for (ms, said) in [
            (5, "5 ms"),
            (1_250, "1.2 s"),
            (59_999, "59 s"),
            (61_000, "1 min 1 s"),
            (7_260_000, "2 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), said);
        }
    }

    #[test]
    fn a_table_without_colour_is_plain_text() {
        let mut grid = Grid::new(&["QUEUE", ">WAITING"]);
        grid.row([("a\u{1b}".to_owned(), Tone::Bad), ("10".to_owned(), Tone::Plain)]);
        let plain = Out { json: false, colour: false, terminal: false };
        assert_eq!(grid.render(plain), "QUEUE    WAITING\na\\u{1b}       10");
        let coloured = grid.render(Out { colour: true, ..plain });
        assert!(
            coloured.contains("\u{1b}[38;5;9m") || coloured.contains("\u{1b}[31m"),
            "{coloured:?}"
        );
    }
}
