//! `emq drain`: deletes what waits.

use emq_core::DrainScope;

use crate::confirm::Consent;
use crate::connect::Globals;
use crate::exit::Failure;
use crate::values::WhichLane;

/// What `emq drain` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    #[command(flatten)]
    lane: WhichLane,

    /// Also what is scheduled
    #[arg(long, conflicts_with_all = ["lane", "lane_name"])]
    scheduled: bool,

    #[command(flatten)]
    consent: Consent,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let queue = globals.known_queue(&args.queue).await?;
    let name = queue.name();
    let counts = queue.counts().await?;
    let lane = args.lane.of(&queue);
    let (question, scope) = match (&lane, args.scheduled) {
        (Some(lane), _) => {
            let waiting = lane.depth().await?;
            let id = lane.id();
            let question = format!("Delete the {waiting} jobs that wait in lane {id} of {name}?");
            (question, DrainScope::Waiting)
        }
        (None, scheduled) => {
            let waiting = counts.pending + counts.in_lanes;
            let (also, scope) = match scheduled {
                true => (
                    format!(" and the {} that are scheduled", counts.scheduled),
                    DrainScope::WaitingAndScheduled,
                ),
                false => (String::new(), DrainScope::Waiting),
            };
            (format!("Delete the {waiting} jobs that wait in {name}{also}?"), scope)
        }
    };
    args.consent.ask(&question)?;
    let deleted = match &lane {
        Some(lane) => lane.drain().await?,
        None => queue.drain(scope).await?,
    };
    let value = serde_json::json!({ "queue": name.as_str(), "deleted": deleted });
    globals.out().tell(&value, || format!("{deleted} deleted"))
}
