//! `lua/manifest.toml`: what the bundle says of itself.

use crate::bundle::BundleError;
use crate::fence::WIRE_VERSION;
use crate::name::ScriptName;

/// The manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) revision: u32,
    pub(crate) scripts: Vec<ManifestScript>,
}

/// One script's entry.
#[derive(Debug)]
pub(crate) struct ManifestScript {
    pub(crate) name: String,
    pub(crate) file: String,
}

impl Manifest {
    pub(crate) fn parse(text: &str) -> Result<Manifest, BundleError> {
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| malformed(error.message()))?;
        let wire = text_of(&table, "wire")?;
        if wire != WIRE_VERSION {
            return Err(malformed(&format!("it is for {wire}, not {WIRE_VERSION}")));
        }
        let revision = table.get("rev").and_then(toml::Value::as_integer);
        let revision = revision.and_then(|revision| u32::try_from(revision).ok());
        let revision = revision.ok_or_else(|| malformed("no number `rev`"))?;
        let entries = table.get("scripts").and_then(toml::Value::as_array);
        let scripts = entries
            .ok_or_else(|| malformed("no [[scripts]]"))?
            .iter()
            .map(|entry| entry.as_table().ok_or_else(|| malformed("an entry is no table")))
            .map(|entry| ManifestScript::read(entry?))
            .collect::<Result<_, _>>()?;
        Ok(Manifest { revision, scripts })
    }

    /// The file of a script.
    pub(crate) fn file(&self, script: ScriptName) -> Result<&str, BundleError> {
        let entry = self.scripts.iter().find(|entry| entry.name == script.as_str());
        let file = entry.map(|entry| entry.file.as_str());
        file.ok_or_else(|| malformed(&format!("it doesn't list {script}")))
    }
}

impl ManifestScript {
    fn read(entry: &toml::Table) -> Result<ManifestScript, BundleError> {
        Ok(ManifestScript { name: text_of(entry, "name")?, file: text_of(entry, "file")? })
    }
}

fn text_of(table: &toml::Table, key: &str) -> Result<String, BundleError> {
    let text = table.get(key).and_then(toml::Value::as_str);
    text.map(str::to_owned).ok_or_else(|| malformed(&format!("no text `{key}`")))
}

fn malformed(reason: &str) -> BundleError {
    BundleError::Manifest { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bundle::Bundle;
    use crate::contract::CONTRACTS;

    const TEXT: &str = include_str!("../lua/manifest.toml");

    fn manifest() -> Manifest {
        Manifest::parse(TEXT).unwrap()
    }

    /// The entries as they are, for what only tests read.
    fn entries() -> Vec<(ScriptName, toml::Table)> {
        let table: toml::Table = TEXT.parse().unwrap();
        let entries = table["scripts"].as_array().unwrap().iter();
        let entry = |entry: &toml::Value| {
            let name = entry["name"].as_str().and_then(ScriptName::of_name).unwrap();
            (name, entry.as_table().unwrap().clone())
        };
        entries.map(entry).collect()
    }

    #[test]
    fn the_manifest_lists_each_script_once_and_nothing_else() {
        let listed: Vec<String> = manifest().scripts.into_iter().map(|entry| entry.name).collect();
        let unique: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
        let known: BTreeSet<&str> = ScriptName::ALL.iter().map(|name| name.as_str()).collect();
        assert_eq!(unique, known);
        assert_eq!(listed.len(), unique.len());
    }

    #[test]
    fn the_folder_holds_each_script_and_nothing_else() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
        let files: BTreeSet<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|file| file.ends_with(".lua"))
            .collect();
        let listed: BTreeSet<String> =
            manifest().scripts.into_iter().map(|entry| entry.file).collect();
        assert_eq!(files, listed);
    }

    #[test]
    fn each_digest_is_true() {
        for (name, entry) in entries() {
            assert_eq!(entry["file"].as_str(), Some(&*format!("{name}.lua")));
            let digest = Bundle::embedded().script(name).sha1().to_owned();
            assert_eq!(entry["sha1"].as_str(), Some(&*digest), "{name}");
        }
    }

    #[test]
    fn the_counts_of_keys_and_arguments_are_the_contracts() {
        for (name, entry) in entries() {
            let contract = CONTRACTS.iter().find(|contract| contract.script == name).unwrap();
            let keys = entry["keys"].as_integer().and_then(|keys| usize::try_from(keys).ok());
            let args = entry["args"].as_integer().and_then(|args| usize::try_from(args).ok());
            assert_eq!(keys, Some(contract.keys.len()), "{name}");
            assert_eq!(args, Some(contract.args.len()), "{name}");
            assert_eq!(entry["rest"].as_bool(), Some(contract.tail.is_some()), "{name}");
        }
    }

    #[test]
    fn a_malformed_manifest_says_what_is_wrong() {
        for (text, reason) in [
            ("wire = 1", "`wire`"),
            ("wire = \"echomq:1.0.0\"", "echomq:1.0.0"),
            ("wire = \"echomq:2.0.0\"\nrev = -1", "`rev`"),
            ("wire = \"echomq:2.0.0\"\nrev = 1", "[[scripts]]"),
            ("wire = \"echomq:2.0.0\"\nrev = 1\n[[scripts]]\nname = \"a\"", "`file`"),
            ("]", "malformed"),
        ] {
            let error = Manifest::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
