//! `emq`: the hands of an operator, and of a shell, on an EchoMQ bus.
//!
//! Everything here goes through `emq-core`'s public verbs. A command returns what it found or a
//! [`Failure`], which is one line on standard error and one of the exit codes of
//! [`exit::TABLE`].

mod cli;
mod commands;
mod confirm;
mod connect;
mod exit;
mod job_view;
mod output;
mod serve;
mod signals;
mod top;
mod values;
mod watching;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::exit::Failure;

fn main() -> ExitCode {
    // Also where the rest of the command line can't be read. What follows -- is another's.
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    match cli::parse().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

fn run(cli: Option<Cli>) -> Result<(), Failure> {
    let Some(cli) = cli else { return Ok(()) };
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
