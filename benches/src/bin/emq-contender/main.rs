//! Our own side of the referee: each row as a user of the bus would write it.
//!
//! `emq-contender [--durable]` takes its orders as `benches/README.md` says. With `--durable` every
//! enqueue awaits the server's word that the job is on its disk.

mod enqueue;
mod look;
mod recovery;
mod rows;
mod work;

use std::process::ExitCode;

use contender::{Asked, Report};
use emq_core::{Bus, Durability, EnqueueOptions};
use serde_json::json;

/// Why a row came to grief.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let durability = match std::env::args().nth(1).as_deref() {
        None => Durability::Volatile,
        Some("--durable") => Durability::Fsynced,
        Some(other) => {
            eprintln!("emq-contender: {other}: the only argument is --durable");
            return ExitCode::FAILURE;
        }
    };
    // As in a server, and as the rivals written in Rust do: the main future has a thread of its own,
    // and to wake it takes longer than to wake a task.
    match tokio::spawn(play(durability)).await {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(failure)) => eprintln!("emq-contender: {failure}"),
        Err(panic) => eprintln!("emq-contender: {panic}"),
    }
    ExitCode::FAILURE
}

async fn play(durability: Durability) -> Result<(), Failure> {
    let asked = Asked::from_env()?;
    let bus = Bus::connect(&asked.url).await?;
    Report::versions(json!({
        "echomq": env!("CARGO_PKG_VERSION"),
        "server": bus.engine().to_string(),
        "durability": format!("{durability:?}"),
    }));
    let options = EnqueueOptions::new().durability(durability);
    for (row, n) in &asked.rows {
        let report = Report::of(row, *n);
        // A queue of its own: empty, whatever the rows before left.
        let queue = bus.queue(row)?;
        if let Err(failure) = rows::play(row, *n, &queue, &options, durability, &report).await {
            report.failed(&failure.to_string());
        }
    }
    bus.close().await;
    Ok(())
}
