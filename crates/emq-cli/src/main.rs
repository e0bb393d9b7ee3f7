//! `emq`: the hands of an operator, and of a shell, on an EchoMQ bus.
//!
//! Everything here goes through `emq-core`'s public verbs. A command returns what it found or a
//! [`Failure`](exit::Failure), which is one line on standard error and one of the exit codes of
//! [`exit::Exit`].

mod cli;
mod commands;
mod connect;
mod exit;
mod output;
mod serve;
mod top;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::exit::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.globals.json;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("can't start: {error}")))?;
    let outcome = runtime.block_on(commands::run(cli));
    // A read of a terminal or of a pipe can't be called back; it ends with the process.
    runtime.shutdown_background();
    outcome
}
