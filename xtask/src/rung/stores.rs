//! Rung 3.5: the bus meets the stores.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use emq_core::{
    Backoff, Bus, Enqueued, Handled, Job, JobError, JobRecord, JobState, Json, Phase, Queue,
    Worker, WorkerBuilder,
};
use emq_keys::BrandedId;
use emq_stores::supervisor::{Killed, Owner, OwnerPhase, Supervisor, Tree};
use emq_stores::{Absorbed, Store, with_stores};
use tokio::sync::mpsc;

use super::ground::{Ground, require};
use super::shelves::on_each;
use super::surface::{public_functions, verbs};
use super::{Finding, Gate, gate};
use crate::Failure;
use crate::books::{Books, Fill, FillJob, ORDER, PORTFOLIO, Position, Shelf, audit};

pub(super) const GATES: &[Gate] = &[
    gate!("B1 surface", surface),
    gate!("B2 round trip", round_trip),
    gate!("B3 torn", torn),
    gate!("B4 owner", owner),
    gate!("B5 audit", audited),
    gate!("B6 stop", stop),
];

/// How long a gate waits for something that comes at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a failed attempt stays in the schedule, so that one can look at it there.
const PAUSE: Duration = Duration::from_millis(500);

/// What controls a worker once it was started, and what only looks at it.
const WORKER: &[&str] = &["builder", "error", "incarnation", "rates", "status", "stop", "totals"];
/// All that a store does, on the bus or off it.
const STORE: &[&str] = &[
    "absorb",
    "absorb_step",
    "absorbed",
    "compact",
    "folded",
    "get",
    "horizon",
    "kind",
    "new",
    "page_desc",
    "put",
    "shared",
    "try_absorb",
    "window",
];

async fn round_trip(ground: &Ground) -> Finding {
    on_each(ground, |ground, shelf| Box::pin(round_trip_on(ground, shelf))).await
}

async fn torn(ground: &Ground) -> Finding {
    on_each(ground, |ground, shelf| Box::pin(torn_on(ground, shelf))).await
}

async fn owner(ground: &Ground) -> Finding {
    on_each(ground, |ground, shelf| Box::pin(owner_on(ground, shelf))).await
}

async fn audited(ground: &Ground) -> Finding {
    on_each(ground, |ground, shelf| Box::pin(audited_on(ground, shelf))).await
}

async fn stop(ground: &Ground) -> Finding {
    on_each(ground, |ground, shelf| Box::pin(stop_on(ground, shelf))).await
}

/// A worker is started, stopped and looked at; a store has the same surface on the bus and off it.
async fn surface(ground: &Ground) -> Finding {
    let control = verbs![
        WorkerBuilder::<Fill, Json, Handled>::start,
        Worker::stop,
        Worker::status,
        |store: Store<Position>, id: BrandedId| drop(store.get(id)),
        |store: Store<Position>, row: Position| drop(store.put("", &row)),
        |store: Store<Position>| drop(store.page_desc(1, None)),
        |store: Store<Position>| drop(store.window("", "", 1)),
        |store: Store<Position>, job: Job<Fill>| drop(store.absorb("", &job, |p| p.qty = 1)),
        |books: Books| drop(with_stores(books, |_: FillJob| async { Ok(()) })),
    ];
    let worker = public_functions("crates/emq-core/src/worker/mod.rs", "impl Worker {")?;
    require(worker.iter().eq(WORKER), || format!("a worker has {worker:?}"))?;
    let store = public_functions("crates/emq-stores/src/store.rs", "impl<R")?;
    require(store.iter().eq(STORE), || format!("a store has {store:?}"))?;
    Ok(format!(
        "over {}; a worker is controlled by start and stop and watched by status, a store has the {} functions it has off the bus ({} verbs compiled)",
        ground.shelves().words().await?,
        store.len(),
        control.len(),
    ))
}

/// A fill leaves as two names and two numbers, and lands as two writes.
async fn round_trip_on(ground: &Ground, shelf: &Shelf) -> Finding {
    let stores = serve(shelf).await?;
    let desk = Desk::open(ground, shelf, "round").await?;
    let fill = desk.fill(1, 12).await?;
    let job = desk.enqueue(&fill).await?;
    let sent = desk.queue.get(job).await?.ok_or("nothing was enqueued")?;
    let cargo: HashMap<String, serde_json::Value> = serde_json::from_slice(&sent.payload)?;
    let names = cargo.values().filter(|value| value.is_string()).count();
    let numbers = cargo.values().filter(|value| value.is_number()).count();
    require((names, numbers, cargo.len()) == (2, 2, 4), || format!("{cargo:?} was sent"))?;

    let worker = desk.worker(|cx| async move {
        let _ = cx.stores().book(&cx).await?;
        Ok(())
    });
    let worker = worker.start()?;
    desk.drained().await?;
    let _ = worker.stop(PATIENCE).await;
    let order = shelf.books.orders.get(fill.order).await?.ok_or("the order isn't there")?;
    require(
        order.filled == 12 && order.portfolio == Some(fill.portfolio) && order.job == Some(job),
        || format!("{order:?}"),
    )?;
    let position = shelf.books.positions.get(fill.portfolio).await?;
    let names = shelf.books.positions.absorbed(fill.portfolio, 9, None).await?;
    require(
        position == Some(Position { qty: 12 }) && names.len() == 1 && names[0].name.job() == job,
        || format!("{position:?}, absorbed {names:?}"),
    )?;
    let row = desk.queue.get(job).await?;
    require(row.is_none(), || format!("{row:?} is still there"))?;
    desk.close(ground).await?;
    drop(stores);
    Ok("2 names and 2 numbers left, 2 writes landed: the order filled, the position has absorbed the job's name; the row on the bus is gone".into())
}

/// The handler dies between its writes: the second attempt is declined by the first and does the
/// second.
async fn torn_on(ground: &Ground, shelf: &Shelf) -> Finding {
    let stores = serve(shelf).await?;
    let desk = Desk::open(ground, shelf, "torn").await?;
    let (told, mut attempts) = mpsc::channel(8);
    let worker = desk.worker(move |cx| {
        let told = told.clone();
        async move {
            let absorbed = cx.stores().move_position(&cx).await?;
            told.send((cx.id(), cx.token(), absorbed)).await?;
            if cx.payload.qty == 5 && cx.token() == 1 {
                return Err(JobError::new("the handler died between its two writes"));
            }
            let _ = cx.stores().fill_order(&cx).await?;
            Ok(())
        }
    });
    let worker = worker.concurrency(1).start()?;
    let held = desk.enqueue(&desk.fill(1, 7).await?).await?;
    require(next(&mut attempts).await? == (held, 1, Absorbed::Applied), || "the first".into())?;
    let fill = desk.fill(2, 5).await?;
    let job = desk.enqueue(&fill).await?;
    require(next(&mut attempts).await? == (job, 1, Absorbed::Applied), || "attempt 1".into())?;
    let row = desk.row_in(job, JobState::Scheduled).await?;
    let last_error = row.last_error.unwrap_or_default();
    require(last_error.contains("between its two writes"), || format!("{last_error:?} is kept"))?;
    let between = shelf.books.orders.get(fill.order).await?;
    require(between.is_none(), || format!("{between:?} after attempt 1"))?;
    require(next(&mut attempts).await? == (job, 2, Absorbed::Declined), || "attempt 2".into())?;
    desk.drained().await?;
    let totals = worker.stop(PATIENCE).await.totals;
    let order = shelf.books.orders.get(fill.order).await?.ok_or("the order isn't there")?;
    let position = shelf.books.positions.get(fill.portfolio).await?.unwrap_or_default();
    require(position.qty == 12 && order.filled == 5, || format!("{position:?}, {order:?}"))?;
    require((totals.started, totals.retried, totals.done) == (3, 1, 2), || format!("{totals:?}"))?;
    desk.close(ground).await?;
    drop(stores);
    Ok("attempt 1 died between its writes, last_error kept on the row; the same worker served attempt 2, the position declined the name it has, the order completed: 12, not 17".into())
}

/// The worker's task is killed in the middle of a job.
async fn owner_on(ground: &Ground, shelf: &Shelf) -> Finding {
    let desk = Arc::new(Desk::open(ground, shelf, "owner").await?);
    let (told, mut attempts) = mpsc::channel(8);
    let working = Arc::clone(&desk);
    let tree = plant(shelf, move || {
        let told = told.clone();
        let worker = working.worker(move |cx| {
            let told = told.clone();
            async move {
                let absorbed = cx.stores().move_position(&cx).await?;
                told.send((cx.id(), cx.token(), absorbed)).await?;
                if cx.token() == 1 {
                    std::future::pending::<()>().await;
                }
                let _ = cx.stores().fill_order(&cx).await?;
                Ok(())
            }
        });
        worker.lease(Duration::from_millis(400)).beat(Duration::from_millis(100))
    })
    .await?;
    let fill = desk.fill(1, 12).await?;
    let job = desk.enqueue(&fill).await?;
    require(next(&mut attempts).await? == (job, 1, Absorbed::Applied), || "token 1".into())?;
    let killed = tree.kill("fills").await;
    require(killed == Killed::Aborted, || format!("{killed:?}"))?;
    let again = next(&mut attempts).await?;
    require(again == (job, 2, Absorbed::Declined), || format!("{again:?} served again"))?;
    desk.drained().await?;
    let status = tree.status().borrow().clone();
    let restarts: Vec<(&str, u64)> =
        status.owners.iter().map(|owner| (&*owner.name, owner.restarts)).collect();
    require(restarts == [("orders", 0), ("positions", 0), ("fills", 1)], || {
        format!("{restarts:?}")
    })?;
    let running = status.owners.iter().all(|owner| owner.phase == OwnerPhase::Running);
    let report = tree.stop().await;
    require(running && report.is_clean(), || format!("{report:?}"))?;
    let stores = serve(shelf).await?;
    let position = shelf.books.positions.get(fill.portfolio).await?.unwrap_or_default();
    let order = shelf.books.orders.get(fill.order).await?.unwrap_or_default();
    require((position.qty, order.filled) == (12, 12), || format!("{position:?}, {order:?}"))?;
    drop(stores);
    desk.close(ground).await?;
    Ok("killed mid-job: the worker restarted alone, 0 restarts of the stores, the orphan served with token 2, the effect landed once".into())
}

/// The newest orders by name alone; every name in its place.
async fn audited_on(ground: &Ground, shelf: &Shelf) -> Finding {
    const FILLS: i64 = 40;
    let stores = serve(shelf).await?;
    let desk = Desk::open(ground, shelf, "audit").await?;
    let mut fills = HashMap::new();
    let mut orders = Vec::new();
    for n in 1..=FILLS {
        let fill = desk.fill(n, n).await?;
        orders.push(fill.order);
        fills.insert(desk.enqueue(&fill).await?, fill);
    }
    let worker = desk.worker(|cx| async move {
        let _ = cx.stores().book(&cx).await?;
        Ok(())
    });
    let worker = worker.concurrency(8).start()?;
    desk.drained().await?;
    let _ = worker.stop(PATIENCE).await;
    let audit = audit(&shelf.books, &fills, 5).await?;
    audit.verdict()?;
    let newest: Vec<BrandedId> = orders.iter().rev().take(5).copied().collect();
    let paged: Vec<BrandedId> = audit.newest.iter().map(|(id, _)| *id).collect();
    require(paged == newest, || format!("{paged:?} where {newest:?} was minted"))?;
    for (id, order) in &audit.newest {
        let by = order.job.and_then(|job| fills.get(&job)).map(|fill| fill.order);
        require(by == Some(*id), || format!("{id} names {:?}", order.job))?;
    }
    let names: BTreeSet<BrandedId> = fills.keys().copied().collect();
    require(audit.names == names.len(), || format!("{} names are remembered", audit.names))?;
    desk.close(ground).await?;
    drop(stores);
    Ok(format!(
        "newest 5 of {FILLS} orders newest-first by name alone, each names the job that wrote it; the position remembers all {FILLS} and is their sum"
    ))
}

/// A stop settles what is in hand and claims nothing more.
async fn stop_on(ground: &Ground, shelf: &Shelf) -> Finding {
    let desk = Arc::new(Desk::open(ground, shelf, "stop").await?);
    let (told, mut attempts) = mpsc::channel(8);
    let working = Arc::clone(&desk);
    let tree = plant(shelf, move || {
        let told = told.clone();
        let worker = working.worker(move |cx| {
            let told = told.clone();
            async move {
                told.send((cx.id(), cx.token(), Absorbed::Applied)).await?;
                cx.stopping().cancelled().await;
                let _ = cx.stores().book(&cx).await?;
                Ok(())
            }
        });
        worker.concurrency(1)
    })
    .await?;
    let fill = desk.fill(1, 12).await?;
    let in_hand = desk.enqueue(&fill).await?;
    require(next(&mut attempts).await?.0 == in_hand, || "another job came".into())?;
    let waiting = desk.enqueue(&desk.fill(2, 5).await?).await?;
    let report = tree.stop().await;
    let worker = report.owner("fills").and_then(|owner| owner.worker).ok_or("no report is kept")?;
    require(report.is_clean() && worker.finished == 1 && worker.abandoned == 0, || {
        format!("{report:?}")
    })?;
    let row = desk.queue.get(waiting).await?.ok_or("the waiting job is gone")?;
    let depth = desk.queue.depth().await?;
    let settled = desk.queue.get(in_hand).await?.is_none();
    require(settled && row.attempts == 0 && depth == 1, || format!("{row:?}, depth {depth}"))?;
    let stores = serve(shelf).await?;
    let position = shelf.books.positions.get(fill.portfolio).await?;
    require(position == Some(Position { qty: 12 }), || format!("{position:?}"))?;
    drop(stores);

    let (_bus, quiet) = ground.queue(&format!("rung-3-5-bare-{}", shelf.word())).await?;
    let bare = Worker::builder(&quiet).handler(|_: Job<bytes::Bytes>| async { Ok(()) }).start()?;
    let mut status = bare.status();
    let parked = status.wait_for(|status| status.phase == Phase::Parked);
    drop(tokio::time::timeout(PATIENCE, parked).await??);
    let stopped = bare.stop(PATIENCE).await;
    require(stopped.abandoned + stopped.released == 0, || format!("{stopped:?}"))?;
    ground.remove(&quiet).await?;
    desk.close(ground).await?;
    Ok("the job in hand settled, the next never claimed (attempts 0, depth 1); a bare worker stopped cleanly".into())
}

/// A queue of fills, and the books that they land in.
struct Desk {
    bus: Bus,
    queue: Queue,
    portfolio: BrandedId,
    books: Arc<Books>,
}

impl Desk {
    async fn open(ground: &Ground, shelf: &Shelf, word: &str) -> Result<Desk, Failure> {
        let (bus, queue) = ground.queue(&format!("rung-3-5-{word}-{}", shelf.word())).await?;
        let portfolio = BrandedId::derive(PORTFOLIO, word.as_bytes())?;
        Ok(Desk { bus, queue, portfolio, books: Arc::clone(&shelf.books) })
    }

    /// A fill of a new order.
    async fn fill(&self, n: i64, qty: i64) -> Result<Fill, Failure> {
        let order = self.bus.mint(ORDER).await?;
        Ok(Fill { order, portfolio: self.portfolio, qty, price: 10_000 + n })
    }

    async fn enqueue(&self, fill: &Fill) -> Result<BrandedId, Failure> {
        match self.queue.typed::<Fill>().enqueue(fill).await? {
            Enqueued::Admitted(id) => Ok(id),
            other => Err(format!("{other:?}").into()),
        }
    }

    /// A worker whose handler has the books.
    fn worker<F, Fut>(&self, handler: F) -> WorkerBuilder<Fill, Json, Handled>
    where
        F: Fn(FillJob) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), JobError>> + Send + 'static,
    {
        Worker::builder(self.queue.typed::<Fill>())
            .backoff(Backoff::fixed(PAUSE))
            .handler(with_stores(Arc::clone(&self.books), handler))
    }

    /// Waits until nothing waits, runs or is scheduled.
    async fn drained(&self) -> Result<(), Failure> {
        let drained = async {
            loop {
                let counts = self.queue.counts().await?;
                if counts.pending + counts.active + counts.scheduled == 0 {
                    return Ok::<u64, Failure>(counts.dead);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let dead = tokio::time::timeout(PATIENCE, drained).await??;
        require(dead == 0, || format!("{dead} dead"))
    }

    /// Waits until a job is in a state.
    async fn row_in(&self, job: BrandedId, state: JobState) -> Result<JobRecord, Failure> {
        let arrived = async {
            loop {
                match self.queue.get(job).await? {
                    Some(row) if row.state == state => return Ok::<_, Failure>(row),
                    Some(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    None => return Err("the job is gone".into()),
                }
            }
        };
        tokio::time::timeout(PATIENCE, arrived).await?
    }

    async fn close(&self, ground: &Ground) -> Result<(), Failure> {
        ground.remove(&self.queue).await?;
        self.bus.close().await;
        Ok(())
    }
}

/// A tree of the stores alone, ready. Rows in memory are there while one serves them.
async fn serve(shelf: &Shelf) -> Result<Tree, Failure> {
    start(&stores(shelf)).await
}

/// A tree of the stores and a worker, ready.
async fn plant<F>(shelf: &Shelf, worker: F) -> Result<Tree, Failure>
where
    F: Fn() -> WorkerBuilder<Fill, Json, Handled> + Send + Sync + 'static,
{
    let fills = Owner::worker("fills", move |_| {
        let worker = worker();
        async move { Ok(worker.start()?) }
    });
    start(&stores(shelf).owner(fills.grace(PATIENCE))).await
}

fn stores(shelf: &Shelf) -> Supervisor {
    shelf.owners().into_iter().fold(Supervisor::new(), Supervisor::owner)
}

async fn start(supervisor: &Supervisor) -> Result<Tree, Failure> {
    let tree = supervisor.start()?;
    tokio::time::timeout(PATIENCE, tree.ready()).await??;
    Ok(tree)
}

async fn next<T>(attempts: &mut mpsc::Receiver<T>) -> Result<T, Failure> {
    let came = tokio::time::timeout(PATIENCE, attempts.recv()).await?;
    came.ok_or_else(|| "the handlers are gone".into())
}
