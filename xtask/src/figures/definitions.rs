//! `docs/definitions.toml`: numbers that define the protocol and the API, with the line of the
//! source that makes each true.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::scan::{self, Figure};
use crate::Failure;

const FILE: &str = "docs/definitions.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    definition: Vec<Entry>,
}

/// One definition.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The number, as pages write it: `64 KiB`. Several spellings of one number may be given.
    values: Vec<String>,
    /// What it is.
    is: String,
    /// Pages below the root, or `*` for all.
    pages: Vec<String>,
    /// The file that makes it true, and what must stand there.
    source: Option<String>,
    says: Option<String>,
}

/// The list, checked against its sources.
pub(super) struct Definitions {
    entries: Vec<(Entry, Vec<Figure>)>,
    /// Entry and value that some page needed.
    used: RefCell<BTreeSet<(usize, usize)>>,
}

impl Definitions {
    pub(super) fn read(root: &Path) -> Result<Definitions, Failure> {
        let text = fs::read_to_string(root.join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
        Definitions::parse(&text, |source| fs::read_to_string(root.join(source)).ok())
    }

    /// # Errors
    /// Names the definition whose source doesn't say it.
    pub(super) fn parse(
        text: &str,
        read: impl Fn(&str) -> Option<String>,
    ) -> Result<Definitions, Failure> {
        let file: File = toml::from_str(text).map_err(|e| format!("{FILE}: {e}"))?;
        let mut entries = Vec::new();
        for entry in file.definition {
            let Entry { values, is, source, says, .. } = &entry;
            let figures: Vec<Figure> =
                values.iter().flat_map(|value| scan::figures(value, true)).collect();
            if figures.len() != values.len() || is.trim().is_empty() {
                return Err(
                    format!("{FILE}: {values:?} are not one number each, and what it is").into()
                );
            }
            match (source, says) {
                (None, None) => {}
                (Some(source), Some(says)) => {
                    let held = read(source).ok_or_else(|| format!("{FILE}: no file {source}"))?;
                    if !held.contains(says.as_str()) {
                        return Err(
                            format!("{FILE}: {source} no longer says `{says}` ({is})").into()
                        );
                    }
                }
                _ => return Err(format!("{FILE}: `source` and `says` go together ({is})").into()),
            }
            entries.push((entry, figures));
        }
        Ok(Definitions { entries, used: RefCell::default() })
    }

    pub(super) fn have(&self, page: &str, figure: &Figure) -> bool {
        let mut found = false;
        for (n, (entry, figures)) in self.entries.iter().enumerate() {
            let here = entry.pages.iter().any(|of| of == "*" || of == page);
            let value = figures.iter().position(|of| of.is(figure));
            if let (true, Some(value)) = (here, value) {
                self.used.borrow_mut().insert((n, value));
                found = true;
            }
        }
        found
    }

    /// A line for each number that no page needs.
    pub(super) fn unused(&self) -> Vec<String> {
        let used = self.used.borrow();
        let mut lines = Vec::new();
        for (n, (entry, figures)) in self.entries.iter().enumerate() {
            for (value, figure) in figures.iter().enumerate() {
                if !used.contains(&(n, value)) {
                    lines.push(format!("{FILE}: no page says {} ({})", figure.text, entry.is));
                }
            }
        }
        lines
    }
}
