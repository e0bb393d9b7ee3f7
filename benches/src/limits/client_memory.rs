//! The client's memory beside a short backlog and a long one, and with twice as many jobs in flight,
//! each in a process of its own.

use std::process::{Command, Stdio};

use emq_core::Queue;
use serde_json::Value;

use crate::board::{Board, Bound};
use crate::figures::median;
use crate::ground::{Ground, waiting};
use crate::{Failure, Plan, require};

/// Jobs in handlers at once, and twice that: what the second takes above the first is what jobs
/// take; the rest (connections, their buffers) a worker has once.
const HELD: usize = 1_000;
const TWICE: usize = 2 * HELD;
/// Jobs that a process works before it ends.
const WORKED: usize = 50_000;
/// What waits beyond them, and how many are held, on each side.
const SIDES: [(usize, usize); 3] = [(10_000, HELD), (1_000_000, HELD), (10_000, TWICE)];
/// Bytes that a job in flight may take, with its payload.
const MOST: f64 = 1024.0 + contender::PAYLOAD_BYTES as f64;
/// What the longer backlog may add, for noise.
const CONSTANT: f64 = 1.1;

/// One process's heap and what the system gave it, in bytes above an idle bus.
struct Grown {
    heap: f64,
    resident: f64,
    /// The heap alone, while as many jobs were held as may be.
    holding: f64,
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
    for (backlog, held) in SIDES {
        let queue = ground.queue(&format!("memory-{backlog}-{held}"))?;
        ground.fill(&queue, backlog, &[]).await?;
        sides.push((queue, backlog, held, Vec::new()));
    }
    for _ in 0..plan.rounds {
        for (queue, backlog, held, grown) in &mut sides {
            ground.fill(queue, WORKED, &[]).await?;
            grown.push(child(&ground, queue, *held)?);
            waiting(queue, *backlog).await?;
        }
    }
    let middle = |grown: &[Grown], of: fn(&Grown) -> f64| median(grown.iter().map(of));
    let heaps: Vec<f64> = sides.iter().map(|side| middle(&side.3, |grown| grown.heap)).collect();
    let holding: Vec<f64> =
        sides.iter().map(|side| middle(&side.3, |grown| grown.holding)).collect();
    for (((_, backlog, held, grown), heap), holding) in sides.iter().zip(&heaps).zip(&holding) {
        let resident = middle(grown, |grown| grown.resident);
        println!(
            "  {backlog} waiting, concurrency {held}: heap at most +{heap:.0} bytes, resident \
             +{resident:.0}; heap +{holding:.0} with all {held} in flight"
        );
    }
    let [short, long, _] = heaps[..] else { return Err("there are three sides".into()) };
    let measured = format!("{:.0} KiB and {:.0} KiB", long / 1024.0, short / 1024.0);
    board.judge(constant, measured, long / short, Bound::AtMost(CONSTANT));
    let [once, _, twice] = holding[..] else { return Err("there are three sides".into()) };
    let each = (twice - once) / (TWICE - HELD) as f64;
    let once = (once - each * HELD as f64) / 1024.0;
    let measured = format!("{each:.0} bytes each, and {once:.0} KiB a worker");
    board.judge(held, measured, each / MOST, Bound::AtMost(1.0));
    Ok(())
}

/// Works its share of a queue in a process that counts its heap.
fn child(ground: &Ground, queue: &Queue, held: usize) -> Result<Grown, Failure> {
    let program = std::env::current_exe()?.with_file_name("limits-memory");
    let out = Command::new(&program)
        .args([ground.valkey.url(), queue.name().to_string()])
        .args([held.to_string(), WORKED.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{}: {e}", program.display()))?;
    require(out.status.success(), || format!("{}: {}", program.display(), out.status))?;
    let said: Value = serde_json::from_slice(&out.stdout)?;
    let number = |name: &str| said[name].as_f64().ok_or_else(|| format!("no {name} in {said}"));
    let (heap, resident) = (number("heap")?, number("resident")?);
    Ok(Grown { heap, resident, holding: number("holding")? })
}
