//! Ours beside the server's own limits: `cargo xtask bench`.
//!
//! Each part starts a server of its own. Both sides of a ratio are taken in turn in one run, and
//! medians are compared. A figure is never asserted: a missed target is printed as such, and only
//! a job that was lost, doubled or left behind makes the command fail.

mod board;
mod bytes_a_job;
mod claims;
mod client_memory;
mod connector;
mod enqueue;
mod figures;
mod ground;
mod idle;
mod pickup;
mod pickup_floor;
mod raw;
mod reconnect;
mod rivals;
mod turns;
mod worker;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use emq_bench::referee::Machine;
use emq_testkit::Valkey;

use self::board::Board;

/// Why a part came to no figure.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
#[command(name = "limits")]
struct Cli {
    /// Smaller sizes: shows that it runs, and roughly how it stands
    #[arg(long)]
    quick: bool,
    /// The server's benchmark tool
    #[arg(long)]
    tool: Option<PathBuf>,
    /// The program that drives the connectors of the field
    #[arg(long)]
    connectors: Option<PathBuf>,
    /// Only these parts
    parts: Vec<Part>,
}

/// What can be measured alone.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The connection, beside the server's benchmark tool and the field
    Connector,
    /// One by one, from many tasks, in bulk
    Enqueue,
    /// The worker beside the turn script
    Worker,
    /// From enqueue to handler, and jobs that are due later
    Pickup,
    /// What parked workers send
    Idle,
    /// Claims over few lanes and many
    Claims,
    /// The server's memory a job
    Bytes,
    /// The client's memory; in full runs only
    Memory,
    /// From a restarted server to the first job
    Reconnect,
}

/// How much is done, and with what.
pub(crate) struct Plan {
    pub(crate) quick: bool,
    /// How often each side has its turn.
    pub(crate) rounds: usize,
    pub(crate) tool: Option<PathBuf>,
    pub(crate) connectors: Option<PathBuf>,
}

impl Plan {
    /// A size for a quick run and for a full one.
    pub(crate) fn size(&self, quick: usize, full: usize) -> usize {
        if self.quick { quick } else { full }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let rounds = if cli.quick { 5 } else { 9 };
    let Cli { quick, tool, connectors, parts } = cli;
    let plan = Plan { quick, rounds, tool, connectors };
    if let Err(failure) = header(&plan) {
        eprintln!("limits: {}", with_causes(failure.as_ref()));
        return ExitCode::FAILURE;
    }
    let mut board = Board::default();
    let mut failed = false;
    for part in Part::value_variants() {
        if !parts.is_empty() && !parts.contains(part) {
            continue;
        }
        let name = part.to_possible_value().map(|value| value.get_name().to_owned());
        let name = name.unwrap_or_default();
        println!("\n== {name}");
        if let Err(failure) = run(*part, &plan, &mut board) {
            eprintln!("limits: {name}: {}", with_causes(failure.as_ref()));
            failed = true;
        }
    }
    board.print();
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What the figures are of: rates say nothing without it.
fn header(plan: &Plan) -> Result<(), Failure> {
    let Machine { date, machine, commit } = Machine::here();
    let engine = Valkey::start()?.version()?;
    let kind = if plan.quick { "quick" } else { "full" };
    println!("limits: commit {commit}, {date}, {machine}");
    println!("limits: Valkey {engine}, volatile; {kind}, each side {} times in turn", plan.rounds);
    Ok(())
}

/// Each part has a runtime of its own, on this thread: the other processor is the server's.
fn run(part: Part, plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match part {
            Part::Connector => connector::measure(plan, board).await,
            Part::Enqueue => enqueue::measure(plan, board).await,
            Part::Worker => worker::measure(plan, board).await,
            Part::Pickup => pickup::measure(plan, board).await,
            Part::Idle => idle::measure(plan, board).await,
            Part::Claims => claims::measure(plan, board).await,
            Part::Bytes => bytes_a_job::measure(plan, board).await,
            Part::Memory => client_memory::measure(plan, board).await,
            Part::Reconnect => reconnect::measure(plan, board).await,
        }
    })
}

/// What must hold, whatever the figures are.
pub(crate) fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn with_causes(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        line = format!("{line}: {next}");
        cause = next.source();
    }
    line
}
