//! Three tenants share four slots. One storms and is held to two slots at a time, one has paid for
//! three jobs a turn, and one has little to do and doesn't wait for the others.
//!
//! Needs no server: without `EMQ_VALKEY_URL` it starts one.
#![allow(clippy::print_stdout)] // An example speaks on standard output.

mod server;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use echomq::prelude::*;
use echomq::{Namespace, namespace};

const TENANT: Namespace = namespace!("TEN");
/// Name, jobs.
const TENANTS: [(&str, usize); 3] = [("storm", 40), ("gold", 12), ("small", 4)];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (url, _server) = server::find()?;
    let bus = Bus::connect(&url).await?;
    let renders = bus.queue("renders")?.typed::<String>();
    // A lane is named by an id; a tenant's own name gives one.
    let lane = |name: &str| BrandedId::derive(TENANT, name.as_bytes()).map(|id| renders.lane(id));

    lane("storm")?.lane().limit(2).await?;
    lane("gold")?.lane().weight(3).await?;
    let mut jobs = Vec::new();
    for (name, count) in TENANTS {
        for _ in 0..count {
            jobs.push(lane(name)?.job(&name.to_owned()).await?);
        }
    }
    renders.queue().enqueue_many(&jobs).await?;
    for lane in renders.queue().lanes().collect().await? {
        println!(
            "{}: {} wait, ceiling {:?}, weight {}",
            lane.id, lane.depth, lane.ceiling, lane.weight
        );
    }

    let (start, mut started) = tokio::sync::mpsc::channel(jobs.len());
    let storming = Arc::new(AtomicUsize::new(0));
    let worker = Worker::builder(&renders)
        .concurrency(4)
        .handler(move |job: Job<String>| {
            let (start, storming) = (start.clone(), Arc::clone(&storming));
            async move {
                let storm = job.payload == "storm";
                let at_once = storming.fetch_add(usize::from(storm), Ordering::SeqCst) + 1;
                start.send((job.payload, if storm { at_once } else { 0 })).await?;
                tokio::time::sleep(Duration::from_millis(5)).await;
                storming.fetch_sub(usize::from(storm), Ordering::SeqCst);
                Ok(())
            }
        })
        .start()?;

    let (mut last, mut most_at_once) = (HashMap::new(), 0);
    for place in 1..=jobs.len() {
        let (tenant, at_once) = started.recv().await.ok_or("the worker ended")?;
        last.insert(tenant, place);
        most_at_once = most_at_once.max(at_once);
    }
    for (name, count) in TENANTS {
        println!("{name}: the last of {count} jobs started at place {}", last[name]);
    }
    println!("storm had at most {most_at_once} jobs running at once");
    println!("{} jobs done", worker.stop(Duration::from_secs(5)).await.totals.done);
    Ok(())
}
