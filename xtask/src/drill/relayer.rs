//! The relay process: an outbox's relay in a tree, which stands still between an admission and its
//! delete when it is told to, and says so.

use std::future::pending;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use emq_core::{Bus, Durability};
use emq_stores::outbox::Relay;
use emq_stores::supervisor::{Owner, Supervisor};
use tokio::sync::Notify;

use super::business::{Business, QUEUE};
use super::worker::{READY, say};
use crate::Outcome;
use crate::books::Place;

/// Rows of one batch.
pub(super) const BATCH: usize = 4;
const SWEEP: Duration = Duration::from_millis(20);

/// What the process says when it stands between an admission and its delete.
pub(super) const ADMITTED: &str = "admitted";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    url: String,
    /// The file, or the URL, of the outbox
    #[arg(long)]
    books: Place,
    /// The batch at which it stands still once, from 1 [default: none]
    #[arg(long)]
    stand_at: Option<u32>,
    /// Delete rows before their jobs are admitted
    #[arg(long)]
    sabotage: bool,
}

/// Where the process stands still, and what lets it go on.
#[derive(Default)]
struct Stand {
    at: Option<u32>,
    batches: AtomicU32,
    go_on: Notify,
}

impl Stand {
    async fn here(&self) {
        if self.at == Some(self.batches.fetch_add(1, Ordering::SeqCst) + 1) {
            say(ADMITTED);
            self.go_on.notified().await;
        }
    }
}

pub(super) async fn run(args: &Args) -> Outcome {
    let business = Business::open(&args.books).await?;
    let bus = Bus::connect(&args.url).await?;
    let stand = Arc::new(Stand { at: args.stand_at, ..Stand::default() });
    let standing = Arc::clone(&stand);
    // Killed relays are followed at once, and nobody else has their rows.
    let relay = Relay::new(business.outbox(), bus.clone())
        .batch(BATCH)
        .sweep(SWEEP)
        .held_for(Duration::ZERO)
        .before_delete(move || {
            let stand = Arc::clone(&standing);
            async move { stand.here().await }
        });
    say(READY);
    if args.sabotage {
        return wrong(&business, &bus, &stand).await;
    }
    let tree = Supervisor::new()
        .owner(Owner::service("relay", move |stop| relay.clone().run(stop)))
        .start()?;
    tokio::select! {
        () = input_ended(&stand) => {}
        gave_up = tree.ended() => gave_up?,
    }
    let report = tree.stop().await;
    if report.is_clean() { Ok(()) } else { Err(format!("no clean stop: {report:?}").into()) }
}

/// What a relay must never do: the rows are gone before anybody has their jobs.
async fn wrong(business: &Business, bus: &Bus, stand: &Arc<Stand>) -> Outcome {
    let queue = bus.queue(QUEUE)?;
    let moving = async {
        loop {
            let jobs = business.seize(i64::try_from(BATCH)?).await?;
            if jobs.is_empty() {
                return pending::<Outcome>().await;
            }
            stand.here().await;
            while queue.enqueue_many_with(&jobs, Durability::Fsynced).await.is_err() {
                tokio::time::sleep(SWEEP).await;
            }
        }
    };
    tokio::select! {
        () = input_ended(stand) => Ok(()),
        failed = moving => failed,
    }
}

/// Ends with the standard input; each line of it lets the relay go on.
async fn input_ended(stand: &Arc<Stand>) {
    let (ended, end) = tokio::sync::oneshot::channel();
    let stand = Arc::clone(stand);
    // A thread of its own: it blocks until whoever started this process is done, or is gone.
    std::thread::spawn(move || {
        for _line in std::io::stdin().lock().lines().map_while(Result::ok) {
            stand.go_on.notify_one();
        }
        let _ = ended.send(());
    });
    let _ = end.await;
}
