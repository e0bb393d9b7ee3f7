//! `emq weight`: sets how many jobs a lane starts per turn.

use emq_core::Switched;

use super::limit::said;
use crate::connect::Globals;
use crate::exit::Failure;
use crate::values::WhichLane;

/// What `emq weight` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    /// How many jobs the lane may start per turn of the ring; 1 is the default
    #[arg(value_name = "N")]
    weight: u32,

    #[command(flatten)]
    lane: WhichLane,

    /// Also when the queue has no job and no setting yet
    #[arg(long)]
    new: bool,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let queue = globals.queue_to_set(&args.queue, args.new).await?;
    let lane = args.lane.needed(&queue)?;
    let switched = lane.weight(args.weight).await?;
    let value = serde_json::json!({
        "queue": queue.name().as_str(),
        "lane": lane.id(),
        "weight": args.weight,
        "changed": switched == Switched::Changed,
    });
    let setting = format!("lane {} starts up to {} a turn", lane.id(), args.weight);
    globals.out().tell(&value, || said(&setting, switched))
}
