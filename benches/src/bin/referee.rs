//! The referee's command: `cargo xtask referee` builds all sides and calls it.

use std::process::ExitCode;

use clap::Parser;
use emq_bench::referee::{Args, run};

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("referee: {failure}");
            ExitCode::FAILURE
        }
    }
}
