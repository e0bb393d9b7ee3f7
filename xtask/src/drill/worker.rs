//! The worker process: stores and worker in a tree, until standard input ends or it is killed.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use emq_core::{Backoff, Bus, JobError, Queue, Worker};
use emq_stores::supervisor::{Owner, Supervisor};
use emq_stores::{Absorbed, with_stores};

use crate::books::{Fill, FillJob, Place, SharedBooks, Shelf};
use crate::{Failure, Outcome};

/// Short, so that the jobs of a killed worker come back while one waits.
const LEASE: Duration = Duration::from_millis(600);
const BEAT: Duration = Duration::from_millis(150);
/// Jobs at once, and how often one may be lost or fail: as often as it is killed.
const CONCURRENCY: usize = 16;
const NO_CAP: u32 = 10_000;
/// The longest pause in a handler, in microseconds, between any two of its steps.
const STEP_MAX_US: u64 = 6_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    url: String,
    #[arg(long)]
    queue: String,
    /// The file, or the URL, of the books
    #[arg(long)]
    books: Place,
    /// Move positions without the guard
    #[arg(long)]
    sabotage: bool,
}

/// What the process says on its standard output, a line each.
pub(super) const READY: &str = "ready";
pub(super) const DECLINED: &str = "declined";

pub(super) async fn run(args: &Args) -> Outcome {
    let books = Shelf::join(&args.books).await?;
    let queue = Bus::connect(&args.url).await?.queue(&args.queue)?;
    let sabotage = args.sabotage;
    let (working, shared) = (queue.clone(), Arc::clone(&books));
    let fills = Owner::worker("fills", move |_| {
        let worker = worker(&working, &shared, sabotage);
        async move { Ok(worker?) }
    });
    let tree = Supervisor::new()
        .owner(Owner::store("orders", books.orders.clone()))
        .owner(Owner::store("positions", books.positions.clone()))
        .owner(fills)
        .start()?;
    tree.ready().await?;
    say(READY);
    let (ended, input) = tokio::sync::oneshot::channel();
    // A thread of its own: it blocks until whoever started this process is done, or is gone.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = ended.send(());
    });
    tokio::select! {
        _ = input => {}
        gave_up = tree.ended() => gave_up?,
    }
    let report = tree.stop().await;
    if report.is_clean() { Ok(()) } else { Err(format!("no clean stop: {report:?}").into()) }
}

fn worker(queue: &Queue, books: &SharedBooks, sabotage: bool) -> Result<Worker, emq_core::Error> {
    Worker::builder(queue.typed::<Fill>())
        .concurrency(CONCURRENCY)
        .lease(LEASE)
        .beat(BEAT)
        .max_attempts(NO_CAP)
        .lost_cap(NO_CAP)
        .backoff(Backoff::fixed(Duration::from_millis(50)))
        .handler(with_stores(Arc::clone(books), move |cx: FillJob| async move {
            book(&cx, sabotage).await.map_err(|failure| JobError::new(failure.to_string()))
        }))
        .start()
}

/// The fill's two writes, with time before, between and after them in which to be killed.
async fn book(cx: &FillJob, sabotage: bool) -> Result<(), Failure> {
    let books = cx.stores();
    pause(cx, 1).await;
    if sabotage {
        let qty = cx.payload.qty;
        let mut position = books.positions.get(cx.payload.portfolio).await?.unwrap_or_default();
        position.qty += qty;
        books.positions.put(cx.payload.portfolio, &position).await?;
    } else if books.move_position(cx).await? == Absorbed::Declined {
        say(DECLINED);
    }
    pause(cx, 2).await;
    let _ = books.fill_order(cx).await?;
    pause(cx, 3).await;
    Ok(())
}

/// A pause that the job's name chooses, so that a run can be repeated.
async fn pause(cx: &FillJob, step: u64) {
    let chosen = u64::from(cx.id().hash32()).wrapping_mul(step * 0x9E37_79B9) >> 7;
    tokio::time::sleep(Duration::from_micros(chosen % STEP_MAX_US)).await;
}

pub(super) fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever started this process may be gone; it ends soon, too.
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}
