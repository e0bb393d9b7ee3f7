//! Leases: kept while a handler runs, given up when they are lost.

mod ground;

use std::time::Duration;

use bytes::Bytes;
use emq_core::{CancelReason, Job, JobError, JobState, Phase, Worker};
use emq_testkit::Valkey;
use ground::crew::Crew;
use ground::{LONG, PATIENCE, admit, builder_on, bus_on, healthy, phase, shared, until};

#[tokio::test]
async fn a_handler_that_outlives_its_lease_keeps_its_job() {
    let (_bus, queue) = shared().await;
    let (slow, other) = (Crew::closed(), Crew::open());
    let lease = Duration::from_millis(800);
    let worker = Worker::builder(&queue).lease(lease).handler(slow.clone()).start().unwrap();
    let id = admit(&queue, "x").await;
    slow.next().await;
    let idle = Worker::builder(&queue).lease(lease).handler(other.clone()).start().unwrap();
    // Each extension is a third of a lease after the one before: seven are two leases and more.
    until("extensions", async || worker.totals().extended >= 7).await;
    assert!(other.is_quiet().await);
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.attempts, record.lost), (1, 0));
    slow.let_end(1);
    until("the end", async || worker.totals().done == 1).await;
    drop(idle);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_handler_whose_job_became_anothers_is_cancelled_and_settles_nothing() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let crew = Crew::closed();
    let lease = Duration::from_millis(600);
    let worker = Worker::builder(&queue).lease(lease).handler(crew.clone()).start().unwrap();
    let id = admit(&queue, "x").await;
    crew.next().await;
    valkey.cli(&["HSET", &queue.keys().job(&id), "holder", "another.1"]).unwrap();
    assert_eq!(crew.next_cancelled().await, CancelReason::Stale);
    until("the count", async || worker.totals().stale == 1).await;
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.last_error, record.holder.as_deref()), (None, Some("another.1")));
    healthy(&queue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_is_cut_off_stops_by_itself() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let crew = Crew::closed();
    let lease = Duration::from_millis(600);
    let worker = Worker::builder(&queue).lease(lease).handler(crew.clone()).start().unwrap();
    let id = admit(&queue, "x").await;
    crew.next().await;
    valkey.pause().unwrap();
    assert_eq!(crew.next_cancelled().await, CancelReason::Deadline);
    valkey.resume().unwrap();
    // It is served again, to this worker or another.
    let again = crew.next().await;
    assert_eq!(again.id, id);
    assert!(again.token >= 2);
    crew.let_end(1);
    until("the end", async || worker.totals().done == 1).await;
    healthy(&queue).await;
}

#[tokio::test]
async fn the_job_of_a_dropped_worker_goes_to_another_with_its_checkpoint() {
    let (_bus, queue) = shared().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let lease = Duration::from_millis(300);
    let crashing = Worker::builder(&queue)
        .lease(lease)
        .handler(move |job: Job<Bytes>| {
            let told = told.clone();
            async move {
                job.save(b"half").await?;
                told.send(())?;
                std::future::pending::<Result<(), JobError>>().await
            }
        })
        .start()
        .unwrap();
    let id = admit(&queue, "x").await;
    ground::soon("the checkpoint", heard.recv()).await.unwrap();
    drop(crashing);
    let crew = Crew::open();
    let worker = Worker::builder(&queue).lease(lease).handler(crew.clone()).start().unwrap();
    let started = crew.next().await;
    assert_eq!((started.id, started.token), (id, 2));
    assert_eq!(started.checkpoint.as_deref(), Some(b"half".as_slice()));
    until("the end", async || queue.get(id).await.unwrap().is_none()).await;
    drop(worker);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_job_that_kills_its_worker_every_time_ends_in_the_morgue() {
    let (_bus, queue) = shared().await;
    let id = admit(&queue, "poison").await;
    let crew = Crew::closed();
    let start = || {
        let builder = Worker::builder(&queue).lease(Duration::from_millis(40)).lost_cap(3);
        builder.handler(crew.clone()).start().unwrap()
    };
    for token in 1..=3 {
        let worker = start();
        assert_eq!(crew.next().await.token, token);
        drop(worker);
    }
    let _worker = start();
    let mut record = None;
    until("the burial", async || {
        record = queue.get(id).await.unwrap();
        record.as_ref().is_some_and(|record| record.state == JobState::Dead)
    })
    .await;
    let record = record.unwrap();
    assert_eq!((record.lost, record.attempts), (3, 3));
    assert!(record.last_error.unwrap().contains("lost 3 times"));
    assert!(crew.is_quiet().await);
    healthy(&queue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_is_refused_in_the_end() {
    let (_bus, queue) = shared().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Arc::new(std::sync::Mutex::new(blocked));
    let id = admit(&queue, "x").await;
    let _worker = Worker::builder(&queue)
        .concurrency(2)
        .timeout(Duration::from_millis(20))
        .cancel_grace(Duration::from_millis(1))
        .backoff(emq_core::Backoff::fixed(Duration::ZERO))
        .handler(move |job: Job<Bytes>| {
            let (told, blocked) = (told.clone(), std::sync::Arc::clone(&blocked));
            async move {
                if job.attempt() == 1 {
                    // Two tasks share two threads: the rest of the worker goes on meanwhile.
                    let _ = blocked.lock().map(|blocked| blocked.recv());
                    return Ok(());
                }
                told.send(job.attempt())?;
                Ok(())
            }
        })
        .start()
        .unwrap();
    assert_eq!(ground::soon("the second attempt", heard.recv()).await, Some(2));
    until("the end", async || queue.get(id).await.unwrap().is_none()).await;
    unblock.send(()).unwrap();
    healthy(&queue).await;
}

#[tokio::test]
async fn an_unreachable_bus_does_not_stop_a_handler_within_its_lease() {
    let valkey = Valkey::start().unwrap();
    let bus = builder_on(&valkey).connect().await.unwrap();
    let queue = bus.queue("work").unwrap();
    let crew = Crew::closed();
    let worker = Worker::builder(&queue).lease(LONG).handler(crew.clone()).start().unwrap();
    admit(&queue, "x").await;
    crew.next().await;
    valkey.kill9().unwrap();
    phase(&worker, Phase::Reconnecting).await;
    assert_eq!(worker.status().borrow().in_flight, 1);
    let report = worker.stop(PATIENCE / 60).await;
    assert_eq!((report.finished, report.released, report.abandoned), (0, 0, 1));
    assert_eq!(crew.next_cancelled().await, CancelReason::Stopping);
}

#[tokio::test]
async fn leases_are_extended_together() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let crew = Crew::closed();
    let lease = Duration::from_millis(900);
    let worker =
        Worker::builder(&queue).concurrency(50).lease(lease).handler(crew.clone()).start().unwrap();
    for n in 0..50 {
        admit(&queue, n.to_string()).await;
        crew.next().await;
    }
    let before = ground::calls(&valkey, "evalsha");
    until("extensions", async || worker.totals().extended >= 250).await;
    let spent = ground::calls(&valkey, "evalsha") - before;
    assert!(spent < 100, "{spent} calls");
    assert_eq!(worker.totals().lost, 0);
    crew.let_end(50);
    until("the end", async || worker.totals().done == 50).await;
    healthy(&queue).await;
}
