//! The feed: one fill a line, read as it is. A bad line is reported and skipped.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};

use emq_keys::{BrandedId, EPOCH_MS, Namespace};

use crate::Failure;
use crate::books::Fill;

/// The longest line that is looked at, in bytes: a feed without line ends must not fill memory.
const LINE_MAX_BYTES: usize = 64 * 1024;
/// Bad lines named one by one before the rest is only counted.
const BAD_SHOWN: usize = 10;

/// A feed, read.
#[derive(Debug, Default)]
pub(super) struct Feed {
    /// Each readable line: the job's id and its fill. A repeated line has the id of the first.
    pub(super) jobs: Vec<(BrandedId, Fill)>,
    /// How many lines could not be read.
    pub(super) bad: usize,
    /// How many lines there were, blank ones left out.
    pub(super) lines: usize,
}

impl Feed {
    /// Reads to the end. `complain` gets a line of words per bad line, the first few of them.
    ///
    /// # Errors
    /// Only when the source itself fails.
    pub(super) fn read(
        source: impl Read,
        mut complain: impl FnMut(String),
    ) -> Result<Feed, Failure> {
        let mut reader = BufReader::new(source);
        let mut feed = Feed::default();
        let mut names = Names::default();
        let mut number = 0;
        while let Some(line) = next_line(&mut reader)? {
            number += 1;
            let parsed = match line {
                Ok(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => continue,
                Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
                Err(length) => Err(format!("{length} bytes, more than {LINE_MAX_BYTES}")),
            };
            feed.lines += 1;
            match parsed.and_then(|fill| names.name(fill)) {
                Ok(job) => feed.jobs.push(job),
                Err(reason) => {
                    feed.bad += 1;
                    if feed.bad <= BAD_SHOWN {
                        complain(format!("line {number} skipped: {reason}"));
                    }
                }
            }
        }
        if feed.bad > BAD_SHOWN {
            complain(format!("and {} more bad lines", feed.bad - BAD_SHOWN));
        }
        Ok(feed)
    }
}

/// Names fills: the same fill has the same name, so sending a feed twice admits it once.
#[derive(Default)]
struct Names {
    given: HashMap<BrandedId, Fill>,
}

impl Names {
    /// The order's time and the fill's own bytes make the name. Two fills of one millisecond may
    /// meet in a name by chance; the second then takes the next millisecond.
    fn name(&mut self, fill: Fill) -> Result<(BrandedId, Fill), String> {
        let bytes = serde_json::to_vec(&fill).map_err(|error| error.to_string())?;
        let mut at_ms = fill.order.unix_ms().max(EPOCH_MS);
        loop {
            let id = BrandedId::derive_at(Namespace::JOB, at_ms, &bytes)
                .map_err(|error| crate::with_causes(&error))?;
            match self.given.get(&id) {
                Some(other) if *other != fill => at_ms += 1,
                _ => {
                    self.given.insert(id, fill.clone());
                    return Ok((id, fill));
                }
            }
        }
    }
}

/// The next line without its end; `Err` with the length of one that is too long to look at.
fn next_line(reader: &mut impl BufRead) -> Result<Option<Result<Vec<u8>, usize>>, Failure> {
    let mut line = Vec::new();
    let mut length = 0;
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok((length > 0).then_some(kept(line, length)));
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(chunk.len());
        length += taken;
        if length <= LINE_MAX_BYTES {
            line.extend_from_slice(&chunk[..taken]);
        }
        reader.consume(taken + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(Some(kept(line, length)));
        }
    }
}

fn kept(line: Vec<u8>, length: usize) -> Result<Vec<u8>, usize> {
    if length <= LINE_MAX_BYTES { Ok(line) } else { Err(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> (Feed, Vec<String>) {
        let mut words = Vec::new();
        let feed = Feed::read(text, |line| words.push(line)).unwrap();
        (feed, words)
    }

    const GOOD: &str =
        r#"{"order":"ORD0NgWEfAEJfs","portfolio":"PRT0KHTOWnGLuC","qty":12,"price":10125}"#;

    #[test]
    fn bad_lines_are_named_and_skipped_and_every_line_is_accounted_for() {
        let long = "x".repeat(LINE_MAX_BYTES + 1);
        let text = format!("{GOOD}\n\n{{\"order\":\n{long}\n\u{fffd}\n{GOOD}\r\n{}", &GOOD[..20]);
        let (feed, words) = read(text.as_bytes());
        assert_eq!((feed.lines, feed.bad, feed.jobs.len()), (6, 4, 2));
        assert!(words[0].starts_with("line 3 skipped"), "{words:?}");
        assert!(words[1].starts_with("line 4 skipped: 65537 bytes"), "{words:?}");
        assert!(words[3].starts_with("line 7 skipped"), "{words:?}");
    }

    #[test]
    fn a_repeated_line_has_the_same_name_and_another_fill_another() {
        let other = GOOD.replace("12", "13");
        let (feed, _) = read(format!("{GOOD}\n{GOOD}\n{other}\n").as_bytes());
        assert_eq!(feed.jobs[0].0, feed.jobs[1].0);
        assert_ne!(feed.jobs[0].0, feed.jobs[2].0);
    }

    #[test]
    fn fills_that_meet_in_a_name_get_two() {
        let (feed, _) = read(GOOD.as_bytes());
        let (id, fill) = feed.jobs[0].clone();
        let mut names = Names::default();
        names.given.insert(id, Fill { qty: 99, ..fill.clone() });
        let (second, _) = names.name(fill).unwrap();
        assert_ne!(second, id);
    }

    #[test]
    fn the_committed_feed_reads_as_its_readme_says() {
        let path = crate::sh::root().join("examples/desk/fills.jsonl");
        let (feed, _) = read(&std::fs::read(path).unwrap());
        let distinct: std::collections::HashSet<_> = feed.jobs.iter().map(|(id, _)| id).collect();
        assert_eq!((feed.bad, feed.jobs.len() - distinct.len()), (2, 4));
        assert!(distinct.len() > 2_900);
    }
}
