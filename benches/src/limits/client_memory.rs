//! The client's memory beside a short backlog and a long one, in a process of its own.

use std::process::{Command, Stdio};

use emq_core::Queue;
use serde_json::Value;

use crate::board::{Board, Bound};
use crate::figures::median;
use crate::ground::{Ground, waiting};
use crate::{Failure, Plan, require};

/// Jobs in handlers at once.
const HELD: usize = 1_000;
/// Jobs that a process works before it ends.
const WORKED: usize = 50_000;
/// What waits beyond them, on each side.
const BACKLOGS: [usize; 2] = [10_000, 1_000_000];
/// Bytes that a job in flight may take, with its payload.
const MOST: f64 = 1024.0 + contender::PAYLOAD_BYTES as f64;
/// What the longer backlog may add, for noise.
const CONSTANT: f64 = 1.1;

/// One process's heap and what the system gave it, in bytes above an idle bus.
struct Grown {
    heap: f64,
    resident: f64,
}

pub(crate) async fn measure(plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    let (constant, held) = (
        "client memory, a million waiting to 10,000",
        "client memory a job in flight, to 1 KiB and payload",
    );
    if plan.quick {
        board.leave_out(constant, "in full runs only");
        board.leave_out(held, "in full runs only");
        return Ok(());
    }
    let ground = Ground::start().await?;
    let mut sides = Vec::new();
    for backlog in BACKLOGS {
        let queue = ground.queue("memory")?;
        ground.fill(&queue, backlog, &[]).await?;
        sides.push((queue, backlog, Vec::new()));
    }
    for _ in 0..plan.rounds {
        for (queue, backlog, grown) in &mut sides {
            ground.fill(queue, WORKED, &[]).await?;
            grown.push(child(&ground, queue)?);
            waiting(queue, *backlog).await?;
        }
    }
    let middle = |grown: &[Grown], of: fn(&Grown) -> f64| median(grown.iter().map(of));
    let heaps: Vec<f64> = sides.iter().map(|side| middle(&side.2, |grown| grown.heap)).collect();
    for ((_, backlog, grown), heap) in sides.iter().zip(&heaps) {
        let resident = middle(grown, |grown| grown.resident);
        println!("  {backlog} waiting: heap +{heap:.0} bytes, resident +{resident:.0} bytes");
    }
    let [short, long] = heaps[..] else { return Err("there are two sides".into()) };
    let measured = format!("{:.0} KiB and {:.0} KiB", long / 1024.0, short / 1024.0);
    board.judge(constant, measured, long / short, Bound::AtMost(CONSTANT));
    let each = long / HELD as f64;
    let measured = format!("{each:.0} bytes each of {HELD}, timers of the handlers included");
    board.judge(held, measured, each / MOST, Bound::AtMost(1.0));
    Ok(())
}

/// Works its share of a queue in a process that counts its heap.
fn child(ground: &Ground, queue: &Queue) -> Result<Grown, Failure> {
    let program = std::env::current_exe()?.with_file_name("limits-memory");
    let out = Command::new(&program)
        .args([ground.valkey.url(), queue.name().to_string()])
        .args([HELD.to_string(), WORKED.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    require(out.status.success(), || format!("{}: {}", program.display(), out.status))?;
    let said: Value = serde_json::from_slice(&out.stdout)?;
    let number = |name: &str| said[name].as_f64().ok_or_else(|| format!("no {name} in {said}"));
    Ok(Grown { heap: number("heap")?, resident: number("resident")? })
}
