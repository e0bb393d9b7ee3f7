//! Enqueues a typed job and works it. Needs a server: `cargo xtask valkey run`.
#![allow(clippy::print_stdout)] // An example speaks on standard output.

use std::time::Duration;

use echomq::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Invoice {
    order: String,
    cents: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("EMQ_VALKEY_URL").unwrap_or("valkey://127.0.0.1".to_owned());
    let bus = Bus::connect(&url).await?;
    let invoices = bus.queue("invoices")?.typed::<Invoice>();
    let (done, mut receipts) = tokio::sync::mpsc::channel(1);

    let worker = Worker::builder(&invoices)
        .concurrency(10)
        .handler(move |job: Job<Invoice>| {
            let done = done.clone();
            async move {
                Ok(done.send(format!("{} owes {}", job.payload.order, job.payload.cents)).await?)
            }
        })
        .start()?;

    let invoice = Invoice { order: "ORD0NgWEfAEJfs".to_owned(), cents: 4_200 };
    println!("{:?}", invoices.enqueue(&invoice).await?);
    println!("{}", receipts.recv().await.ok_or("the worker ended")?);
    let report = worker.stop(Duration::from_secs(5)).await;
    println!("{} job done", report.totals.done);
    Ok(())
}
