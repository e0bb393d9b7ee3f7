//! One file for each command; each has its `Args` and its `run`.

pub(crate) mod bench;
pub(crate) mod browse;
pub(crate) mod cancel;
pub(crate) mod checkpoint;
pub(crate) mod completions;
pub(crate) mod conform;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod drain;
pub(crate) mod enqueue;
pub(crate) mod lanes;
pub(crate) mod limit;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod morgue;
pub(crate) mod named;
pub(crate) mod obliterate;
pub(crate) mod pause;
pub(crate) mod remove;
pub(crate) mod resume;
pub(crate) mod schedules;
pub(crate) mod show;
pub(crate) mod weight;
pub(crate) mod work;

use crate::cli::{Cli, Command};
use crate::exit::Failure;
use crate::{serve, top};

pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    let globals = &cli.globals;
    match cli.command {
        Command::Dev(args) => dev::run(globals, args).await,
        Command::Enqueue(args) => Box::pin(enqueue::run(globals, args)).await,
        Command::Work(args) => Box::pin(work::run(globals, args)).await,
        Command::Checkpoint(args) => checkpoint::run(globals, args).await,
        Command::Ls(args) => ls::run(globals, args).await,
        Command::Lanes(args) => lanes::run(globals, args).await,
        Command::Show(args) => show::run(globals, args).await,
        Command::Browse(args) => browse::run(globals, args).await,
        Command::Morgue(args) => morgue::run(globals, args).await,
        Command::Limit(args) => limit::run(globals, args).await,
        Command::Weight(args) => weight::run(globals, args).await,
        Command::Pause(args) => pause::run(globals, args).await,
        Command::Resume(args) => resume::run(globals, args).await,
        Command::Cancel(args) => cancel::run(globals, args).await,
        Command::Remove(args) => remove::run(globals, args).await,
        Command::Drain(args) => drain::run(globals, args).await,
        Command::Obliterate(args) => obliterate::run(globals, args).await,
        Command::Doctor(args) => doctor::run(globals, args).await,
        Command::Schedules(args) => Box::pin(schedules::run(globals, args)).await,
        Command::Bench(args) => Box::pin(bench::run(globals, args)).await,
        Command::Conform(args) => conform::run(globals, args).await,
        Command::Top(args) => Box::pin(top::run(globals, args)).await,
        Command::Serve(args) => Box::pin(serve::run(globals, args)).await,
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}
