//! `cargo xtask bench`: ours beside the server's own limits, and the benches of parts.
//!
//! The last thing printed is the table of targets. A missed target fails nothing; a job that was
//! lost or doubled does.

mod instructions;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, Outcome, postgres, sh, tools, valkey};

/// Parts of the program `limits`, in its order.
const LIMITS: &[&str] =
    &["connector", "enqueue", "worker", "pickup", "idle", "claims", "bytes", "memory", "reconnect"];
const CRITERION: &[&str] = &["codec", "ids", "connector", "scripts"];
/// The parts that are no limits: criterion benches, the decoder beside another, what absorbing
/// costs, and instruction counts.
const OTHERS: &[&str] = &["criterion", "decoder", "absorb", "instructions"];
/// Where the connectors of the field are built: their workspace isn't ours.
const CONNECTORS: &str = "benches/rivals/connectors/Cargo.toml";
const CONNECTORS_TARGET: &str = "target/connectors";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Smaller sizes and shorter samples: shows that it runs, and roughly how it stands
    #[arg(long)]
    quick: bool,
    /// Keep the instruction counts of this run as those to compare with
    #[arg(long)]
    save: bool,
    /// Only these: connector, enqueue, worker, pickup, idle, claims, bytes, memory, reconnect;
    /// criterion, decoder, absorb, instructions
    #[arg(value_name = "PART", value_parser = part)]
    parts: Vec<String>,
}

fn part(name: &str) -> Result<String, String> {
    if LIMITS.iter().chain(OTHERS).any(|part| *part == name) {
        return Ok(name.to_owned());
    }
    Err(format!("one of {}, {}", LIMITS.join(", "), OTHERS.join(", ")))
}

impl Args {
    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    valkey::ensure()?;
    if args.wants("instructions") {
        instructions::run(args.save)?;
    }
    if args.wants("criterion") {
        criterion(args.quick)?;
    }
    if args.wants("decoder") {
        sh::run(sh::cargo().args(["bench", "-p", "emq-wire", "--bench", "decoder"]))?;
    }
    if args.wants("absorb") {
        absorb(args.quick)?;
    }
    // Last: its table is what a reader came for.
    limits(args)
}

fn criterion(quick: bool) -> Outcome {
    let mut bench = sh::cargo();
    bench.args(["bench", "-p", "emq-bench"]);
    for name in CRITERION {
        bench.args(["--bench", name]);
    }
    sh::run(samples(&mut bench, quick))
}

/// On each backend that can be had here.
fn absorb(quick: bool) -> Outcome {
    let features = match postgres::ensure() {
        Ok(server) => {
            println!("server: {server}");
            "sqlite,tokio-postgres,sqlx"
        }
        Err(failure) => {
            println!("absorb: without PostgreSQL: {failure}");
            "sqlite"
        }
    };
    let mut bench = sh::cargo();
    bench.args(["bench", "-p", "emq-stores", "--features", features, "--bench", "absorb"]);
    sh::run(samples(&mut bench, quick))
}

/// criterion's own options for a short run.
fn samples(bench: &mut Command, quick: bool) -> &mut Command {
    if quick {
        bench.args(["--", "--warm-up-time", "0.2", "--measurement-time", "0.5"]);
        bench.args(["--sample-size", "10"]);
    }
    bench
}

fn limits(args: &Args) -> Outcome {
    let parts: Vec<_> = LIMITS.iter().filter(|part| args.wants(part)).collect();
    if parts.is_empty() {
        return Ok(());
    }
    let bins = ["--bin", "limits", "--bin", "limits-memory"];
    sh::run(sh::cargo().args(["build", "--release", "-p", "emq-bench"]).args(bins))?;
    let mut limits = sh::program(target_directory()?.join("release/limits"));
    limits.args(&parts);
    if args.quick {
        limits.arg("--quick");
    }
    if args.wants("connector") {
        beside(&mut limits);
    }
    sh::run(&mut limits)
}

/// Whom the connection is set beside, as far as they can be had.
fn beside(limits: &mut Command) {
    match tools::benchmark().or_else(|_| tools::install()) {
        Ok(tool) => drop(limits.arg("--tool").arg(tool)),
        Err(failure) => println!("connector: without the benchmark tool: {failure}"),
    }
    match connectors() {
        Ok(program) => drop(limits.arg("--connectors").arg(program)),
        Err(failure) => println!("connector: without the connectors of the field: {failure}"),
    }
}

fn connectors() -> Result<PathBuf, Failure> {
    let target = sh::root().join(CONNECTORS_TARGET);
    let mut build = sh::cargo();
    build.args(["build", "--release", "--locked", "--manifest-path", CONNECTORS]);
    sh::run(build.arg("--target-dir").arg(&target))?;
    Ok(target.join("release/rival-connectors"))
}

fn target_directory() -> Result<PathBuf, Failure> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec()?;
    Ok(Path::new(&metadata.target_directory).to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_taken_by_its_name_only() {
        assert_eq!(part("claims"), Ok("claims".to_owned()));
        assert_eq!(part("absorb"), Ok("absorb".to_owned()));
        assert!(part("claim").unwrap_err().contains("claims"));
    }

    #[test]
    fn without_a_name_everything_is_wanted() {
        let args = |parts: &[&str]| Args {
            quick: false,
            save: false,
            parts: parts.iter().copied().map(str::to_owned).collect(),
        };
        assert!(args(&[]).wants("absorb"));
        assert!(args(&["idle"]).wants("idle") && !args(&["idle"]).wants("absorb"));
    }
}
