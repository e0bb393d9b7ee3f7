//! `cargo xtask ci`: everything a submission must pass, and one line per job at the end.

use std::time::{Duration, Instant};

use clap::CommandFactory;

use crate::{Cli, Failure, conformance, container, fuzz, layers, sh, test, tools, with_causes};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    only: Vec<String>,
    /// Print the jobs' names
    #[arg(long)]
    list: bool,
}

/// How a job ended that didn't fail.
pub(crate) enum Verdict {
    /// It passed.
    Passed,
    /// It could not run here, and why.
    Skipped(String),
}

type Job = (&'static str, fn() -> Result<Verdict, Failure>);

/// The cheap ones first.
const JOBS: &[Job] = &[
    ("fmt", || cargo(&["fmt", "--all", "--check"])),
    ("layers", || passed(layers::run())),
    ("tidy", || task("tidy", &["tidy"])),
    ("protocol", || task("protocol", &["protocol", "--check"])),
    ("figures", || task("figures", &["figures"])),
    ("clippy", clippy),
    ("doc", doc),
    ("test", || passed(test::run(&test::Args::default()))),
    ("second-engine", second_engine),
    ("rungs", || task("rung", &["rung", "all"])),
    ("conformance", conformance::job),
    ("mutants", || task("mutants", &["mutants"])),
    ("demo", || task("demo", &["demo"])),
    ("drill", || {
        task("drill", &["drill", "kill9", "--store", "sqlite", "--fills", "200", "--kills", "8"])
    }),
    ("drill-relay", || task("drill", &["drill", "relay", "--store", "sqlite", "--kills", "20"])),
    ("package", package),
    ("fuzz", fuzz_smoke),
    ("deny", deny),
    ("containers", container::job),
];

pub(crate) fn run(args: &Args) -> crate::Outcome {
    if args.list {
        for (name, _) in JOBS {
            println!("{name}");
        }
        return Ok(());
    }
    if let Some(unknown) = args.only.iter().find(|only| !JOBS.iter().any(|(name, _)| name == only))
    {
        return Err(format!("no job {unknown}: see cargo xtask ci --list").into());
    }
    let mut lines = Vec::new();
    let mut failed = 0;
    for (name, job) in JOBS.iter().filter(|(name, _)| wanted(name, &args.only)) {
        println!("\n== {name}");
        let start = Instant::now();
        let verdict = job();
        failed += u32::from(verdict.is_err());
        lines.push(line(name, &verdict, start.elapsed()));
    }
    println!();
    for line in &lines {
        println!("{line}");
    }
    if failed == 0 { Ok(()) } else { Err(format!("ci: {failed} jobs failed").into()) }
}

fn wanted(name: &str, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|only| only == name)
}

fn line(name: &str, verdict: &Result<Verdict, Failure>, took: Duration) -> String {
    let took = format!("{:.0} s", took.as_secs_f64());
    match verdict {
        Ok(Verdict::Passed) => format!("ci {name:<14} ok       {took}"),
        Ok(Verdict::Skipped(reason)) => format!("ci {name:<14} skipped  {reason}"),
        Err(failure) => format!("ci {name:<14} FAILED   {took}  {}", with_causes(failure.as_ref())),
    }
}

fn passed(outcome: crate::Outcome) -> Result<Verdict, Failure> {
    outcome.map(|()| Verdict::Passed)
}

fn skipped(reason: impl Into<String>) -> Result<Verdict, Failure> {
    Ok(Verdict::Skipped(reason.into()))
}

fn cargo(args: &[&str]) -> Result<Verdict, Failure> {
    passed(sh::run(sh::cargo().args(args)))
}

/// One of our own tasks, in a process of its own: it may set up what must not stay.
fn task(name: &str, args: &[&str]) -> Result<Verdict, Failure> {
    if Cli::command().find_subcommand(name).is_none() {
        return skipped(format!("there is no cargo xtask {name}"));
    }
    passed(sh::run(sh::program(std::env::current_exe()?).args(args)))
}

fn clippy() -> Result<Verdict, Failure> {
    let features = ["--features", test::FEATURES];
    let args = ["clippy", "--workspace", "--all-targets"];
    cargo(&[&args[..], &features[..], &["--", "-D", "warnings"]].concat())
}

fn doc() -> Result<Verdict, Failure> {
    let mut doc = sh::cargo();
    doc.args(["doc", "--workspace", "--no-deps", "--features", test::FEATURES])
        .env("RUSTDOCFLAGS", "-D warnings");
    passed(sh::run(&mut doc))
}

/// The suite must pass on a second version of the engine too.
fn second_engine() -> Result<Verdict, Failure> {
    if let Err(failure) = tools::install() {
        return skipped(failure.to_string());
    }
    match tools::second_engine() {
        Ok(server) => passed(test::run(&test::Args { server: Some(server), ..Default::default() })),
        Err(failure) => skipped(failure.to_string()),
    }
}

/// Each package is built from its own archive, as one who downloads it would.
/// What isn't for a registry: the project's own tools, and the command, which carries the contracts
/// of one of them.
const UNPUBLISHED: &[&str] = &["xtask", "conformance", "contender", "emq-bench", "emq-cli"];

fn package() -> Result<Verdict, Failure> {
    let mut args = vec!["package", "--workspace", "--allow-dirty"];
    args.extend(UNPUBLISHED.iter().flat_map(|name| ["--exclude", name]));
    cargo(&args)
}

fn fuzz_smoke() -> Result<Verdict, Failure> {
    let args = fuzz::Args::default();
    match fuzz::hindrance(&args.target) {
        Some(reason) => skipped(reason),
        None => passed(fuzz::run(&args)),
    }
}

/// Licences always; advisories where their data can be had.
fn deny() -> Result<Verdict, Failure> {
    if !sh::has("cargo-deny") {
        return skipped("no cargo-deny: cargo install cargo-deny");
    }
    cargo(&["deny", "check", "licenses", "bans", "sources"])
}
