//! The folder `lua/` as a whole: templates, parts, what they expand to, and the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use emq_scripts::CONTRACTS;

use super::{expand, manifest, script};
use crate::Failure;

/// What a typed call takes, by which a script is judged.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) name: String,
    pub(super) keys: Vec<String>,
    pub(super) args: Vec<String>,
    pub(super) tail: Option<String>,
    pub(super) returns: String,
    pub(super) refuses: Vec<String>,
    pub(super) runs_when_full: bool,
}

impl Expected {
    /// One for each typed call of emq-scripts.
    pub(super) fn all() -> Vec<Expected> {
        let expected = CONTRACTS.iter().map(|contract| Expected {
            name: contract.script.as_str().to_owned(),
            keys: contract.keys.iter().map(ToString::to_string).collect(),
            args: contract.args.iter().map(|arg| (*arg).to_owned()).collect(),
            tail: contract.tail.map(str::to_owned),
            returns: contract.returns.to_owned(),
            refuses: contract.refuses.iter().map(|class| class.word().to_owned()).collect(),
            runs_when_full: contract.runs_when_full,
        });
        expected.collect()
    }
}

/// The texts of the folder, by file name.
#[derive(Clone, Debug, Default)]
pub(super) struct Bundle {
    pub(super) templates: BTreeMap<String, String>,
    pub(super) parts: BTreeMap<String, String>,
    pub(super) scripts: BTreeMap<String, String>,
    pub(super) manifest: String,
}

impl Bundle {
    pub(super) fn read(dir: &Path) -> Result<Bundle, Failure> {
        Ok(Bundle {
            templates: lua_files(&dir.join("src"))?,
            parts: lua_files(&dir.join("src/parts"))?,
            scripts: lua_files(dir)?,
            manifest: fs::read_to_string(dir.join("manifest.toml")).unwrap_or_default(),
        })
    }

    /// Writes what is generated.
    pub(super) fn write(&self, dir: &Path) -> Result<(), Failure> {
        for (file, text) in &self.scripts {
            write_if_changed(&dir.join(file), text)?;
        }
        write_if_changed(&dir.join("manifest.toml"), &self.manifest)
    }

    /// Makes what is generated true, as far as the templates allow; answers which files changed.
    pub(super) fn fix(&mut self, expected: &[Expected]) -> Vec<String> {
        let mut changed = Vec::new();
        for (file, template) in &self.templates {
            if let Ok(text) = expand::expand(template, &self.parts)
                && self.scripts.get(file) != Some(&text)
            {
                self.scripts.insert(file.clone(), text);
                changed.push(file.clone());
            }
        }
        let manifest = self.true_manifest(expected);
        if self.manifest != manifest {
            self.manifest = manifest;
            changed.push("manifest.toml".into());
        }
        changed
    }

    /// Everything untrue, each as a line that names its file.
    pub(super) fn faults(&self, expected: &[Expected]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut say = |file: &str, fault: String| faults.push(format!("lua/{file}: {fault}"));
        for (file, template) in &self.templates {
            match expand::expand(template, &self.parts) {
                Err(fault) => say(&format!("src/{file}"), fault),
                Ok(text) if self.scripts.get(file) != Some(&text) => {
                    say(file, format!("is not what lua/src/{file} expands to"));
                }
                Ok(_) => {}
            }
        }
        for file in self.scripts.keys().filter(|file| !self.templates.contains_key(*file)) {
            say(file, format!("has no template lua/src/{file}"));
        }
        let used: BTreeSet<&str> = self
            .templates
            .values()
            .chain(self.parts.values())
            .flat_map(|t| expand::included(t))
            .collect();
        for part in self.parts.keys().filter(|part| !used.contains(part.as_str())) {
            say(&format!("src/parts/{part}"), "is included nowhere".into());
        }
        for (file, text) in &self.scripts {
            match expected.iter().find(|expected| file_of(expected) == *file) {
                None => say(file, "has no typed call in emq-scripts".into()),
                Some(expected) => {
                    script::faults(text, expected).into_iter().for_each(|fault| say(file, fault));
                }
            }
        }
        for file in expected.iter().map(file_of).filter(|file| !self.scripts.contains_key(file)) {
            say(&file, "is missing; emq-scripts has a typed call for it".into());
        }
        if manifest::rev_of(&self.manifest).is_none() {
            say("manifest.toml", "states no rev".into());
        }
        if let Some(fault) = first_difference(&self.manifest, &self.true_manifest(expected)) {
            say("manifest.toml", fault);
        }
        faults
    }

    fn true_manifest(&self, expected: &[Expected]) -> String {
        let listed = expected.iter().filter_map(|expected| {
            self.scripts.get(&file_of(expected)).map(|text| (expected, text.as_str()))
        });
        let rev = manifest::rev_of(&self.manifest).unwrap_or(1);
        manifest::render(rev, &listed.collect::<Vec<_>>())
    }
}

/// The first line in which two texts differ.
fn first_difference(found: &str, right: &str) -> Option<String> {
    if found == right {
        return None;
    }
    let (mut found, mut right) = (found.lines(), right.lines());
    loop {
        match (found.next(), right.next()) {
            (None, None) => return Some("ends otherwise than it must".into()),
            (ours, theirs) if ours != theirs => {
                let (ours, theirs) = (ours.unwrap_or("nothing"), theirs.unwrap_or("nothing"));
                return Some(format!("says `{ours}` where `{theirs}` belongs"));
            }
            _ => {}
        }
    }
}

fn file_of(expected: &Expected) -> String {
    format!("{}.lua", expected.name)
}

fn lua_files(dir: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if name.ends_with(".lua") {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            files.insert(name, text);
        }
    }
    Ok(files)
}

fn write_if_changed(path: &Path, text: &str) -> Result<(), Failure> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()).into())
}
