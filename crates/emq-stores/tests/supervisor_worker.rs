//! A worker as an owner: killed alone, restarted when it can't go on, drained at the stop.

mod supervisor_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use emq_core::{Bus, Job, JobError, JobState, Queue, Worker};
use emq_keys::{BrandedId, namespace};
use emq_stores::memory::Memory;
use emq_stores::supervisor::{Killed, Owner, OwnerEnd, OwnerFailure, Supervisor};
use emq_stores::{Absorbed, Cx, Store, with_stores};
use emq_testkit::Valkey;
use supervisor_support::{PATIENCE, runs_again, soon};
use tokio::sync::{Semaphore, mpsc};

/// A lease that ends while one waits, and a beat that notices.
const LEASE: Duration = Duration::from_millis(500);
const BEAT: Duration = Duration::from_millis(100);

async fn queue(name: &str) -> Queue {
    let bus = Bus::connect(&Valkey::of_this_process().url()).await.unwrap();
    bus.queue(format!("supervised-{name}-{}", bus.mint_job().await.unwrap())).unwrap()
}

fn row() -> BrandedId {
    BrandedId::derive(namespace!("POS"), b"the position").unwrap()
}

/// Waits until a queue is empty.
async fn empty(queue: &Queue) {
    let drained = async {
        loop {
            let counts = queue.counts().await.unwrap();
            if counts.pending + counts.active + counts.scheduled == 0 {
                return counts.dead;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert_eq!(soon("an empty queue", drained).await, 0, "nothing is dead");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_between_effect_and_settlement_serves_the_job_again_and_it_counts_once() {
    let queue = queue("killed").await;
    let (memory, rows) = Memory::open(namespace!("POS"));
    let positions: Store<i64> = Store::new(memory);
    let (told, mut steps) = mpsc::channel(8);
    let working = queue.clone();
    let stores = Arc::new(positions.clone());
    let worker = Owner::worker("fills", move |_| {
        let (told, stores) = (told.clone(), Arc::clone(&stores));
        let handler = with_stores(stores, move |cx: Cx<i64, Store<i64>>| {
            let told = told.clone();
            async move {
                let qty = cx.payload;
                let absorbed = cx.absorb(cx.stores(), row(), move |sum| *sum += qty).await?;
                told.send((cx.token(), absorbed)).await?;
                if cx.token() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        });
        let worker = Worker::builder(working.typed::<i64>()).lease(LEASE).beat(BEAT);
        async move { Ok(worker.handler(handler).start()?) }
    });
    let tree = Supervisor::new()
        .owner(Owner::serving("positions", move || rows.clone().run()))
        .owner(worker)
        .start()
        .unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    let _ = queue.typed::<i64>().enqueue(&12).await.unwrap();

    assert_eq!(soon("the first", steps.recv()).await, Some((1, Absorbed::Applied)));
    assert_eq!(tree.kill("fills").await, Killed::Aborted);
    assert_eq!(soon("the second", steps.recv()).await, Some((2, Absorbed::Declined)));
    empty(&queue).await;
    assert_eq!(positions.get(row()).await.unwrap(), Some(12));

    // The store's own owner, killed, takes its rows up again.
    assert_eq!(tree.kill("positions").await, Killed::Aborted);
    runs_again(&tree, "positions", 1).await;
    assert_eq!(positions.get(row()).await.unwrap(), Some(12));
    let report = soon("the stop", tree.stop()).await;
    assert!(report.is_clean(), "{report:?}");
    let restarts = |name: &str| report.owner(name).unwrap().restarts;
    assert_eq!((restarts("fills"), restarts("positions")), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_can_not_go_on_crashes_its_owner_and_a_handler_that_fails_does_not() {
    let queue = queue("crashed").await;
    let url = Valkey::of_this_process().url();
    let (bus_used, mut buses) = mpsc::channel(8);
    let name = queue.name().as_str().to_owned();
    let worker = Owner::worker("fills", move |_| {
        let (url, name, bus_used) = (url.clone(), name.clone(), bus_used.clone());
        async move {
            let bus = Bus::connect(&url).await?;
            bus_used.send(bus.clone()).await?;
            let worker =
                Worker::builder(bus.queue(name)?.typed::<u32>()).max_attempts(1).beat(BEAT);
            let worker = worker.handler(|job: Job<u32>| async move {
                match job.payload {
                    0 => Err(JobError::dead("no such account")),
                    1 => panic!("the pricing library gave up"),
                    _ => Ok(()),
                }
            });
            Ok(worker.start()?)
        }
    });
    let tree = Supervisor::new().owner(worker).start().unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    let first = soon("a bus", buses.recv()).await.unwrap();
    let typed = queue.typed::<u32>();
    for n in 0..3 {
        let _ = typed.enqueue(&n).await.unwrap();
    }
    let decided = async {
        while queue.counts().await.unwrap().dead < 2 || queue.depth().await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("two dead jobs", decided).await;
    assert_eq!(tree.status().borrow().owners[0].restarts, 0, "handlers fail, the owner doesn't");

    first.close().await;
    runs_again(&tree, "fills", 1).await;
    let last = tree.status().borrow().owners[0].last_failure.clone();
    let Some(OwnerFailure::Failed(cause)) = last else { panic!("{last:?}") };
    let cause = cause.downcast_ref::<emq_core::Error>();
    assert!(matches!(cause, Some(emq_core::Error::Closed)), "{cause:?}");
    assert!(soon("another bus", buses.recv()).await.is_some());
    assert!(soon("the stop", tree.stop()).await.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_settles_the_job_in_hand_and_claims_no_other_and_keeps_the_report() {
    let queue = queue("stopped").await;
    let (told, mut started) = mpsc::channel(8);
    let may_end = Arc::new(Semaphore::new(0));
    let (working, gate) = (queue.clone(), Arc::clone(&may_end));
    let ended = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ended);
    let worker = Owner::worker("fills", move |_| {
        let (told, gate, count) = (told.clone(), Arc::clone(&gate), Arc::clone(&count));
        let worker = Worker::builder(working.typed::<u32>()).concurrency(1);
        let worker = worker.handler(move |job: Job<u32>| {
            let (told, gate, count) = (told.clone(), Arc::clone(&gate), Arc::clone(&count));
            async move {
                told.send(()).await?;
                job.stopping().cancelled().await;
                gate.acquire().await?.forget();
                count.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        });
        async move { Ok(worker.start()?) }
    })
    .grace(PATIENCE);
    let tree = Supervisor::new().owner(worker).start().unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    let _ = queue.typed::<u32>().enqueue(&1).await.unwrap();
    soon("the first", started.recv()).await.unwrap();
    let next = queue.typed::<u32>().enqueue(&2).await.unwrap().id();
    may_end.add_permits(2);
    let report = soon("the stop", tree.stop()).await;
    let fills = report.owner("fills").unwrap();
    assert!(matches!(fills.end, OwnerEnd::Stopped), "{report:?}");
    let stopped = fills.worker.expect("the worker's report is kept");
    assert_eq!((stopped.finished, stopped.released, stopped.abandoned), (1, 0, 0));
    let row = queue.get(next).await.unwrap().unwrap();
    assert_eq!((row.state, row.attempts), (JobState::Pending, 0));
    assert_eq!((queue.depth().await.unwrap(), ended.load(Ordering::SeqCst)), (1, 1));
}
