//! Golden sessions: the bytes of a contract, both ways, with the same ids and queue in every run.

use std::fmt::Write as _;

use bytes::BytesMut;
use emq_wire::{Decoder, Limits, Reply};

use crate::contract::Contract;
use crate::drive::{Broken, Drive};
use crate::link::Link;
use crate::names::Minter;
use crate::show::{escape, unescape};
use crate::suite::{Set, Suite};
use crate::{Failure, fence};

/// The queue of every recorded session.
const QUEUE: &str = "vector";
/// The place of `next_ms` in a turn's reply.
const NEXT_MS: usize = 3;

/// What travelled while one contract was driven.
#[derive(Debug)]
pub struct Session {
    /// The contract's set.
    pub set: Set,
    /// Its number and name, as in its file's name.
    pub name: String,
    lines: Vec<Line>,
    why: String,
}

/// A line of a session's file.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// What the step says.
    Step(String),
    /// What the client sends.
    Sent(Vec<u8>),
    /// What the server answers.
    Received(Vec<u8>),
}

impl Suite {
    /// Records the contracts that are recorded, in order. The server must be nobody else's.
    ///
    /// # Errors
    /// [`Failure`], also when a contract doesn't hold: there is nothing golden then.
    pub fn record(&self, url: &str) -> Result<Vec<Session>, Failure> {
        let mut link = Link::open(url)?;
        fence::pass(&mut link, &self.bundle)?;
        let recorded = self.contracts.iter().filter(|(_, contract)| contract.recorded);
        recorded.map(|(set, contract)| self.session(&mut link, url, *set, contract)).collect()
    }

    fn session(
        &self,
        link: &mut Link,
        url: &str,
        set: Set,
        contract: &Contract,
    ) -> Result<Session, Failure> {
        let name = format!("{:02}-{}", contract.number, contract.name);
        link.record(true);
        let mut lines = Vec::new();
        let mut drive = Drive::new(link, &self.bundle, url, QUEUE, Minter::fixed());
        let outcome = drive.run(contract, |n, link| {
            let travelled = link.recorded();
            if !travelled.is_empty() {
                lines.push(Line::Step(format!("{} {}", n + 1, contract.steps[n].says)));
            }
            for exchange in travelled {
                lines.push(Line::Sent(exchange.sent));
                lines.push(Line::Received(exchange.received));
            }
        });
        link.record(false);
        match outcome {
            Ok(()) => Ok(Session { set, name, lines, why: contract.why.clone() }),
            Err(Broken::Failed(failure)) => Err(failure),
            Err(Broken::Step { number, says, why }) => {
                Err(Failure::shape(&format!("{name}: step {number}, {says}: {why}")))
            }
        }
    }

    /// How the session differs from the text of its committed file, but for what is volatile: the
    /// moments of the server's clock, and how long a turn may sleep.
    #[must_use]
    pub fn difference(&self, session: &Session, committed: &str) -> Option<String> {
        let turn = self.bundle.script("turn").map_or("", |script| script.sha1.as_str());
        let Some(golden) = parse(committed) else {
            return Some(format!("{}: its file can't be read", session.name));
        };
        let (golden, fresh) = (comparable(&golden, turn), comparable(&session.lines, turn));
        let first = golden.iter().zip(&fresh).find(|(golden, fresh)| golden != fresh);
        match first {
            Some((golden, fresh)) => Some(format!("{}: {golden} became {fresh}", session.name)),
            None if golden.len() != fresh.len() => {
                Some(format!("{}: {} lines became {}", session.name, golden.len(), fresh.len()))
            }
            None => None,
        }
    }
}

impl Session {
    /// The text of the session's file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("# {}\n# {}\n", self.name, self.why);
        for line in &self.lines {
            let (mark, rest) = match line {
                Line::Step(says) => ("\n=", says.clone()),
                Line::Sent(bytes) => ("C", escape(bytes)),
                Line::Received(bytes) => ("S", escape(bytes)),
            };
            // Writing to a string can't fail.
            let _ = writeln!(text, "{mark} {rest}");
        }
        text
    }
}

fn parse(text: &str) -> Option<Vec<Line>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_at_checked(2)? {
            ("= ", says) => Some(Line::Step(says.to_owned())),
            ("C ", bytes) => Some(Line::Sent(unescape(bytes)?)),
            ("S ", bytes) => Some(Line::Received(unescape(bytes)?)),
            _ => None,
        })
        .collect()
}

/// The lines with what is volatile masked.
fn comparable(lines: &[Line], turn: &str) -> Vec<String> {
    let mut of_turn = false;
    let line = |line: &Line| match line {
        Line::Step(says) => format!("= {says}"),
        Line::Sent(bytes) => {
            let sent = escape(bytes);
            of_turn = sent.contains(turn);
            format!("C {}", without_moments(&sent))
        }
        Line::Received(bytes) if of_turn => match without_next_ms(bytes) {
            Some(reply) => format!("S {}", without_moments(&reply)),
            None => format!("S {}", escape(bytes)),
        },
        Line::Received(bytes) => format!("S {}", without_moments(&escape(bytes))),
    };
    lines.iter().map(line).collect()
}

/// A turn's reply with 0 for the time until its next.
fn without_next_ms(bytes: &[u8]) -> Option<String> {
    let mut decoder = Decoder::new(Limits::default());
    let Ok(Some(Reply::Array(mut items))) = decoder.decode(&mut BytesMut::from(bytes)) else {
        return None;
    };
    *items.get_mut(NEXT_MS)? = Reply::Int(0);
    Some(format!("{items:?}"))
}

/// Moments are numbers of thirteen digits that start with 1: those of 2001 to 2033.
fn without_moments(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut digits = String::new();
    for char in text.chars().chain(['\n']) {
        if char.is_ascii_digit() {
            digits.push(char);
            continue;
        }
        let is_moment = digits.len() == 13 && digits.starts_with('1');
        masked.push_str(if is_moment { "<ms>" } else { &digits });
        digits.clear();
        masked.push(char);
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        comparable(&parse(text).unwrap(), "feed")
    }

    #[test]
    fn only_what_is_volatile_is_masked() {
        let old = lines("# x\n= 1 a\nC 1700000000000\\r\\n\nS :5\\r\\n\n");
        assert_eq!(old, lines("= 1 a\nC 1800000000001\\r\\n\nS :5\\r\\n\n"));
        assert_ne!(old, lines("= 1 a\nC 1700000000000\\r\\n\nS :6\\r\\n\n"));
        assert_ne!(old, lines("= 1 b\nC 1700000000000\\r\\n\nS :5\\r\\n\n"));
        assert_ne!(lines("C 12345\n"), lines("C 12346\n"));
    }

    #[test]
    fn a_turn_sleeps_as_long_as_it_may_and_answers_the_rest_exactly() {
        let turn = |rest: &str| lines(&format!("C feed\nS *4\\r\\n*0\\r\\n*0\\r\\n{rest}\n"));
        assert_eq!(turn("*0\\r\\n:50\\r\\n"), turn("*0\\r\\n:51\\r\\n"));
        assert_ne!(turn("*0\\r\\n:50\\r\\n"), turn("*1\\r\\n:1\\r\\n:50\\r\\n"));
    }
}
