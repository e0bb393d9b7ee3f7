//! The fourteen contracts inside the program, for a tool that is alone on a machine.

use std::collections::HashMap;

use crate::bundle::{Bundle, Script, sha1_of};
use crate::contract::Contract;
use crate::{Failure, Set, Suite};

const CALLS: &str = include_str!("../calls.json");

/// The files of the seed, in order.
macro_rules! seed {
    ($($stem:literal),* $(,)?) => {
        [$(($stem, include_str!(concat!("../contracts/", $stem, ".json")))),*]
    };
}

const SEED: [(&str, &str); 14] = seed![
    "01-fence",
    "02-mint",
    "03-duplicate",
    "04-kind",
    "05-order",
    "06-claim",
    "07-stale",
    "08-complete",
    "09-retry",
    "10-dead",
    "11-reap",
    "12-rotate",
    "13-pause",
    "14-limit",
];

impl Bundle {
    /// A bundle whose scripts are in the program: each one's name and source.
    ///
    /// # Errors
    /// [`Failure::Bundle`] for a script that nobody knows how to call.
    pub fn from_sources<'a>(
        wire: &str,
        sources: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Bundle, Failure> {
        let mut calls: HashMap<String, Vec<String>> =
            serde_json::from_str(CALLS).map_err(|e| Failure::Bundle(format!("calls.json: {e}")))?;
        let script = |(name, source): (&str, &[u8])| {
            let keys = calls.remove(name);
            let keys =
                keys.ok_or_else(|| Failure::Bundle(format!("nobody knows the keys of {name}")))?;
            Ok(Script { name: name.to_owned(), sha1: sha1_of(source), source: source.into(), keys })
        };
        let scripts = sources.into_iter().map(script).collect::<Result<_, Failure>>()?;
        Ok(Bundle { wire: wire.to_owned(), scripts })
    }
}

impl Suite {
    /// The fourteen contracts that are in the program, with a bundle.
    ///
    /// # Errors
    /// [`Failure::Contract`] names the one that can't be read.
    pub fn embedded(bundle: Bundle) -> Result<Suite, Failure> {
        let contract = |(stem, text): &(&str, &str)| {
            let parsed = Contract::parse(stem, text);
            let bad = |why| Failure::Contract { file: format!("{stem}.json"), why };
            parsed.map(|contract| (Set::Seed, contract)).map_err(bad)
        };
        Ok(Suite::of(bundle, SEED.iter().map(contract).collect::<Result<_, Failure>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home;

    #[test]
    fn what_is_embedded_is_what_the_folder_has() {
        let folder = Contract::load(&home(), Set::Seed).unwrap();
        let embedded = Suite::embedded(Bundle::from_sources("w", []).unwrap()).unwrap();
        let names = |contracts: &[&Contract]| {
            contracts.iter().map(|contract| contract.name.clone()).collect::<Vec<_>>()
        };
        let ours: Vec<&Contract> =
            embedded.contracts.iter().map(|(_, contract)| contract).collect();
        assert_eq!(names(&ours), names(&folder.iter().collect::<Vec<_>>()));
        assert!(Bundle::from_sources("w", [("nobody", &b"x"[..])]).is_err());
    }
}
