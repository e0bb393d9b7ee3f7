//! The contracts with a bundle, ready to be driven against servers.

use std::path::{Path, PathBuf};

use crate::bundle::Bundle;
use crate::contract::Contract;
use crate::drive::{Broken, Drive};
use crate::link::Link;
use crate::names::Minter;
use crate::report::{Line, Report, Verdict};
use crate::sabotage::Sabotage;
use crate::{Failure, fence};

/// Which contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// The fourteen.
    Seed,
    /// Those since.
    Second,
    /// Both.
    All,
}

impl Set {
    /// By the word that the drivers take.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        match word {
            "seed" => Some(Self::Seed),
            "second" => Some(Self::Second),
            "all" => Some(Self::All),
            _ => None,
        }
    }

    /// The sets that are in this one.
    #[must_use]
    pub fn parts(self) -> &'static [Self] {
        match self {
            Self::Seed => &[Self::Seed],
            Self::Second => &[Self::Second],
            Self::All => &[Self::Seed, Self::Second],
        }
    }

    pub(crate) fn folder(self) -> &'static str {
        if self == Self::Second { "contracts2" } else { "contracts" }
    }

    pub(crate) fn word(self) -> &'static str {
        if self == Self::Second { "CONFORMANCE-2" } else { "CONFORMANCE" }
    }

    pub(crate) fn line_word(self) -> &'static str {
        if self == Self::Second { "CONF2" } else { "CONF" }
    }
}

/// Contracts and a bundle. Loaded once, it can be run many times.
#[derive(Debug)]
pub struct Suite {
    pub(crate) bundle: Bundle,
    pub(crate) contracts: Vec<(Set, Contract)>,
    sabotage: Option<Sabotage>,
    own_server: bool,
}

/// Drives the contracts of a set against the server at `url`, with the bundle of a folder. The
/// manifest's digests aren't compared, so that a bundle changed on purpose runs. What changes a
/// whole server is skipped: see [`Suite::own_server`].
///
/// # Errors
/// [`Failure`] when nothing could be driven; a broken contract is a line of the report.
pub fn run(url: &str, bundle: &Path, set: Set) -> Result<Report, Failure> {
    Suite::load(Bundle::load_unchecked(bundle, &home())?, set)?.run(url)
}

/// The folder of the contracts.
#[must_use]
pub fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

impl Suite {
    /// The contracts of a set.
    ///
    /// # Errors
    /// [`Failure::Contract`] names the file that isn't one.
    pub fn load(bundle: Bundle, set: Set) -> Result<Self, Failure> {
        let mut contracts = Vec::new();
        for part in set.parts() {
            let loaded = Contract::load(&home(), *part)?;
            contracts.extend(loaded.into_iter().map(|contract| (*part, contract)));
        }
        Ok(Self::of(bundle, contracts))
    }

    pub(crate) fn of(bundle: Bundle, contracts: Vec<(Set, Contract)>) -> Self {
        Self { bundle, contracts, sabotage: None, own_server: false }
    }

    /// The names of its contracts, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.contracts.iter().map(|(_, contract)| contract.name.as_str())
    }

    /// Only the contract of this name.
    #[must_use]
    pub fn only(mut self, name: &str) -> Self {
        self.contracts.retain(|(_, contract)| contract.name == name);
        self
    }

    /// Drives as a client that is wrong in this way.
    #[must_use]
    pub fn sabotaged(mut self, sabotage: Sabotage) -> Self {
        self.sabotage = Some(sabotage);
        self
    }

    /// The server is nobody else's: contracts that fill it or plant a version may run.
    #[must_use]
    pub fn own_server(mut self) -> Self {
        self.own_server = true;
        self
    }

    /// Passes the fence and drives the contracts in order, each on a queue of its own.
    ///
    /// # Errors
    /// [`Failure`] when the fence refuses, or the server goes away.
    pub fn run(&self, url: &str) -> Result<Report, Failure> {
        let mut link = Link::open(url)?;
        fence::pass(&mut link, &self.bundle)?;
        let mut report = Report::default();
        for (set, contract) in &self.contracts {
            let verdict = self.verdict(&mut link, url, contract)?;
            let (number, name) = (contract.number, contract.name.clone());
            report.lines.push(Line { set: *set, number, name, verdict });
        }
        Ok(report)
    }

    fn verdict(&self, link: &mut Link, url: &str, contract: &Contract) -> Result<Verdict, Failure> {
        if contract.needs_own_server && !self.own_server {
            return Ok(Verdict::Skipped("needs a server of its own".to_owned()));
        }
        let queue = format!("conf-{:016x}-{}", fastrand::u64(..), contract.name);
        let mut drive = Drive::new(link, &self.bundle, url, &queue, Minter::live());
        drive.sabotage = self.sabotage;
        match drive.run(contract, |_, _| {}) {
            Ok(()) => Ok(Verdict::Holds(contract.why.clone())),
            Err(Broken::Step { number, says, why }) => {
                Ok(Verdict::Broken(format!("step {number}, {says}: {why}")))
            }
            Err(Broken::Failed(failure)) => Err(failure),
        }
    }
}
