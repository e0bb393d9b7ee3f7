//! `emq pause`: stops serving a queue or a lane.

use emq_core::{Queue, Switched};
use emq_keys::BrandedId;

use super::limit::said;
use crate::connect::Globals;
use crate::exit::Failure;
use crate::values::WhichLane;

/// What `emq pause` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    #[command(flatten)]
    lane: WhichLane,

    /// Also when the queue has no job and no setting yet
    #[arg(long)]
    new: bool,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let queue = globals.queue_to_set(&args.queue, args.new).await?;
    let switched = match args.lane.of(&queue) {
        Some(lane) => lane.pause().await?,
        None => queue.pause().await?,
    };
    tell(globals, &queue, args.lane.id(), "paused", switched)
}

/// Says what was switched.
pub(super) fn tell(
    globals: &Globals,
    queue: &Queue,
    lane: Option<BrandedId>,
    state: &str,
    switched: Switched,
) -> Result<(), Failure> {
    let value = serde_json::json!({
        "queue": queue.name().as_str(),
        "lane": lane,
        "paused": state == "paused",
        "changed": switched == Switched::Changed,
    });
    globals.out().tell(&value, || {
        let what = match lane {
            Some(lane) => format!("lane {lane} of {}", queue.name()),
            None => queue.name().to_string(),
        };
        said(&format!("{what} is {state}"), switched)
    })
}
