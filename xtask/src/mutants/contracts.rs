//! The contracts, by the scripts that they call: no other can notice a mutant.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use conformance::{Bundle, Set, Suite, Verdict, home};
use serde_json::Value;

use crate::Failure;

const SETS: [(Set, &str); 2] = [(Set::Seed, "contracts"), (Set::Second, "contracts2")];

/// Every contract, the quick ones first.
pub(super) struct Contracts(Vec<Known>);

struct Known {
    set: Set,
    name: String,
    scripts: BTreeSet<String>,
    steps: usize,
}

impl Contracts {
    pub(super) fn load() -> Result<Contracts, Failure> {
        let mut all = Vec::new();
        for (set, folder) in SETS {
            for entry in fs::read_dir(home().join(folder))? {
                let path = entry?.path();
                if path.extension().is_some_and(|end| end == "json") {
                    let file: Value = serde_json::from_str(&fs::read_to_string(&path)?)
                        .map_err(|e| format!("{}: {e}", path.display()))?;
                    all.push(Known::read(set, &file));
                }
            }
        }
        all.sort_by(|a, b| (a.steps, &a.name).cmp(&(b.steps, &b.name)));
        Ok(Contracts(all))
    }

    /// The first contract that a bundle breaks, of those that call this script, or of all; and what
    /// it says.
    ///
    /// # Errors
    /// When a contract couldn't be driven.
    pub(super) fn hunt(
        &self,
        bundle: &Path,
        script: Option<&str>,
        url: &str,
    ) -> Result<Option<(String, String)>, Failure> {
        let calls = |known: &&Known| script.is_none_or(|script| known.scripts.contains(script));
        for known in self.0.iter().filter(calls) {
            let loaded = Bundle::load_unchecked(bundle, &home())?;
            let suite = Suite::load(loaded, known.set)?.only(&known.name).own_server();
            let report = suite.run(url).map_err(|e| format!("{}: {e}", known.name))?;
            for line in report.lines {
                if let Verdict::Broken(why) = line.verdict {
                    return Ok(Some((line.name, why)));
                }
            }
        }
        Ok(None)
    }
}

impl Known {
    fn read(set: Set, file: &Value) -> Known {
        let steps = file["steps"].as_array().map_or(&[][..], Vec::as_slice);
        let scripts = steps.iter().filter_map(|step| step["script"].as_str());
        Known {
            set,
            name: file["name"].as_str().unwrap_or_default().to_owned(),
            scripts: scripts.map(str::to_owned).collect(),
            steps: steps.len(),
        }
    }
}
