//! The second act: one tenant storms, ten trickle. The same arrivals on lanes and on a flat queue.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use comfy_table::{Table, presets};
use emq_core::{Bus, Job, NewJob, Verdict, Worker};
use emq_keys::{BrandedId, Namespace};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{Failure, Outcome};

/// What the storming tenant sends at once.
const STORM: usize = 3_000;
/// The tenants that trickle, and what each sends, one at a time.
const TRICKLERS: usize = 10;
const TRICKLE: usize = 80;
const TRICKLE_EVERY: Duration = Duration::from_millis(20);
/// Handlers at once, and how long each holds a job.
const CONCURRENCY: usize = 8;
const WORK: Duration = Duration::from_millis(2);
/// How long an act may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A job's cargo: whose it is, and when it was sent, in microseconds of the act.
#[derive(Serialize, Deserialize)]
struct Arrival {
    tenant: usize,
    sent_us: u64,
}

/// Waits by tenant, in microseconds.
struct Waits(Mutex<Vec<Histogram<u64>>>);

impl Waits {
    fn new() -> Result<Self, Failure> {
        let empty = Histogram::new_with_bounds(1, 600_000_000, 3)?;
        Ok(Self(Mutex::new(vec![empty; TRICKLERS + 1])))
    }

    fn record(&self, tenant: usize, wait_us: u64) {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(histogram) = waits.get_mut(tenant) {
            histogram.saturating_record(wait_us.max(1));
        }
    }

    fn total(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(Histogram::len).sum()
    }

    /// Jobs, and the median and the 99th percentile of their waits in milliseconds.
    fn read(&self, tenant: usize) -> (u64, f64, f64) {
        let waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |q: f64| waits[tenant].value_at_quantile(q) as f64 / 1000.0;
        (waits[tenant].len(), at(0.5), at(0.99))
    }
}

/// Plays both versions and prints them side by side.
pub(super) async fn play(url: &str) -> Outcome {
    println!(
        "\ntenants: one sends {STORM} jobs at once, {TRICKLERS} send one every {} ms; {CONCURRENCY} handlers of {} ms",
        TRICKLE_EVERY.as_millis(),
        WORK.as_millis()
    );
    let on_lanes = act(url, true).await?;
    let flat = act(url, false).await?;
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["tenant", "jobs", "lanes: wait p50, p99", "one flat queue: wait p50, p99"]);
    for tenant in 0..=TRICKLERS {
        let name = if tenant == 0 { "storm".into() } else { format!("trickle-{tenant}") };
        let (jobs, p50, p99) = on_lanes.read(tenant);
        let (_, flat_p50, flat_p99) = flat.read(tenant);
        table.add_row([
            name,
            jobs.to_string(),
            format!("{p50:.1} ms, {p99:.1} ms"),
            format!("{flat_p50:.1} ms, {flat_p99:.1} ms"),
        ]);
    }
    println!("{table}");
    Ok(())
}

/// One version: the arrivals, a worker, and what each tenant waited.
async fn act(url: &str, lanes: bool) -> Result<Waits, Failure> {
    let bus = Bus::connect(url).await?;
    let queue = bus.queue(format!("tenants-{}", bus.mint_job().await?))?;
    let typed = queue.typed::<Arrival>();
    let waits = Arc::new(Waits::new()?);
    let begun = Instant::now();
    let now_us = move || u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    let worker = Worker::builder(&typed)
        .concurrency(CONCURRENCY)
        .handler({
            let waits = Arc::clone(&waits);
            move |job: Job<Arrival>| {
                waits.record(job.payload.tenant, now_us().saturating_sub(job.payload.sent_us));
                async {
                    tokio::time::sleep(WORK).await;
                    Ok(())
                }
            }
        })
        .start()?;
    let tenants = tenants()?;
    let job = async |tenant: usize| -> Result<NewJob, Failure> {
        let payload = serde_json::to_vec(&Arrival { tenant, sent_us: now_us() })?;
        let job = NewJob::new(bus.mint_job().await?, payload);
        Ok(if lanes { job.lane(tenants[tenant]) } else { job })
    };
    let mut storm = Vec::with_capacity(STORM);
    for _ in 0..STORM {
        storm.push(job(0).await?);
    }
    all_admitted(&queue.enqueue_many(&storm).await?)?;
    let mut ticks = tokio::time::interval(TRICKLE_EVERY);
    for _ in 0..TRICKLE {
        ticks.tick().await;
        let mut drops = Vec::with_capacity(TRICKLERS);
        for tenant in 1..=TRICKLERS {
            drops.push(job(tenant).await?);
        }
        all_admitted(&queue.enqueue_many(&drops).await?)?;
    }
    let expected = (STORM + TRICKLERS * TRICKLE) as u64;
    while waits.total() < expected {
        if begun.elapsed() > PATIENCE {
            return Err(
                format!("{} of {expected} jobs began in {PATIENCE:?}", waits.total()).into()
            );
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    worker.stop(Duration::from_secs(5)).await;
    super::tidy_up(&queue).await?;
    bus.close().await;
    Arc::into_inner(waits).ok_or_else(|| "a handler outlived its worker".into())
}

/// A tenant's lane is named by the tenant's own name.
fn tenants() -> Result<Vec<BrandedId>, Failure> {
    let kind = Namespace::new("TEN")?;
    (0..=TRICKLERS)
        .map(|n| Ok(BrandedId::derive(kind, format!("tenant-{n}").as_bytes())?))
        .collect()
}

fn all_admitted(verdicts: &[Verdict]) -> Outcome {
    match verdicts.iter().find(|verdict| !matches!(verdict, Verdict::Admitted(_))) {
        None => Ok(()),
        Some(other) => Err(format!("{other:?}").into()),
    }
}
