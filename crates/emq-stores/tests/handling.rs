//! Handlers that write through stores, on a real server.

use std::sync::Arc;
use std::time::Duration;

use emq_core::{Backoff, Bus, Enqueued, Job, JobError, JobRecord, JobState, Queue, Worker};
use emq_keys::{BrandedId, namespace};
use emq_stores::memory::Memory;
use emq_stores::{Absorbed, Cx, Store, StoreError, with_stores};
use emq_testkit::Valkey;
use serde::{Deserialize, Serialize};

/// How long a test waits for what must happen. Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Fill {
    order: BrandedId,
    portfolio: BrandedId,
    quantity: i64,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Order {
    filled: i64,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Position {
    quantity: i64,
}

#[derive(Clone)]
struct Desk {
    orders: Store<Order>,
    positions: Store<Position>,
}

impl Desk {
    fn in_memory() -> Desk {
        Desk {
            orders: Store::new(Memory::new(namespace!("ORD"))),
            positions: Store::new(Memory::new(namespace!("POS"))),
        }
    }
}

fn fill(number: u64, quantity: i64) -> Fill {
    Fill {
        order: BrandedId::encode(namespace!("ORD"), number).unwrap(),
        portfolio: BrandedId::encode(namespace!("POS"), 1).unwrap(),
        quantity,
    }
}

/// A queue of the test's own on the server that the tests share.
async fn queue(name: &str) -> (Bus, Queue) {
    let bus = Bus::connect(&Valkey::of_this_process().url()).await.unwrap();
    let queue = bus.queue(format!("stores-{}-{name}", std::process::id())).unwrap();
    (bus, queue)
}

async fn admit(queue: &Queue, fill: &Fill) -> BrandedId {
    match queue.typed::<Fill>().enqueue(fill).await.unwrap() {
        Enqueued::Admitted(id) => id,
        other => panic!("{other:?}"),
    }
}

/// Asks until a job's row is as wanted. The server tells of no settlement, so this asks again.
async fn until(queue: &Queue, id: BrandedId, wanted: impl Fn(Option<&JobRecord>) -> bool) {
    let asked = async {
        while !wanted(queue.get(id).await.unwrap().as_ref()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("the job did not become what it should");
}

/// Dies between its two writes on attempt 1: the second delivery is declined where the first one
/// got, and goes on there.
async fn torn(desk: Desk, name: &str) {
    let (_bus, queue) = queue(name).await;
    let (told, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
    let working = move |cx: Cx<Fill, Desk>| {
        let told = told.clone();
        async move {
            let Fill { order, portfolio, quantity } = cx.payload;
            let desk = cx.stores();
            let moved = cx.absorb(&desk.positions, portfolio, move |position| {
                position.quantity += quantity;
                quantity
            });
            told.send((cx.attempt(), moved.await?))?;
            if cx.attempt() == 1 && quantity == 5 {
                return Err(JobError::new("the power went"));
            }
            let _ = cx.absorb(&desk.orders, order, move |order| order.filled += quantity).await?;
            Ok(())
        }
    };
    let worker = Worker::builder(&queue.typed::<Fill>())
        .backoff(Backoff::fixed(Duration::from_millis(1)))
        .handler(with_stores(desk.clone(), working))
        .start()
        .unwrap();
    let (first, second) = (fill(1, 7), fill(2, 5));
    let ids = [admit(&queue, &first).await, admit(&queue, &second).await];
    for id in ids {
        until(&queue, id, |record| record.is_none()).await;
    }
    assert_eq!(worker.stop(PATIENCE).await.totals.done, 2);

    let mut seen = Vec::new();
    while let Ok(outcome) = outcomes.try_recv() {
        seen.push(outcome);
    }
    seen.sort_by_key(|(attempt, _)| *attempt);
    use Absorbed::{Applied, Declined};
    assert_eq!(seen, [(1, Applied), (1, Applied), (2, Declined)]);

    let position = desk.positions.get(first.portfolio).await.unwrap().unwrap();
    assert_eq!(position.quantity, 12, "17 would be one fill twice");
    for fill in [first, second] {
        let order = desk.orders.get(fill.order).await.unwrap();
        assert_eq!(order, Some(Order { filled: fill.quantity }));
    }
    // The provenance of each row is the job that wrote it.
    let names = desk.positions.absorbed(fill(1, 7).portfolio, 9, None).await.unwrap();
    let names: Vec<_> =
        names.into_iter().map(|kept| (kept.name.job(), kept.contribution)).collect();
    assert_eq!(names, [(ids[0], "7".into()), (ids[1], "5".into())]);
}

#[tokio::test]
async fn a_torn_job_lands_once_in_memory() {
    torn(Desk::in_memory(), "torn-memory").await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_torn_job_lands_once_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let db = emq_stores::sqlite::Sqlite::open(directory.path().join("desk.db")).await.unwrap();
    let desk = Desk { orders: db.store(namespace!("ORD")), positions: db.store(namespace!("POS")) };
    torn(desk, "torn-sqlite").await;
}

#[derive(Debug, thiserror::Error)]
#[error("the fill can't be booked")]
struct Booking(#[from] StoreError);

/// What a handler is whose error says nothing of retries.
async fn book(cx: &Cx<Fill, Desk>) -> Result<(), Booking> {
    let Fill { portfolio, quantity, .. } = cx.payload;
    let _ = cx
        .absorb(&cx.stores().positions, portfolio, move |position| position.quantity += quantity)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_job_beyond_the_horizon_is_dead_at_once() {
    let (bus, queue) = queue("beyond").await;
    let desk = Desk::in_memory();
    let fill = fill(1, 5);
    let id = admit(&queue, &fill).await;
    let horizon = bus.mint_job().await.unwrap();
    let _ = desk.positions.compact(horizon).await.unwrap();
    let worker = Worker::builder(&queue.typed::<Fill>())
        .handler(with_stores(
            desk.clone(),
            |cx: Cx<Fill, Desk>| async move { Ok(book(&cx).await?) },
        ))
        .start()
        .unwrap();
    until(&queue, id, |record| record.is_some_and(|record| record.state == JobState::Dead)).await;
    let report = worker.stop(PATIENCE).await;
    assert_eq!((report.totals.dead, report.totals.retried), (1, 0));
    let record = queue.get(id).await.unwrap().unwrap();
    let reason = record.last_error.unwrap();
    let told = format!("the fill can't be booked: {id} is older than the horizon {horizon}");
    assert!(reason.starts_with(&told), "{reason}");
    assert_eq!(desk.positions.get(fill.portfolio).await.unwrap(), None);
}

#[tokio::test]
async fn an_effect_that_refuses_is_tried_again() {
    let (_bus, queue) = queue("refused").await;
    let desk = Desk::in_memory();
    let fill = fill(1, 5);
    let working = |cx: Cx<Fill, Desk>| async move {
        let (quantity, is_open) = (cx.payload.quantity, cx.attempt() > 1);
        let effect = move |row: Option<Position>| match is_open {
            false => Err("the market is closed"),
            true => {
                let before = row.unwrap_or_default().quantity;
                Ok((Position { quantity: before + quantity }, quantity))
            }
        };
        let _ = cx.try_absorb(&cx.stores().positions, cx.payload.portfolio, effect).await?;
        Ok(())
    };
    let worker = Worker::builder(&queue.typed::<Fill>())
        .backoff(Backoff::fixed(Duration::from_millis(1)))
        .handler(with_stores(desk.clone(), working))
        .start()
        .unwrap();
    let id = admit(&queue, &fill).await;
    until(&queue, id, |record| record.is_none()).await;
    let report = worker.stop(PATIENCE).await;
    assert_eq!((report.totals.done, report.totals.retried, report.totals.dead), (1, 1, 0));
    let position = desk.positions.get(fill.portfolio).await.unwrap();
    assert_eq!(position, Some(Position { quantity: 5 }));
}

#[tokio::test]
async fn the_context_is_the_job_and_the_stores() {
    let (_bus, queue) = queue("context").await;
    let lane = BrandedId::encode(namespace!("TEN"), 3).unwrap();
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let desk = Arc::new(Desk::in_memory());
    let working = move |cx: Cx<Fill, Desk>| {
        let told = told.clone();
        async move {
            let name = cx.name();
            let job: &Job<Fill> = cx.job();
            assert_eq!((name.job(), name.step_name()), (job.id(), ""));
            for step in ["debit", "credit", "debit"] {
                let positions = &cx.stores().positions;
                let step =
                    cx.absorb_step(positions, cx.payload.portfolio, step, |p| p.quantity += 1);
                told.send(step.await?)?;
            }
            assert!(!cx.cancelled().is_cancelled());
            assert_eq!((cx.token(), cx.attempt(), cx.lane()), (1, 1, Some(lane)));
            Ok(())
        }
    };
    let worker = Worker::builder(&queue.typed::<Fill>())
        .max_attempts(1)
        .handler(with_stores(Arc::clone(&desk), working))
        .start()
        .unwrap();
    let fill = fill(1, 5);
    let Enqueued::Admitted(id) = queue.typed::<Fill>().lane(lane).enqueue(&fill).await.unwrap()
    else {
        panic!("a fresh id");
    };
    until(&queue, id, |record| record.is_none()).await;
    assert_eq!(worker.stop(PATIENCE).await.totals.done, 1);
    use Absorbed::{Applied, Declined};
    for expected in [Applied, Applied, Declined] {
        assert_eq!(heard.recv().await, Some(expected));
    }
    let position = desk.positions.get(fill.portfolio).await.unwrap();
    assert_eq!(position, Some(Position { quantity: 2 }));
}
