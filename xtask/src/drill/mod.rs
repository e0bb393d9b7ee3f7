//! `cargo xtask drill`: real processes, killed with -9 at random points, and the books afterwards.

mod business;
mod child;
mod feed;
mod kill9;
mod relay;
mod relayer;
mod worker;

use crate::Outcome;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Kill the worker process and the server over a feed of fills, then audit the books
    Kill9(kill9::Args),
    /// Kill relays between the bus's admission and the delete, and the server, then audit the books
    Relay(relay::Args),
    /// The relay process of the drill
    #[command(hide = true)]
    Relayer(relayer::Args),
    /// The worker process of the drill
    #[command(hide = true)]
    Worker(worker::Args),
}

pub(crate) fn run(command: &Command) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    match command {
        Command::Kill9(args) => {
            crate::valkey::ensure()?;
            runtime.block_on(kill9::run(args))
        }
        Command::Relay(args) => {
            crate::valkey::ensure()?;
            runtime.block_on(relay::run(args))
        }
        Command::Relayer(args) => runtime.block_on(relayer::run(args)),
        Command::Worker(args) => runtime.block_on(worker::run(args)),
    }
}
