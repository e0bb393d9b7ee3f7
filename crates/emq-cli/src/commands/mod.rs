//! One file for each command; each has its `Args` and its `run`.

use crate::cli::{Cli, Command};
use crate::exit::Failure;
use crate::{serve, top};

pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let globals = &cli.globals;
    match cli.command {
        Command::Top(args) => top::run(globals, args).await,
        Command::Serve(args) => serve::run(globals, args).await,
    }
}
