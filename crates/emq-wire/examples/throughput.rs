//! Rates of one connection against a running server, as one line of JSON:
//! `cargo run --release -p emq-wire --example throughput -- valkey://127.0.0.1:6379`.
//!
//! Sequential SETs, pipelines of 100 SETs, pipelines of 100 calls of an empty script, and 64
//! tasks that share the connection without batching by hand. It writes one key and removes it.

use std::error::Error;
use std::time::Instant;

use emq_wire::{Cmd, Connection, Pipeline, Script};

const KEY: &str = "emq-wire:throughput";
const TASKS: u32 = 64;

fn set() -> Cmd {
    Cmd::new("SET").arg(KEY).arg("xxx")
}

async fn sequential(connection: &Connection, count: u32) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    for _ in 0..count {
        connection.command(set()).await?;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

async fn pipelined(
    connection: &Connection,
    count: u32,
    cmd: impl Fn() -> Cmd,
) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    for _ in 0..count / 100 {
        let pipeline: Pipeline = (0..100).map(|_| cmd()).collect();
        connection.pipeline(pipeline).await?;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

async fn shared(connection: &Connection, count: u32) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move {
                for _ in 0..count / TASKS {
                    connection.command(set()).await?;
                }
                Ok::<(), emq_wire::WireError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "valkey://127.0.0.1:6379".into());
    let connection = Connection::connect(url.parse()?).await?;
    let empty = Script::new("empty", "return 1");
    shared(&connection, 50_000).await?;
    let rates = (
        sequential(&connection, 20_000).await?,
        pipelined(&connection, 500_000, set).await?,
        pipelined(&connection, 300_000, || empty.call(0, 0)).await?,
        shared(&connection, 500_000).await?,
    );
    connection.command(Cmd::new("DEL").arg(KEY)).await?;
    let line = format!(
        "{{\"sequential\":{:.0},\"pipelined\":{:.0},\"pipelined_evalsha\":{:.0},\"shared\":{:.0}}}\n",
        rates.0, rates.1, rates.2, rates.3
    );
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes())?;
    Ok(())
}
