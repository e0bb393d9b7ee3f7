//! `emq lanes`: a queue's lanes, the fullest first.

use emq_core::LaneStatus;
use emq_keys::BrandedId;
use serde::Serialize;

use crate::connect::Globals;
use crate::exit::Failure;
use crate::output::{Grid, Tone};

/// How many lanes a table has unless said.
const ROWS: usize = 50;

/// What `emq lanes` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue
    queue: String,

    /// How many to show, the fullest first; 0 for all [default: 50, and all with --json]
    #[arg(short = 'n', long = "number", value_name = "N")]
    number: Option<usize>,
}

/// One lane.
#[derive(Debug, Serialize)]
struct Row {
    lane: BrandedId,
    waiting: u64,
    in_flight: u64,
    ceiling: Option<u32>,
    weight: u32,
    paused: bool,
    serviceable: bool,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let queue = globals.known_queue(&args.queue).await?;
    let mut lanes = queue.lanes().collect().await?;
    lanes.sort_by_key(|lane| (std::cmp::Reverse(lane.depth), lane.id));
    let out = globals.out();
    let all = lanes.len();
    let shown = args.number.unwrap_or(if out.json() { 0 } else { ROWS });
    lanes.truncate(if shown == 0 { all } else { shown });
    if out.json() {
        return out.value(&lanes.iter().map(row).collect::<Vec<_>>());
    }
    if lanes.is_empty() {
        return out.line(format!("{} has no lanes", args.queue));
    }
    out.grid(&grid(&lanes))?;
    if lanes.len() < all {
        out.line(format!("and {} more; -n 0 shows all", all - lanes.len()))?;
    }
    Ok(())
}

fn row(lane: &LaneStatus) -> Row {
    Row {
        lane: lane.id,
        waiting: lane.depth,
        in_flight: lane.leases,
        ceiling: lane.ceiling,
        weight: lane.weight,
        paused: lane.paused,
        serviceable: lane.serviceable(),
    }
}

fn grid(lanes: &[LaneStatus]) -> Grid {
    let mut grid = Grid::new(&["LANE", ">WAITING", ">IN FLIGHT", ">CEILING", ">WEIGHT", "STATE"]);
    for lane in lanes {
        let ceiling = lane.ceiling.map_or("-".to_owned(), |ceiling| ceiling.to_string());
        let state = match (lane.paused, lane.serviceable()) {
            (true, _) => ("paused", Tone::Warn),
            (false, true) => ("ready", Tone::Good),
            (false, false) if lane.depth > 0 => ("at its ceiling", Tone::Warn),
            (false, false) => ("empty", Tone::Quiet),
        };
        grid.row([
            (lane.id.to_string(), Tone::Plain),
            (lane.depth.to_string(), Tone::Plain),
            (lane.leases.to_string(), Tone::Plain),
            (ceiling, Tone::Plain),
            (lane.weight.to_string(), Tone::Plain),
            (state.0.to_owned(), state.1),
        ]);
    }
    grid
}
