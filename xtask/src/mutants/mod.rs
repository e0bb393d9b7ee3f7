//! `cargo xtask mutants`: breaks each script of the bundle on purpose, in one small way at a time,
//! and asks whether anybody notices: first the contracts of `conformance/`, then the tests of
//! emq-scripts that take a bundle from `EMQ_BUNDLE`. A harness that can't fail is decoration.
//!
//! The mutants are in `tables/`. One that nobody notices fails the command, unless
//! `survivors.toml` says why nobody can.

mod contracts;
mod folder;
mod hunt;
mod survivors;
mod table;
#[cfg(test)]
mod tests;
mod trials;

use std::time::Instant;

use self::contracts::Contracts;
use self::hunt::{Caught, Fate};
use self::survivors::Survivors;
use self::table::Mutant;
use self::trials::Trials;
use crate::{Failure, Outcome, valkey};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these: a mutant (`complete/keeps-the-row`), or all of a script (`complete`)
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Print the mutants' names
    #[arg(long)]
    list: bool,
    /// Only the contracts: what they don't notice counts as unexplained
    #[arg(long)]
    contracts: bool,
    /// How many are hunted at a time, each on a server of its own
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mutants = table::load()?;
    let survivors = Survivors::load()?;
    survivors.check(&mutants)?;
    let chosen = choose(&mutants, &args.only)?;
    if args.list {
        chosen.iter().for_each(|mutant| println!("{}", mutant.name));
        return Ok(());
    }
    table::find_places(&chosen)?;
    valkey::ensure()?;
    let start = Instant::now();
    let contracts = Contracts::load()?;
    let trials = if args.contracts { Trials::none() } else { Trials::build()? };
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok().map(Into::into));
    let fates = hunt::all(&chosen, &contracts, &trials, jobs.unwrap_or(1))?;
    let tally = Tally::of(&chosen, &fates, &survivors);
    println!();
    tally.open.iter().for_each(|line| println!("{line}"));
    println!("by contracts {}, by tests {}", tally.by_contracts, tally.by_tests);
    println!("{:.0} s, {} servers at a time", start.elapsed().as_secs_f64(), jobs.unwrap_or(1));
    println!("{}", tally.closing());
    match tally.unexplained + tally.wrongly_explained {
        0 => Ok(()),
        n => Err(format!("{n} mutants: see the lines above").into()),
    }
}

fn choose<'a>(all: &'a [Mutant], only: &[String]) -> Result<Vec<&'a Mutant>, Failure> {
    let is = |mutant: &Mutant, name: &String| mutant.name == *name || mutant.script == *name;
    if let Some(name) = only.iter().find(|name| !all.iter().any(|mutant| is(mutant, name))) {
        return Err(format!("no mutant {name}: see cargo xtask mutants --list").into());
    }
    let wanted = |it: &&Mutant| only.is_empty() || only.iter().any(|name| is(it, name));
    Ok(all.iter().filter(wanted).collect())
}

/// How many ended how.
#[derive(Default)]
struct Tally {
    by_contracts: usize,
    by_tests: usize,
    explained: usize,
    unexplained: usize,
    /// Killed, but `survivors.toml` says that this can't be.
    wrongly_explained: usize,
    /// A line for each that somebody has to look at.
    open: Vec<String>,
}

impl Tally {
    fn of(chosen: &[&Mutant], fates: &[Fate], survivors: &Survivors) -> Tally {
        let mut tally = Tally::default();
        for (mutant, fate) in chosen.iter().zip(fates) {
            let name = &mutant.name;
            let reason = survivors.reason(name);
            match (fate, reason) {
                (Fate::Killed(caught), reason) => {
                    match caught {
                        Caught::Contract { .. } => tally.by_contracts += 1,
                        Caught::Test { .. } => tally.by_tests += 1,
                    }
                    if reason.is_some() {
                        tally.wrongly_explained += 1;
                        tally
                            .open
                            .push(format!("killed, though survivors.toml explains it: {name}"));
                    }
                }
                (Fate::Survived, Some(_)) => tally.explained += 1,
                (Fate::Survived, None) => {
                    tally.unexplained += 1;
                    tally.open.push(format!("unexplained: {name}: {}", mutant.change()));
                }
                (Fate::NotDriven(why), _) => {
                    tally.unexplained += 1;
                    tally.open.push(format!("not driven: {name}: {why}"));
                }
            }
        }
        tally
    }

    fn closing(&self) -> String {
        let killed = self.by_contracts + self.by_tests;
        let Self { explained, unexplained, .. } = self;
        format!("MUTANTS {killed} killed, {explained} explained, {unexplained} unexplained")
    }
}
