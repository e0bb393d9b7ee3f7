//! `emq serve`: metrics, health and a read-only console over HTTP.

use crate::connect::Globals;
use crate::exit::Failure;

/// What `emq serve` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(globals: &Globals, _args: Args) -> Result<(), Failure> {
    let _bus = globals.connect().await?;
    Err(Failure::failed("emq serve is not in this build"))
}
