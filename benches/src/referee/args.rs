//! What the referee is asked to do.

use std::collections::BTreeMap;

use serde_json::Map;

use super::board::Seat;
use super::play::Program;
use super::row::{ROWS, Row};
use super::side::SIDES;
use super::size::Extent;

/// Rounds of a full run: medians of at least five.
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 2;

/// The referee's arguments; `cargo xtask referee` gives those of the programs.
#[derive(Clone, Debug, Default, clap::Parser)]
#[command(name = "referee", about = "Ours beside every rival, on one machine, in one run")]
pub struct Args {
    /// Smaller sizes and fewer rounds
    #[arg(long)]
    pub quick: bool,
    /// Only these rows
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only these rivals; `none` for ours alone
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub rival: Vec<String>,
    /// How often every side plays
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: Option<u16>,
    /// Write results and chart also when not every row, side and round was there
    #[arg(long)]
    pub save: bool,
    /// How a side's program is run
    #[arg(long, value_name = "NAME=COMMAND")]
    pub have: Vec<String>,
    /// Why a side's program can't be had
    #[arg(long, value_name = "NAME=REASON")]
    pub absent: Vec<String>,
}

impl Args {
    /// How much is measured.
    #[must_use]
    pub fn extent(&self) -> Extent {
        if self.quick { Extent::Quick } else { Extent::Full }
    }

    /// How often every side plays.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds.map_or(if self.quick { ROUNDS_QUICK } else { ROUNDS }, usize::from)
    }

    /// Whether it is everything that a full run is, so that its results may stand.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let all = self.only.is_empty() && self.rival.is_empty();
        all && !self.quick && self.rounds() >= ROUNDS
    }

    /// The rows to play, in the table's order.
    ///
    /// # Errors
    /// A row that there isn't.
    pub fn rows(&self) -> Result<Vec<&'static Row>, String> {
        let known = |name: &str| ROWS.iter().any(|row| row.name == name || row.asked == name);
        if let Some(name) = self.only.iter().find(|name| !known(name)) {
            let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            return Err(format!("no row {name}: there are {}", names.join(", ")));
        }
        let wanted = |row: &&Row| {
            self.only.is_empty()
                || self.only.iter().any(|name| name == row.name || name == row.asked)
        };
        Ok(ROWS.iter().filter(wanted).collect())
    }

    /// The programs that are there, by name.
    ///
    /// # Errors
    /// One that isn't `NAME=COMMAND`.
    pub fn programs(&self) -> Result<BTreeMap<String, Program>, String> {
        let programs = pairs(&self.have)?.into_iter();
        programs.map(|(name, command)| Ok((name.to_owned(), Program::parse(command)?))).collect()
    }

    /// Every side that was asked for, with the reason of those that don't play.
    ///
    /// # Errors
    /// A name that no side has.
    pub fn seats(&self) -> Result<Vec<Seat>, String> {
        let (programs, absent) = (self.programs()?, pairs(&self.absent)?);
        let known = |name: &str| name == "none" || SIDES.iter().any(|side| side.program == name);
        let mut names = self.rival.iter().map(String::as_str);
        let mut named = programs.keys().map(String::as_str).chain(absent.keys().copied());
        if let Some(name) =
            names.find(|name| !known(name)).or_else(|| named.find(|name| !known(name)))
        {
            return Err(format!("no side {name}"));
        }
        let wanted =
            |program: &str| self.rival.is_empty() || self.rival.iter().any(|r| r == program);
        let sides = SIDES.iter().filter(|side| side.ours || wanted(side.program));
        Ok(sides
            .map(|side| {
                let absent = match programs.contains_key(side.program) {
                    true => None,
                    false => Some(*absent.get(side.program).unwrap_or(&"no program was named")),
                };
                Seat { side, versions: Map::new(), absent: absent.map(str::to_owned) }
            })
            .collect())
    }
}

fn pairs(given: &[String]) -> Result<BTreeMap<&str, &str>, String> {
    let pair = |pair: &'_ String| -> Result<_, String> {
        pair.split_once('=').map(|_| ()).ok_or_else(|| format!("{pair}: it is NAME=..."))
    };
    given.iter().try_for_each(pair)?;
    Ok(given.iter().filter_map(|pair| pair.split_once('=')).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_rival_that_cannot_be_had_has_a_seat_and_a_reason() {
        let args = Args {
            have: list(&["ours=./ours", "bullmq=node run.js"]),
            absent: list(&["oban=mix deps.get failed"]),
            ..Args::default()
        };
        let seats = args.seats().unwrap();
        assert_eq!(seats.len(), SIDES.len());
        let absent = |name| seats.iter().find(|s| s.side.name == name).unwrap().absent.clone();
        assert_eq!(absent("ours-always"), None);
        assert_eq!(absent("bullmq"), None);
        assert_eq!(absent("oban").unwrap(), "mix deps.get failed");
        assert_eq!(absent("groupmq").unwrap(), "no program was named");
    }

    #[test]
    fn rivals_and_rows_can_be_chosen_and_wrong_names_are_refused() {
        let sides = |rival: &[&str]| {
            let args = Args { rival: list(rival), ..Args::default() };
            args.seats().map(|seats| seats.len())
        };
        assert_eq!(sides(&["none"]), Ok(3));
        assert_eq!(sides(&["chasquimq", "oban"]), Ok(6));
        assert!(sides(&["rabbit"]).is_err());
        let rows = |only: &[&str]| {
            let rows = Args { only: list(only), ..Args::default() }.rows()?;
            Ok::<_, String>(rows.iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert_eq!(rows(&["idle_pickup_ms"]).unwrap(), ["idle_pickup_p50", "idle_pickup_p99"]);
        assert_eq!(rows(&["process_c200_1ms"]).unwrap(), ["process_c200_1ms"]);
        assert!(rows(&["process_c3"]).unwrap_err().contains("process_c1,"));
    }

    #[test]
    fn only_a_whole_run_of_five_rounds_is_a_full_one() {
        assert!(Args::default().is_full());
        assert!(!Args { quick: true, ..Args::default() }.is_full());
        assert!(!Args { rounds: Some(4), ..Args::default() }.is_full());
        assert!(!Args { only: list(&["fairness"]), ..Args::default() }.is_full());
        assert!(!Args { rival: list(&["oban"]), ..Args::default() }.is_full());
    }
}
