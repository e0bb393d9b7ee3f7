//! What a run found, as values and as the lines that every driver prints.

use std::fmt;

use crate::Set;

/// The verdicts of a run, in order.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One for each contract that was asked for.
    pub lines: Vec<Line>,
}

/// One contract's verdict.
#[derive(Clone, Debug)]
pub struct Line {
    /// The set that it belongs to.
    pub set: Set,
    /// Its place in the set.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// How it ended.
    pub verdict: Verdict,
}

/// How a contract ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every step answered what it must; the contract's sentence.
    Holds(String),
    /// A step didn't, and why.
    Broken(String),
    /// It couldn't be driven on this server, and why.
    Skipped(String),
}

impl Report {
    /// The names of the contracts that don't hold.
    #[must_use]
    pub fn broken(&self) -> Vec<&str> {
        let broken = |line: &&Line| matches!(line.verdict, Verdict::Broken(_));
        self.lines.iter().filter(broken).map(|line| line.name.as_str()).collect()
    }

    /// Whether no contract is broken, and one at least holds.
    #[must_use]
    pub fn all_hold(&self) -> bool {
        let holds = |line: &Line| matches!(line.verdict, Verdict::Holds(_));
        self.broken().is_empty() && self.lines.iter().any(holds)
    }

    /// The closing line of a set: `CONFORMANCE 14/14`.
    #[must_use]
    pub fn count(&self, set: Set) -> String {
        let (mut holds, mut all, mut skipped) = (0, 0, 0);
        for line in self.lines.iter().filter(|line| line.set == set) {
            match line.verdict {
                Verdict::Holds(_) => holds += 1,
                Verdict::Broken(_) => {}
                Verdict::Skipped(_) => skipped += 1,
            }
            all += 1;
        }
        let all = all - skipped;
        let skipped = match skipped {
            0 => String::new(),
            n => format!(", {n} skipped"),
        };
        format!("{} {holds}/{all}{skipped}", set.word())
    }
}

/// All lines as they are printed.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for set in [Set::Seed, Set::Second] {
            let of_set = || self.lines.iter().filter(|line| line.set == set);
            for line in of_set() {
                writeln!(f, "{line}")?;
            }
            if of_set().next().is_some() {
                writeln!(f, "{}", self.count(set))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, words) = match &self.verdict {
            Verdict::Holds(words) => ("ok", words),
            Verdict::Broken(words) => ("FAIL", words),
            Verdict::Skipped(words) => ("skip", words),
        };
        let Self { set, number, name, .. } = self;
        write!(f, "{:<5} {number:>2} {name:<14} {word:<4}  {words}", set.line_word())
    }
}
