//! `cargo xtask referee`: builds all sides in release, each with its own package manager, and runs
//! the referee over those that could be had.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Failure, Outcome, postgres, sh, valkey};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Smaller sizes and fewer rounds: under five minutes, builds aside
    #[arg(long)]
    quick: bool,
    /// Only these rows
    #[arg(long, value_name = "ROW", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these rivals; `none` for ours alone
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    rival: Vec<String>,
    /// How often every side plays
    #[arg(long)]
    rounds: Option<u16>,
    /// Write results and chart also when not every row, side and round was there
    #[arg(long)]
    save: bool,
}

/// The command that plays Oban's side where hex packages can't be fetched.
const OBAN_VARIABLE: &str = "EMQ_RIVAL_OBAN";
const RIVALS: &str = "benches/rivals";

/// How a rival is had.
#[derive(Clone, Copy)]
enum Maker {
    /// Its package in the workspace of the rivals is `rival-<name>`.
    Cargo,
    /// Its folder is a package of npm with a `run.js`.
    Npm,
    /// Its folder is a project of Mix with a `run.exs`.
    Mix,
}

const MAKERS: &[(&str, Maker)] = &[
    ("bullmq", Maker::Npm),
    ("bullmq-official", Maker::Cargo),
    ("groupmq", Maker::Npm),
    ("apalis-redis", Maker::Cargo),
    ("chasquimq", Maker::Cargo),
    ("graphile-worker", Maker::Cargo),
    ("oban", Maker::Mix),
];

pub(crate) fn run(args: &Args) -> Outcome {
    valkey::ensure()?;
    let wanted = |name: &str| args.rival.is_empty() || args.rival.iter().any(|r| r == name);
    if ["graphile-worker", "oban"].into_iter().any(wanted) {
        postgres::ensure()?;
    }
    let mut referee = referee()?;
    for (name, maker) in MAKERS.iter().filter(|(name, _)| wanted(name)) {
        match maker.make(name) {
            Ok(command) => referee.arg("--have").arg(format!("{name}={command}")),
            Err(why) => referee.arg("--absent").arg(format!("{name}={}", one_line(why.as_ref()))),
        };
    }
    pass_on(&mut referee, args);
    sh::run(&mut referee)
}

/// The referee with our own side, built.
fn referee() -> Result<Command, Failure> {
    sh::run(sh::cargo().args(["build", "--release", "-p", "emq-bench", "--bins"]))?;
    let mut referee = sh::program(built("target", "referee"));
    let ours = built("target", "emq-contender");
    referee.arg("--have").arg(format!("ours={}", ours.display()));
    Ok(referee)
}

/// A rival of the class of transactional enqueue.
pub(crate) struct StandIn {
    pub(crate) name: &'static str,
    /// The words of the command that plays it.
    pub(crate) command: String,
    /// Why it isn't the one before it in the list.
    pub(crate) instead_of: Option<String>,
}

/// The first rival of the class of transactional enqueue that can be had here: Oban, else
/// graphile_worker.
pub(crate) fn stand_in() -> Result<StandIn, Failure> {
    match Maker::Mix.make("oban") {
        Ok(command) => Ok(StandIn { name: "oban", command, instead_of: None }),
        Err(why) => {
            let instead_of = Some(format!("oban is absent: {}", one_line(why.as_ref())));
            let command = Maker::Cargo.make("graphile-worker")?;
            Ok(StandIn { name: "graphile-worker", command, instead_of })
        }
    }
}

/// What a short run of the referee over a few rows prints, with one rival.
pub(crate) fn short_run(rival: &StandIn, rows: &[&str]) -> Result<String, Failure> {
    let mut referee = referee()?;
    referee.arg("--have").arg(format!("{}={}", rival.name, rival.command));
    referee.args(["--quick", "--rounds", "1", "--rival", rival.name, "--only", &rows.join(",")]);
    sh::output(&mut referee)
}

fn pass_on(referee: &mut Command, args: &Args) {
    for (flag, set) in [("--quick", args.quick), ("--save", args.save)] {
        if set {
            referee.arg(flag);
        }
    }
    for (flag, list) in [("--only", &args.only), ("--rival", &args.rival)] {
        if !list.is_empty() {
            referee.arg(flag).arg(list.join(","));
        }
    }
    if let Some(rounds) = args.rounds {
        referee.arg("--rounds").arg(rounds.to_string());
    }
}

impl Maker {
    /// Builds the rival, or fetches what it is made of, and answers the command that plays it.
    fn make(self, name: &str) -> Result<String, Failure> {
        match self {
            Maker::Cargo => of_cargo(name),
            Maker::Npm => of_npm(name),
            Maker::Mix => of_mix(name),
        }
    }
}

fn of_cargo(name: &str) -> Result<String, Failure> {
    let package = format!("rival-{name}");
    let manifest = format!("{RIVALS}/Cargo.toml");
    there(&sh::root().join(&manifest))?;
    let mut build = sh::cargo();
    build.args(["build", "--release", "--locked", "--target-dir", "target/rivals"]);
    quietly(build.args(["--manifest-path", &manifest, "-p", &package]))?;
    Ok(built("target/rivals", &package).display().to_string())
}

fn of_npm(name: &str) -> Result<String, Failure> {
    let folder = sh::root().join(RIVALS).join(name);
    let script = folder.join("run.js");
    there(&script)?;
    for program in ["node", "npm"] {
        if !sh::has(program) {
            return Err(format!("no {program} here").into());
        }
    }
    let mut fetch = sh::program("npm");
    fetch.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
    quietly(&mut fetch)?;
    Ok(format!("node {}", script.display()))
}

fn of_mix(name: &str) -> Result<String, Failure> {
    if let Ok(command) = std::env::var(OBAN_VARIABLE) {
        return Ok(command);
    }
    let folder = sh::root().join(RIVALS).join(name);
    there(&folder.join("run.exs"))?;
    if !sh::has("mix") {
        return Err(format!("no mix here, and {OBAN_VARIABLE} names no command").into());
    }
    for step in [&["deps.get"][..], &["compile"]] {
        let mut mix = sh::program("mix");
        mix.args(step).env("MIX_ENV", "prod").current_dir(&folder);
        quietly(&mut mix)?;
    }
    // The referee only knows commands: folder and environment are part of this one.
    Ok(format!("env -C {} MIX_ENV=prod mix run run.exs", folder.display()))
}

/// A program in release of a target directory below the root.
fn built(target: &str, name: &str) -> PathBuf {
    sh::root().join(target).join("release").join(name)
}

fn there(file: &Path) -> Outcome {
    if file.exists() {
        return Ok(());
    }
    let name = file.strip_prefix(sh::root()).unwrap_or(file);
    Err(format!("there is no {}", name.display()).into())
}

/// Runs a preparation whose output only matters when it failed: then its last line is why.
fn quietly(command: &mut Command) -> Outcome {
    let out = command.stdin(Stdio::null()).output();
    let out = out.map_err(|e| format!("{}: {e}", sh::line(command)))?;
    if out.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&out.stderr);
    let why = text.lines().map(str::trim).find(|line| line.starts_with("error"));
    let why = why.or_else(|| text.lines().rev().find(|line| !line.trim().is_empty()));
    let program = Path::new(command.get_program()).file_name().and_then(OsStr::to_str);
    let program = program.unwrap_or("a program");
    Err(format!("{program}: {}", why.unwrap_or("it failed without a word")).into())
}

fn one_line(failure: &dyn std::error::Error) -> String {
    crate::with_causes(failure).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preparation_that_fails_says_why_in_a_line() {
        let shell = |script: &str| quietly(sh::program("sh").args(["-c", script]));
        shell("echo noise >&2").unwrap();
        let said = |script| shell(script).unwrap_err().to_string();
        let noisy = said("echo noise >&2; echo 'error: no such crate' >&2; echo >&2 end; exit 1");
        assert_eq!(noisy, "sh: error: no such crate");
        assert_eq!(said("echo first >&2; echo 'the last' >&2; exit 1"), "sh: the last");
        assert!(said("exit 1").contains("without a word"));
    }

    #[test]
    fn a_rival_that_is_not_there_is_named_by_its_place_in_the_tree() {
        let why = of_npm("no-such-rival").unwrap_err().to_string();
        assert_eq!(why, "there is no benches/rivals/no-such-rival/run.js");
    }
}
