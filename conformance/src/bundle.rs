//! The bundle as a port gets it: files, their digests, and the manifest that both must agree with.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use sha1::{Digest, Sha1};

use crate::Failure;

/// The scripts of a folder, and the keys that each is called with.
#[derive(Debug)]
pub struct Bundle {
    /// The wire version that the manifest names.
    pub wire: String,
    /// In the manifest's order.
    pub(crate) scripts: Vec<Script>,
}

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) sha1: String,
    pub(crate) source: Vec<u8>,
    /// The queue's keys that it takes, by their part after the base, or whole.
    pub(crate) keys: Vec<String>,
}

#[derive(Deserialize)]
struct Manifest {
    wire: String,
    scripts: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    file: String,
    sha1: String,
}

impl Bundle {
    /// Reads a folder with a manifest and the files that it names; `home` has `calls.json`.
    ///
    /// # Errors
    /// [`Failure::Bundle`] when a file is missing, or a digest isn't the manifest's.
    pub fn load(folder: &Path, home: &Path) -> Result<Self, Failure> {
        Self::read(folder, home, true)
    }

    /// The same without a comparison: for bundles that were changed on purpose.
    ///
    /// # Errors
    /// [`Failure::Bundle`] when a file is missing.
    pub fn load_unchecked(folder: &Path, home: &Path) -> Result<Self, Failure> {
        Self::read(folder, home, false)
    }

    fn read(folder: &Path, home: &Path, compare: bool) -> Result<Self, Failure> {
        let manifest = text(&folder.join("manifest.toml"))?;
        let manifest: Manifest = toml::from_str(&manifest).map_err(|e| bad(e.to_string()))?;
        let calls = text(&home.join("calls.json"))?;
        let mut calls: HashMap<String, Vec<String>> =
            serde_json::from_str(&calls).map_err(|e| bad(format!("calls.json: {e}")))?;
        let mut scripts = Vec::with_capacity(manifest.scripts.len());
        for entry in manifest.scripts {
            let path = folder.join(&entry.file);
            let source = fs::read(&path).map_err(|e| bad(format!("{}: {e}", path.display())))?;
            let sha1 = sha1_of(&source);
            if compare && sha1 != entry.sha1 {
                let (file, named) = (entry.file, entry.sha1);
                return Err(bad(format!("{file} has SHA-1 {sha1}, the manifest says {named}")));
            }
            let keys = calls.remove(&entry.name);
            let keys = keys.ok_or_else(|| bad(format!("calls.json has no {}", entry.name)))?;
            scripts.push(Script { name: entry.name, sha1, source, keys });
        }
        Ok(Self { wire: manifest.wire, scripts })
    }

    /// Each script's name and digest, in the manifest's order.
    pub fn digests(&self) -> impl Iterator<Item = (&str, &str)> {
        self.scripts.iter().map(|script| (script.name.as_str(), script.sha1.as_str()))
    }

    /// The script of this name.
    pub(crate) fn script(&self, name: &str) -> Result<&Script, String> {
        let script = self.scripts.iter().find(|script| script.name == name);
        script.ok_or_else(|| format!("the bundle has no script {name:?}"))
    }
}

/// The digest by which a server knows a script.
pub(crate) fn sha1_of(source: &[u8]) -> String {
    Sha1::digest(source).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|e| bad(format!("{}: {e}", path.display())))
}

fn bad(why: String) -> Failure {
    Failure::Bundle(why)
}
