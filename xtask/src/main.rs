//! The project's own automation: `cargo xtask <task>`. This file only dispatches; a task is a module.

mod bench;
mod books;
mod ci;
mod conformance;
mod console;
mod container;
mod demo;
mod drill;
mod figures;
mod fuzz;
mod layers;
mod mutants;
mod pinned;
mod postgres;
mod protocol;
#[cfg(test)]
mod readme;
mod referee;
mod rung;
mod sh;
mod test;
mod tidy;
mod tools;
mod valkey;
mod vectors;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Why a task failed: printed as one line, the causes after colons.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;
/// What a task answers.
pub(crate) type Outcome = Result<(), Failure>;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "EchoMQ automation", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every test and doctest on a real Valkey (installed first when there is none)
    Test(test::Args),
    /// Everything a submission must pass: one line per job
    Ci(ci::Args),
    /// Get, find or run the Valkey that tests and demos use
    #[command(subcommand)]
    Valkey(valkey::Command),
    /// Get, find or run the PostgreSQL that tests use
    #[command(subcommand)]
    Postgres(postgres::Command),
    /// Get the server's benchmark tool
    #[command(subcommand)]
    Tools(tools::Command),
    /// Check the law of layers: a forbidden edge between crates fails
    Layers,
    /// The main job: a feed of fills, enqueued, worked through faults, and accounted for
    Demo(demo::Args),
    /// Kill real processes at random points, then audit what they wrote
    #[command(subcommand)]
    Drill(drill::Command),
    /// Run a chapter's gates against a live Valkey
    Rung(rung::Args),
    /// Drive the contracts of the wire, in Rust, Python and Node
    Conformance(conformance::Args),
    /// Look at the console of `emq serve` in a real browser
    Console(console::Args),
    /// Write the golden vectors, or check them
    Vectors(vectors::Args),
    /// Check headers, digests and expansions of the Lua bundle, and the budgets of files and lines
    Tidy(tidy::Args),
    /// Check that measured numbers on pages are in frozen transcripts
    Figures(figures::Args),
    /// Write docs/PROTOCOL.md from the bundle, or compare it
    Protocol(protocol::Args),
    /// Break each script on purpose, in small ways, and require that somebody notices
    Mutants(mutants::Args),
    /// Measure ours beside every rival, on this machine, in one run
    Referee(referee::Args),
    /// Ours beside the server's own limits, and the benches of parts
    Bench(bench::Args),
    /// Fuzz the RESP decoder
    Fuzz(fuzz::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Test(args) => test::run(&args),
        Task::Ci(args) => ci::run(&args),
        Task::Valkey(command) => valkey::run(&command),
        Task::Postgres(command) => postgres::run(&command),
        Task::Tools(command) => tools::run(&command),
        Task::Layers => layers::run(),
        Task::Demo(args) => demo::run(&args),
        Task::Drill(command) => drill::run(&command),
        Task::Rung(args) => rung::run(&args),
        Task::Conformance(args) => conformance::run(&args),
        Task::Console(args) => console::run(&args),
        Task::Vectors(args) => vectors::run(&args),
        Task::Tidy(args) => tidy::run(&args),
        Task::Figures(args) => figures::run(&args),
        Task::Protocol(args) => protocol::run(&args),
        Task::Mutants(args) => mutants::run(&args),
        Task::Referee(args) => referee::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {}", with_causes(failure.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes on one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        line.push_str(": ");
        line.push_str(&next.to_string());
        cause = next.source();
    }
    line
}
