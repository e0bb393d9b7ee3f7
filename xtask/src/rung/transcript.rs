//! Transcripts: what a run saw, frozen to a file or compared with one.

use std::path::Path;
use std::process::Command;

use crate::{Failure, Outcome, sh};

/// A gate's outcome.
pub(super) struct Verdict {
    pub(super) name: &'static str,
    pub(super) ok: bool,
    pub(super) words: String,
}

impl Verdict {
    pub(super) fn line(&self) -> String {
        let verdict = if self.ok { "ok" } else { "FAILED" };
        format!("{} {verdict} -- {}", self.name, self.words)
    }
}

/// A run of a rung.
pub(super) struct Seen {
    header: Vec<String>,
    verdicts: Vec<Verdict>,
}

impl Seen {
    pub(super) fn new(number: &str, chapter: &str, engine: String) -> Self {
        let ask = |program: &str, args: &[&str]| {
            sh::output(Command::new(program).args(args).current_dir(sh::root()))
                .unwrap_or_else(|_| "unknown".into())
        };
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let header = vec![
            format!("rung {number}: {chapter}"),
            format!("date {}", ask("date", &["-u", "+%Y-%m-%d"])),
            format!("engine {engine}"),
            format!("machine {}, {cores} cores", ask("uname", &["-sm"])),
            format!("commit {}", ask("git", &["rev-parse", "--short=12", "HEAD"])),
        ];
        Self { header, verdicts: Vec::new() }
    }

    pub(super) fn header(&self) -> &[String] {
        &self.header
    }

    pub(super) fn push(&mut self, verdict: Verdict) {
        self.verdicts.push(verdict);
    }

    pub(super) fn all_ok(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.ok)
    }

    pub(super) fn tally(&self) -> String {
        let passed = self.verdicts.iter().filter(|verdict| verdict.ok).count();
        let word = if self.all_ok() { "PASS" } else { "FAIL" };
        format!("{word} {passed}/{}", self.verdicts.len())
    }

    pub(super) fn write(&self, path: &Path) -> Outcome {
        let mut text = self.header.join("\n");
        text.push('\n');
        for verdict in &self.verdicts {
            text.push_str(&verdict.line());
            text.push('\n');
        }
        text.push_str(&self.tally());
        text.push('\n');
        std::fs::write(path, text)?;
        Ok(())
    }

    /// The names and verdicts must be those of the frozen run; the numbers may differ.
    pub(super) fn compare(&self, path: &Path) -> Outcome {
        let frozen = std::fs::read_to_string(path).map_err(|error| -> Failure {
            format!("no transcript at {}: {error}; freeze one with --freeze", path.display()).into()
        })?;
        let mut ours: Vec<String> = self.verdicts.iter().map(|v| gate_part(&v.line())).collect();
        ours.push(self.tally());
        let theirs: Vec<String> = frozen
            .lines()
            .filter(|line| line.contains(" -- ") || line.starts_with("PASS"))
            .map(gate_part)
            .collect();
        if ours == theirs {
            return Ok(());
        }
        Err(format!("differs from the frozen run: {theirs:?} there, {ours:?} here").into())
    }
}

/// A line without what was seen.
fn gate_part(line: &str) -> String {
    line.split(" -- ").next().unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ok: bool) -> Seen {
        let mut seen = Seen { header: vec!["rung X: y".into()], verdicts: Vec::new() };
        seen.push(Verdict { name: "X1 one", ok: true, words: "7 of 7".into() });
        seen.push(Verdict { name: "X2 two", ok, words: "8 -- of 9".into() });
        seen
    }

    #[test]
    fn a_run_matches_itself_with_other_numbers_and_not_with_other_verdicts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.out");
        assert!(seen(true).compare(&path).is_err(), "nothing is frozen yet");
        seen(true).write(&path).unwrap();
        let mut other = seen(true);
        other.verdicts[0].words = "9 of 9".into();
        other.compare(&path).unwrap();
        assert!(seen(false).compare(&path).is_err());
        other.verdicts.pop();
        assert!(other.compare(&path).is_err());
    }
}
