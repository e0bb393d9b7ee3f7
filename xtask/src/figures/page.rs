//! A Markdown page as blocks of text: a paragraph, a row of a table, an item, a heading.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// Stands where code stood.
pub(super) const CODE: char = '\u{1}';

/// Words in a heading that make every number below it a measured one.
const MEASURING: &[&str] = &["measured", "figures", "benchmark", "performance", "numbers"];

/// Languages of code that is run or typed; what others hold may be output.
const RUN: &[&str] = &[
    "rust",
    "console",
    "sh",
    "bash",
    "toml",
    "json",
    "lua",
    "sql",
    "python",
    "js",
    "javascript",
    "yaml",
    "elixir",
    "ini",
    "dockerfile",
];

const MARK: &str = "definition:";

/// A block of a page.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) text: String,
    /// What its comments declare.
    pub(super) declared: Vec<String>,
    /// Whether its section speaks of measuring.
    pub(super) measured: bool,
    /// Pieces of the text: where each starts there, and its line.
    lines: Vec<(usize, usize)>,
}

impl Block {
    /// The line of a place in the text.
    pub(super) fn line_of(&self, at: usize) -> usize {
        let piece = self.lines.iter().rev().find(|(start, _)| *start <= at);
        piece.or(self.lines.first()).map_or(1, |(_, line)| *line)
    }
}

/// The blocks of a page, in order.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut reader = Reader { page: text, ..Reader::default() };
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        reader.take(event, range);
    }
    reader.end();
    reader.blocks
}

#[derive(Default)]
struct Reader<'a> {
    page: &'a str,
    blocks: Vec<Block>,
    open: Block,
    /// The level of the heading that speaks of measuring.
    measuring: Option<u8>,
    heading: Option<u8>,
    /// Inside code that is skipped.
    skips: bool,
    comment: String,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                self.end();
                self.heading = Some(level as u8);
            }
            Event::End(TagEnd::Heading(_)) => {
                self.close_heading();
                self.end();
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                self.end();
                let language = match kind {
                    CodeBlockKind::Fenced(words) => words.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                let first = language.split([',', ' ']).next().unwrap_or_default();
                self.skips = RUN.contains(&first);
            }
            Event::End(TagEnd::CodeBlock) => {
                self.skips = false;
                self.end();
            }
            Event::Start(
                Tag::Paragraph | Tag::Item | Tag::TableRow | Tag::TableHead | Tag::List(_),
            ) => self.end(),
            Event::End(TagEnd::Item | TagEnd::TableRow | TagEnd::TableHead) => self.end(),
            Event::End(TagEnd::TableCell) => self.add(" | ", range.end),
            Event::Text(words) if !self.skips => self.add(&words, range.start),
            Event::Code(code) => self.code(&code, range.start),
            Event::SoftBreak | Event::HardBreak => self.add(" ", range.start),
            Event::Html(html) | Event::InlineHtml(html) => self.html(&html, range.start),
            _ => {}
        }
    }

    fn add(&mut self, words: &str, at: usize) {
        let line = 1 + self.page[..at].matches('\n').count();
        self.open.lines.push((self.open.text.len(), line));
        // One line of code a piece, so that a fault names its own.
        for (n, part) in words.split_inclusive('\n').enumerate() {
            if n > 0 {
                self.open.lines.push((self.open.text.len(), line + n));
            }
            self.open.text.push_str(part);
        }
    }

    /// Code counts only where it is nothing but a quantity.
    fn code(&mut self, code: &str, at: usize) {
        let quantity = code.starts_with(|c: char| c.is_ascii_digit())
            && super::scan::figures(code, false).iter().any(|figure| figure.text == code);
        if quantity && code.contains(|c: char| c.is_alphabetic() || c == '%') {
            self.add(code, at);
        } else {
            self.add(&CODE.to_string(), at);
        }
    }

    /// A comment belongs to the block that it stands in, or else to the one before it.
    fn html(&mut self, html: &str, at: usize) {
        self.comment.push_str(html);
        if !self.comment.trim_end().ends_with("-->") {
            return;
        }
        let comment = std::mem::take(&mut self.comment);
        let inner = comment.trim().trim_start_matches("<!--").trim_end_matches("-->").trim();
        let Some(words) = inner.strip_prefix(MARK) else { return };
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        if self.open.text.trim().is_empty()
            && let Some(last) = self.blocks.last_mut()
        {
            last.declared.push(words);
        } else {
            self.add("", at);
            self.open.declared.push(words);
        }
    }

    fn close_heading(&mut self) {
        let Some(level) = self.heading.take() else { return };
        let words = self.open.text.to_lowercase();
        if MEASURING.iter().any(|word| words.contains(word)) {
            self.measuring = Some(level);
        } else if self.measuring.is_some_and(|above| level <= above) {
            self.measuring = None;
        }
    }

    fn end(&mut self) {
        let mut block = std::mem::take(&mut self.open);
        if !block.text.trim().is_empty() || !block.declared.is_empty() {
            block.measured = self.measuring.is_some();
            self.blocks.push(block);
        }
    }
}
