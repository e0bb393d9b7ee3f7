//! Connectors of the field on the work that ours is measured with: `connectors <client> <runtime>`.
//!
//! It takes its orders as a contender does. The rows are `set_pipelined` (pipelines of a hundred)
//! and `set_64_tasks` (64 tasks that share one client); their `n` is the number of SETs. Each
//! client runs with its defaults.

mod fred_client;
mod redis_client;
mod work;

use std::process::ExitCode;

use contender::{Asked, Report};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use self::fred_client::Fred;
use self::redis_client::{Redis1, Redis2};
use self::work::{Client, Failure};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("connectors: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), Failure> {
    let [client, runtime] = words else {
        return Err("connectors redis-1|redis-2|fred current-thread|two-threads".into());
    };
    let asked = Asked::from_env()?;
    let runtime = runtime_of(runtime)?;
    match client.as_str() {
        "redis-1" => runtime.block_on(rows::<Redis1>(&asked)),
        "redis-2" => runtime.block_on(rows::<Redis2>(&asked)),
        "fred" => runtime.block_on(rows::<Fred>(&asked)),
        other => Err(format!("no client {other}: redis-1, redis-2 or fred").into()),
    }
}

fn runtime_of(name: &str) -> Result<Runtime, Failure> {
    let mut builder = match name {
        "current-thread" => Builder::new_current_thread(),
        "two-threads" => Builder::new_multi_thread(),
        other => return Err(format!("no runtime {other}: current-thread or two-threads").into()),
    };
    if name == "two-threads" {
        builder.worker_threads(2);
    }
    Ok(builder.enable_all().build()?)
}

async fn rows<C: Client>(asked: &Asked) -> Result<(), Failure> {
    Report::versions(json!({ C::NAME: C::VERSION }));
    let client = C::connect(&asked.url).await?;
    // The first calls pay for what is made once.
    work::shared(&client, 1_000).await?;
    for (row, n) in &asked.rows {
        let report = Report::of(row, *n);
        let took = match row.as_str() {
            "set_pipelined" => work::pipelined(&client, *n).await,
            "set_64_tasks" => work::shared(&client, *n).await,
            _ => {
                report.absent("no such row");
                continue;
            }
        };
        match took {
            Ok(took) => report.enqueued(took),
            Err(failure) => report.failed(&failure.to_string()),
        }
    }
    Ok(())
}
