//! `emq bench`: a quick reading of throughput and latency on the caller's own server.

use std::time::{Duration, Instant};

use bytes::Bytes;
use emq_core::{Bus, Error, Job, JobError, NewJob, Phase, Queue, Worker, WorkerStatus};
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use crate::connect::Globals;
use crate::exit::Failure;
use crate::signals::Stops;

/// How many jobs are enqueued in one call.
const LIST: usize = 4_000;
/// The longest latency that is told apart.
const LATENCY_MAX: Duration = Duration::from_secs(60);
/// How long a worker may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How long one job may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

/// What `emq bench` is told.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// How many jobs the throughput is read from
    #[arg(long, value_name = "N", default_value_t = 20_000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    jobs: u32,

    /// The size of a payload, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(0..=65_536))]
    payload: u32,

    /// How many handlers run at once
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    concurrency: usize,

    /// How many single jobs the latency is read from
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,
}

/// What was read.
#[derive(Debug, Serialize)]
struct Reading {
    engine: String,
    jobs: u32,
    payload_bytes: u32,
    concurrency: usize,
    enqueued_per_s: f64,
    worked_per_s: f64,
    samples: u32,
    /// An enqueue's round trip.
    enqueue_us: Quantiles,
    /// From the call of an enqueue to the start of its handler in a parked worker.
    start_us: Quantiles,
}

#[derive(Debug, Serialize)]
struct Quantiles {
    p50: u64,
    p99: u64,
    max: u64,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let mut stops = Stops::new()?;
    let bus = globals.connect().await?;
    // No other queue has the name of a fresh id.
    let queue = bus.queue(format!("emq-bench-{}", bus.mint_job().await?))?;
    let read = tokio::select! {
        read = measure(&bus, &queue, args) => read,
        stop = stops.next() => Err(Failure::new(stop.exit(), "interrupted")),
    };
    let removed = remove(&queue).await;
    let reading = read?;
    removed.map_err(|error| Failure::from(error).about(format!("{} is left", queue.name())))?;
    globals.out().tell(&reading, || told(&reading))
}

/// Takes the queue down whatever is in it.
async fn remove(queue: &Queue) -> Result<(), Error> {
    let _ = queue.pause().await?;
    queue.obliterate_in_flight().await.map(|_| ())
}

async fn measure(bus: &Bus, queue: &Queue, args: Args) -> Result<Reading, Failure> {
    let payload = Bytes::from(vec![b'x'; args.payload as usize]);
    let enqueued = enqueue(bus, queue, &payload, args.jobs).await?;
    let worked = work(queue, args).await?;
    let (enqueue_us, start_us) = latency(queue, &payload, args.samples).await?;
    let per_s = |time: Duration| f64::from(args.jobs) / time.as_secs_f64().max(1e-9);
    Ok(Reading {
        engine: bus.engine().to_string(),
        jobs: args.jobs,
        payload_bytes: args.payload,
        concurrency: args.concurrency,
        enqueued_per_s: per_s(enqueued).round(),
        worked_per_s: per_s(worked).round(),
        samples: args.samples,
        enqueue_us,
        start_us,
    })
}

/// How long it takes to enqueue so many jobs, in lists.
async fn enqueue(bus: &Bus, queue: &Queue, payload: &Bytes, n: u32) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let mut left = n as usize;
    while left > 0 {
        let mut jobs = Vec::with_capacity(left.min(LIST));
        for _ in 0..left.min(LIST) {
            jobs.push(NewJob::new(bus.mint_job().await?, payload.clone()));
        }
        left -= jobs.len();
        let _ = queue.enqueue_many(&jobs).await.map_err(|error| error.cause)?;
    }
    Ok(begun.elapsed())
}

/// How long it takes one worker to work them, its start included.
async fn work(queue: &Queue, args: Args) -> Result<Duration, Failure> {
    let (done, mut finished) = mpsc::unbounded_channel();
    let begun = Instant::now();
    let worker = Worker::builder(queue)
        .concurrency(args.concurrency)
        .handler(move |_: Job<Bytes>| {
            // It is counted until the last one.
            let _ = done.send(());
            async { Ok::<_, JobError>(()) }
        })
        .start()?;
    for _ in 0..args.jobs {
        arrival(&mut finished).await?;
    }
    while queue.counts().await?.active > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let took = begun.elapsed();
    worker.stop(STOP_WITHIN).await;
    Ok(took)
}

/// One job at a time, each enqueued while the worker is parked.
async fn latency(
    queue: &Queue,
    payload: &Bytes,
    samples: u32,
) -> Result<(Quantiles, Quantiles), Failure> {
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::builder(queue)
        .concurrency(1)
        .handler(move |_: Job<Bytes>| {
            // The receiver is there as long as samples are taken.
            let _ = started.send(Instant::now());
            async { Ok::<_, JobError>(()) }
        })
        .start()?;
    let (mut enqueues, mut arrivals) = (histogram()?, histogram()?);
    let mut status = worker.status();
    for _ in 0..samples {
        parked(&mut status).await?;
        let begun = Instant::now();
        let _ = queue.enqueue(payload).await?;
        let answered = begun.elapsed();
        let start = arrival(&mut starts).await?;
        record(&mut enqueues, answered);
        record(&mut arrivals, start.duration_since(begun));
    }
    worker.stop(STOP_WITHIN).await;
    Ok((quantiles(&enqueues), quantiles(&arrivals)))
}

async fn parked(status: &mut watch::Receiver<WorkerStatus>) -> Result<(), Failure> {
    // What it answers holds a lock that the worker needs, so that it goes at once.
    let idle = |now: &WorkerStatus| now.phase == Phase::Parked && now.in_flight == 0;
    let parks = async { status.wait_for(idle).await.is_ok() };
    match tokio::time::timeout(ARRIVES_WITHIN, parks).await {
        Ok(true) => Ok(()),
        _ => Err(Failure::failed("the worker did not park: is the server out of reach?")),
    }
}

async fn arrival<T>(arrivals: &mut mpsc::UnboundedReceiver<T>) -> Result<T, Failure> {
    match tokio::time::timeout(ARRIVES_WITHIN, arrivals.recv()).await {
        Ok(Some(arrival)) => Ok(arrival),
        _ => Err(Failure::failed(format!(
            "no job arrived within {} s: is the server out of reach?",
            ARRIVES_WITHIN.as_secs()
        ))),
    }
}

fn histogram() -> Result<Histogram<u64>, Failure> {
    let most = u64::try_from(LATENCY_MAX.as_micros()).unwrap_or(u64::MAX);
    Histogram::new_with_max(most, 3).map_err(|error| Failure::failed(format!("{error:?}")))
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
}

fn quantiles(histogram: &Histogram<u64>) -> Quantiles {
    Quantiles {
        p50: histogram.value_at_quantile(0.5),
        p99: histogram.value_at_quantile(0.99),
        max: histogram.max(),
    }
}

fn told(reading: &Reading) -> String {
    let Reading { engine, jobs, payload_bytes, concurrency, samples, .. } = reading;
    let line = |what: &str, times: &Quantiles| {
        format!("{what:<22}{:>9} µs half, {} µs 99 %, {} µs worst", times.p50, times.p99, times.max)
    };
    [
        format!("{engine}; {jobs} jobs of {payload_bytes} bytes, {samples} single ones"),
        format!("{:<22}{:>9.0} jobs/s, in lists", "enqueued", reading.enqueued_per_s),
        format!(
            "{:<22}{:>9.0} jobs/s, one worker, {concurrency} handlers that do nothing",
            "worked", reading.worked_per_s
        ),
        line("enqueue, answered", &reading.enqueue_us),
        line("enqueue, handler starts", &reading.start_us),
        "One reading of one moment: other load on the server and the network is in it.".to_owned(),
    ]
    .join("\n")
}
