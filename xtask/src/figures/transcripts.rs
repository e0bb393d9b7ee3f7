//! The frozen transcripts, and the numbers in them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::scan::{self, Figure};
use super::unit::Unit;
use crate::Failure;

const FOLDERS: [&str; 2] = ["docs/rungs", "benches/results"];
const ENDS: [&str; 3] = ["out", "txt", "json"];

/// What was measured, and frozen.
#[derive(Default, Debug)]
pub(super) struct Transcripts {
    figures: Vec<Figure>,
    values: BTreeSet<String>,
}

impl Transcripts {
    pub(super) fn read(root: &Path) -> Result<Transcripts, Failure> {
        let mut all = Transcripts::default();
        for folder in FOLDERS.map(|folder| root.join(folder)).iter().filter(|dir| dir.is_dir()) {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
                if ENDS.contains(&end) {
                    all.add(&fs::read_to_string(&path)?);
                }
            }
        }
        Ok(all)
    }

    /// A transcript's head names the run; its lines hold what was seen.
    pub(super) fn add(&mut self, text: &str) {
        const HEAD: [&str; 4] = ["date ", "engine ", "machine ", "commit "];
        for line in text.lines().filter(|line| !HEAD.iter().any(|head| line.starts_with(head))) {
            for figure in scan::figures(&line.replace("..=", " to "), true) {
                self.values.insert(figure.value.clone());
                self.figures.push(figure);
            }
        }
    }

    /// Whether a number was measured: the same with the same unit; or, where the transcript has the
    /// unit in a column's head, a number that isn't met by chance.
    pub(super) fn have(&self, figure: &Figure) -> bool {
        let same = |of: &Figure| {
            of.value == figure.value
                && (of.unit == figure.unit
                    || figure.unit == Unit::None
                    || matches!((of.unit, figure.unit), (Unit::None, Unit::Ratio)))
        };
        self.figures.iter().any(same)
            || self.values.contains(&figure.value) && is_particular(&figure.value)
    }
}

/// Three digits that say something.
fn is_particular(value: &str) -> bool {
    let digits: String = value.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_start_matches('0');
    let digits = if value.contains('.') { digits } else { digits.trim_end_matches('0') };
    digits.len() >= 3
}
