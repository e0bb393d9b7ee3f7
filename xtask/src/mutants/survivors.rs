//! Mutants that nobody can notice, with the reason.

use std::collections::BTreeMap;

use super::table::Mutant;
use crate::{Failure, Outcome};

const TEXT: &str = include_str!("survivors.toml");

/// Name -> why nobody can notice it.
pub(super) struct Survivors(BTreeMap<String, String>);

impl Survivors {
    pub(super) fn load() -> Result<Survivors, Failure> {
        Survivors::parse(TEXT)
    }

    pub(super) fn parse(text: &str) -> Result<Survivors, Failure> {
        let table: toml::Table = text.parse()?;
        let mut reasons = BTreeMap::new();
        for (name, reason) in table {
            match reason.as_str() {
                Some(reason) if !reason.trim().is_empty() => {
                    reasons.insert(name, reason.to_owned());
                }
                _ => return Err(format!("survivors.toml gives no reason for {name}").into()),
            }
        }
        Ok(Survivors(reasons))
    }

    /// Fails on a reason for a mutant that isn't there.
    pub(super) fn check(&self, mutants: &[Mutant]) -> Outcome {
        let known = |name: &&String| mutants.iter().any(|mutant| mutant.name == **name);
        match self.0.keys().find(|name| !known(name)) {
            Some(name) => Err(format!("survivors.toml explains {name}, which is no mutant").into()),
            None => Ok(()),
        }
    }

    pub(super) fn reason(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}
