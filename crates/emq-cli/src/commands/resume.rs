//! `emq resume`: serves a queue or a lane again.

use super::pause::tell;
use crate::connect::Globals;
use crate::exit::Failure;
use crate::values::WhichLane;

/// What `emq resume` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    #[command(flatten)]
    lane: WhichLane,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let queue = globals.known_queue(&args.queue).await?;
    let switched = match args.lane.of(&queue) {
        Some(lane) => lane.resume().await?,
        None => queue.resume().await?,
    };
    tell(globals, &queue, args.lane.id(), "open", switched)
}
