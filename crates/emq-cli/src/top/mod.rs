//! `emq top`: a live view in a terminal.

use crate::connect::Globals;
use crate::exit::Failure;

/// What `emq top` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(globals: &Globals, _args: Args) -> Result<(), Failure> {
    let _bus = globals.connect().await?;
    Err(Failure::failed("emq top is not in this build"))
}
