//! `emq completions`: what a shell needs to complete its commands.

use clap_complete::Shell;

use crate::exit::Failure;
use crate::{cli, output};

/// What `emq completions` is told.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "emq", &mut script);
    output::write(&script)
}
