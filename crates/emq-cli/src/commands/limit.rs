//! `emq limit`: bounds how many of a lane's jobs run at once.

use emq_core::Switched;

use crate::connect::Globals;
use crate::exit::Failure;
use crate::values::WhichLane;

/// What `emq limit` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    /// How many of the lane's jobs may run at once; none for no bound
    #[arg(value_name = "N|none", value_parser = ceiling)]
    ceiling: Ceiling,

    #[command(flatten)]
    lane: WhichLane,

    /// Also when the queue has no job and no setting yet
    #[arg(long)]
    new: bool,
}

#[derive(Clone, Copy, Debug)]
struct Ceiling(Option<u32>);

fn ceiling(text: &str) -> Result<Ceiling, String> {
    match text {
        "none" => Ok(Ceiling(None)),
        number => match number.parse() {
            Ok(number) => Ok(Ceiling(Some(number))),
            Err(_) => Err("write a number from 1, or none".to_owned()),
        },
    }
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let queue = globals.queue_to_set(&args.queue, args.new).await?;
    let lane = args.lane.needed(&queue)?;
    let switched = match args.ceiling.0 {
        Some(ceiling) => lane.limit(ceiling).await?,
        None => lane.unlimited().await?,
    };
    let bound = match args.ceiling.0 {
        Some(ceiling) => format!("at most {ceiling} of lane {} run at once", lane.id()),
        None => format!("lane {} has no bound", lane.id()),
    };
    let value = serde_json::json!({
        "queue": queue.name().as_str(),
        "lane": lane.id(),
        "ceiling": args.ceiling.0,
        "changed": switched == Switched::Changed,
    });
    globals.out().tell(&value, || said(&bound, switched))
}

/// A setting, and whether it was so before.
pub(super) fn said(setting: &str, switched: Switched) -> String {
    match switched {
        Switched::Changed => setting.to_owned(),
        Switched::Already => format!("{setting}, as before"),
    }
}
