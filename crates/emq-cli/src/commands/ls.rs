//! `emq ls`: queues with their counts.

use emq_core::Queue;
use serde::Serialize;

use crate::connect::Globals;
use crate::exit::Failure;
use crate::output::{Grid, Tone, span};

/// How many lanes of a queue are added up.
const LANES_MOST: usize = 100_000;

/// What `emq ls` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these queues; all of the server unless said
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,
}

/// One queue.
#[derive(Debug, Serialize)]
struct Row {
    queue: String,
    waiting: u64,
    /// Of those, how many are in lanes.
    in_lanes: u64,
    in_flight: u64,
    scheduled: u64,
    dead: u64,
    lanes: u64,
    /// Whether all lanes were added up.
    whole: bool,
    oldest_wait_ms: Option<u64>,
    paused: bool,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let mut rows = Vec::new();
    if args.queues.is_empty() {
        let bus = globals.connect().await?;
        for name in bus.queues().collect().await? {
            rows.push(read(&bus.queue(name.as_str())?).await?);
        }
    } else {
        for name in &args.queues {
            rows.push(read(&globals.known_queue(name).await?).await?);
        }
    }
    let out = globals.out();
    if out.json() {
        return out.value(&rows);
    }
    if rows.is_empty() {
        return out.line("no queues: none has a job or a setting");
    }
    out.grid(&grid(&rows))
}

async fn read(queue: &Queue) -> Result<Row, Failure> {
    let vitals = queue.vitals().await?;
    let lanes = vitals.lanes_ready + vitals.lanes_paused + vitals.lanes_leased;
    let swept = match lanes {
        0 => None,
        _ => Some(queue.sweep_lanes().step(LANES_MOST).await?),
    };
    let in_lanes = swept.map_or(0, |swept| swept.waiting);
    let oldest = [vitals.oldest, swept.and_then(|swept| swept.oldest)].into_iter().flatten().min();
    let wait_ms = |id| u64::try_from(vitals.since(id).as_millis()).unwrap_or(u64::MAX);
    Ok(Row {
        queue: queue.name().to_string(),
        waiting: vitals.pending + in_lanes,
        in_lanes,
        in_flight: vitals.active,
        scheduled: vitals.scheduled,
        dead: vitals.dead,
        lanes: swept.map_or(0, |swept| swept.lanes),
        whole: swept.is_none_or(|swept| swept.whole),
        oldest_wait_ms: oldest.map(wait_ms),
        paused: vitals.paused,
    })
}

fn grid(rows: &[Row]) -> Grid {
    let mut grid = Grid::new(&[
        "QUEUE",
        ">WAITING",
        ">IN FLIGHT",
        ">SCHEDULED",
        ">DEAD",
        ">LANES",
        ">OLDEST",
        "STATE",
    ]);
    for row in rows {
        let number = |n: u64, tone| (n.to_string(), if n == 0 { Tone::Quiet } else { tone });
        let least = if row.whole { "" } else { "+" };
        let oldest = row.oldest_wait_ms.map(|ms| span(std::time::Duration::from_millis(ms)));
        let state = if row.paused { ("paused", Tone::Warn) } else { ("open", Tone::Quiet) };
        grid.row([
            (row.queue.clone(), Tone::Plain),
            (format!("{}{least}", row.waiting), Tone::Plain),
            number(row.in_flight, Tone::Plain),
            number(row.scheduled, Tone::Plain),
            number(row.dead, Tone::Bad),
            (format!("{}{least}", row.lanes), Tone::Quiet),
            (oldest.unwrap_or_else(|| "-".to_owned()), Tone::Quiet),
            (state.0.to_owned(), state.1),
        ]);
    }
    grid
}
