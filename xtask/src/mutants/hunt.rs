//! The hunt: several mutants at a time, each hunter with a server of its own.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use emq_testkit::Valkey;

use super::contracts::Contracts;
use super::folder::Folder;
use super::table::Mutant;
use super::trials::Trials;
use crate::{Failure, with_causes};

/// How a mutant ended.
#[derive(Debug)]
pub(super) enum Fate {
    Killed(Caught),
    Survived,
    /// Nothing is known, and why.
    NotDriven(String),
}

/// Who noticed it, and in what words.
#[derive(Debug)]
pub(super) enum Caught {
    Contract { name: String, why: String },
    Test { name: String, why: String },
}

/// `killed by contract late-complete: step 4, ...`.
impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(Caught::Contract { name, why }) => {
                write!(f, "killed by contract {name}: {}", short(why))
            }
            Self::Killed(Caught::Test { name, why }) => {
                write!(f, "killed by test {name}: {}", short(why))
            }
            Self::Survived => write!(f, "SURVIVED"),
            Self::NotDriven(why) => write!(f, "NOT DRIVEN: {}", short(why)),
        }
    }
}

fn short(why: &str) -> String {
    const LONGEST: usize = 160;
    let line = why.lines().next().unwrap_or_default();
    line.chars().take(LONGEST).collect()
}

/// The fates of these, in their order; a line for each is printed as it is known.
pub(super) fn all(
    mutants: &[&Mutant],
    contracts: &Contracts,
    trials: &Trials,
    hunters: usize,
) -> Result<Vec<Fate>, Failure> {
    sound(contracts)?;
    let next = AtomicUsize::new(0);
    let fates: Mutex<Vec<(usize, Fate)>> = Mutex::default();
    let hunter = || -> Result<(), Failure> {
        let valkey = Valkey::start()?;
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(mutant) = mutants.get(at) else { return Ok(()) };
            let fate = one(mutant, contracts, trials, &valkey)
                .unwrap_or_else(|failure| Fate::NotDriven(with_causes(failure.as_ref())));
            println!("{:<48} {fate}", mutant.name);
            fates.lock().map_err(|_| "a hunter panicked")?.push((at, fate));
            clear(&valkey)?;
        }
    };
    std::thread::scope(|scope| {
        let hunters: Vec<_> = (0..hunters.max(1)).map(|_| scope.spawn(hunter)).collect();
        let ends =
            hunters.into_iter().map(|hunter| hunter.join().map_err(|_| "a hunter panicked")?);
        ends.collect::<Result<Vec<()>, Failure>>()
    })?;
    let mut fates = fates.into_inner().map_err(|_| "a hunter panicked")?;
    fates.sort_by_key(|(at, _)| *at);
    Ok(fates.into_iter().map(|(_, fate)| fate).collect())
}

/// The whole bundle keeps every contract, or else the kills would mean nothing.
fn sound(contracts: &Contracts) -> Result<(), Failure> {
    let (valkey, whole) = (Valkey::start()?, Folder::whole()?);
    match contracts.hunt(whole.path(), None, &valkey.url())? {
        Some((name, why)) => Err(format!("the whole bundle breaks {name}: {why}").into()),
        None => Ok(()),
    }
}

/// Hunts one: the contracts first, then the tests.
pub(super) fn one(
    mutant: &Mutant,
    contracts: &Contracts,
    trials: &Trials,
    valkey: &Valkey,
) -> Result<Fate, Failure> {
    let folder = Folder::broken(mutant, valkey)?;
    let found = contracts.hunt(folder.path(), Some(&mutant.script), &valkey.url())?;
    if let Some((name, why)) = found {
        return Ok(Fate::Killed(Caught::Contract { name, why }));
    }
    let found = trials.hunt(folder.path(), &mutant.script)?;
    Ok(match found {
        Some((name, why)) => Fate::Killed(Caught::Test { name, why }),
        None => Fate::Survived,
    })
}

/// Forgets what a mutant left.
fn clear(valkey: &Valkey) -> Result<(), Failure> {
    valkey.cli(&["CONFIG", "SET", "maxmemory", "0"])?;
    valkey.cli(&["FLUSHALL"])?;
    valkey.cli(&["SCRIPT", "FLUSH"])?;
    Ok(())
}
