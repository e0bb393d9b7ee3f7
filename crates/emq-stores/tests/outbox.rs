//! The outbox and its relay, on a real server and real databases.
#![cfg(all(feature = "outbox", feature = "sqlite"))]

mod outbox_ground;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use emq_core::{EnqueueOptions, NewJob, Queue};
use emq_keys::{BrandedId, Namespace, namespace};
use emq_stores::outbox::{Outbox, OutboxError, Placed, Relay, RelayError};
use emq_stores::{Absorbed, Store, StoreError};
use emq_testkit::Valkey;
use outbox_ground::{Ground, PATIENCE, start};

#[tokio::test]
async fn a_rollback_leaves_neither_and_a_commit_both() {
    let ground = Ground::syncing().await;
    let mut committed = Vec::new();
    for n in 0..50 {
        let id = ground.fill(n, n % 2 == 0).await;
        if n % 2 == 0 {
            committed.push(id);
        }
    }
    assert_eq!((ground.rows("fills").await, ground.rows("emq_outbox").await), (25, 25));
    let relay = ground.relay();
    let status = relay.status();
    let (stop, running) = start(relay);
    ground.empty().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(ground.queue.counts().await.unwrap().pending, 25);
    for id in committed {
        assert!(ground.queue.get(id).await.unwrap().is_some(), "{id}");
    }
    assert_eq!((status.borrow().admitted, status.borrow().duplicates), (25, 0));
}

#[tokio::test]
async fn what_was_said_about_a_job_arrives() {
    let ground = Ground::syncing().await;
    let lane = BrandedId::derive(namespace!("TEN"), b"acme").unwrap();
    let options = EnqueueOptions::new()
        .kind("invoice")
        .headers("{\"a\":1}")
        .max_attempts(3)
        .unique("u")
        .delay(Duration::from_secs(3_600));
    let job = ground.outbox.job("x").unwrap().lane(lane).with(options);
    let id = job.id();
    let outbox = ground.outbox.clone();
    let put = ground.db.transaction(move |tx| outbox.enqueue_sqlite(tx, "fills", &job)).await;
    assert_eq!(put.unwrap(), Placed::Written);
    let (stop, running) = start(ground.relay());
    ground.empty().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let record = ground.queue.get(id).await.unwrap().unwrap();
    assert_eq!(record.payload, "x");
    assert_eq!(record.kind.as_deref(), Some("invoice"));
    assert_eq!(record.headers.as_deref(), Some("{\"a\":1}"));
    assert_eq!(record.max_attempts, Some(3));
    assert_eq!(ground.queue.counts().await.unwrap().scheduled, 1);
}

#[tokio::test]
async fn what_the_bus_would_not_take_is_refused_before_it_is_written() {
    let ground = Ground::syncing().await;
    let outbox = ground.outbox.clone().payload_cap(10);
    let not_a_job = BrandedId::encode(namespace!("ORD"), 1).unwrap();
    let job = BrandedId::encode(Namespace::JOB, 1).unwrap();
    let bad = [
        NewJob::new(not_a_job, "x"),
        NewJob::new(job, "eleven bytes"),
        NewJob::new(job, "x").with(EnqueueOptions::new().kind("")),
        NewJob::new(job, "x").with(EnqueueOptions::new().unique("a\0b")),
        NewJob::new(job, "x").with(EnqueueOptions::new().max_attempts(0)),
        NewJob::new(job, "x").with(EnqueueOptions::new().delay(Duration::MAX)),
    ];
    let put = ground.db.transaction(move |tx| {
        for job in &bad {
            assert!(outbox.enqueue_sqlite(tx, "fills", job).is_err(), "{job:?}");
        }
        assert!(outbox.enqueue_sqlite(tx, "no queue!", &NewJob::new(job, "x")).is_err());
        // And the transaction goes on.
        outbox.enqueue_sqlite(tx, "fills", &NewJob::new(job, "x"))
    });
    assert_eq!(put.await.unwrap(), Placed::Written);
    assert_eq!(ground.rows("emq_outbox").await, 1);
    assert!(matches!(Outbox::new().job("x"), Err(OutboxError::NoMinter)));
}

#[tokio::test]
async fn a_row_that_the_bus_never_takes_stops_nobody_and_is_kept() {
    let ground = Ground::syncing().await;
    let first = ground.fill(1, true).await;
    ground.fill(2, true).await;
    // Only a hand, or another program, can have written this.
    ground
        .db
        .with(move |connection| {
            let spoil = "UPDATE emq_outbox SET kind = '' WHERE id = ?1";
            assert_eq!(connection.execute(spoil, [first.as_str()])?, 1);
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
    let relay = ground.relay();
    let mut status = relay.status();
    let (stop, running) = start(relay);
    let seen = status.wait_for(|status| status.refused == 1 && status.admitted == 1);
    tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(ground.rows("emq_outbox WHERE refused IS NOT NULL").await, 1);
    assert_eq!(ground.queue.counts().await.unwrap().pending, 1);
}

#[tokio::test]
async fn a_server_that_does_not_sync_is_refused_unless_that_is_allowed() {
    let ground = Ground::on(Valkey::start().unwrap()).await;
    ground.fill(1, true).await;
    let (_stop, running) = start(ground.relay());
    let ended = tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
    assert!(matches!(ended, Err(RelayError::NotDurable(_))), "{ended:?}");
    assert_eq!(ground.rows("emq_outbox").await, 1);
    let (stop, running) = start(ground.relay().allow_volatile());
    ground.empty().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(ground.queue.counts().await.unwrap().pending, 1);
}

#[tokio::test]
async fn relays_at_once_do_no_work_twice() {
    let ground = Ground::syncing().await;
    let outbox = ground.outbox.clone();
    let put = ground.db.transaction(move |tx| {
        for n in 0..2_000 {
            let _ = outbox.enqueue_sqlite(tx, "fills", &outbox.job(n.to_string())?)?;
        }
        Ok::<_, OutboxError>(())
    });
    put.await.unwrap();
    let relays: Vec<Relay> = (0..3).map(|_| ground.relay().batch(50)).collect();
    let statuses: Vec<_> = relays.iter().map(Relay::status).collect();
    let running: Vec<_> = relays.into_iter().map(start).collect();
    ground.empty().await;
    for (stop, running) in running {
        stop.cancel();
        running.await.unwrap().unwrap();
    }
    let sum = |of: fn(&emq_stores::outbox::RelayStatus) -> u64| {
        statuses.iter().map(|status| of(&status.borrow())).sum::<u64>()
    };
    assert_eq!((sum(|s| s.admitted), sum(|s| s.duplicates)), (2_000, 0));
    assert_eq!(ground.queue.counts().await.unwrap().pending, 2_000);
}

#[tokio::test]
async fn a_relay_killed_before_its_delete_a_hundred_times_loses_no_job_and_has_effects_once() {
    let ground = Ground::syncing().await;
    let totals: Store<u64> = ground.db.store(namespace!("TOT"));
    let row = BrandedId::encode(namespace!("TOT"), 1).unwrap();
    let mut declined = 0;
    for n in 0..100 {
        ground.fill(n, true).await;
        // It stops for good between the bus's answer and its delete, and is killed there.
        let reached = Arc::new(tokio::sync::Notify::new());
        let told = Arc::clone(&reached);
        let relay = ground.relay().held_for(Duration::ZERO).before_delete(move || {
            told.notify_one();
            std::future::pending()
        });
        let (_stop, running) = start(relay);
        tokio::time::timeout(PATIENCE, reached.notified()).await.unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        // Every other job is worked before the repeat, so that the bus has forgotten its name.
        if n % 2 == 0 {
            declined += work(&ground.queue, &totals, row).await;
        }
    }
    assert_eq!(ground.rows("emq_outbox").await, 100);
    let (stop, running) = start(ground.relay().held_for(Duration::from_secs(30)));
    ground.empty().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    declined += work(&ground.queue, &totals, row).await;
    assert_eq!(totals.get(row).await.unwrap(), Some(100));
    assert!(declined >= 99, "{declined}: repeats that the store declined");
}

/// Works all that waits, each job adding one; answers how many the store declined.
async fn work(queue: &Queue, totals: &Store<u64>, row: BrandedId) -> usize {
    let mut declined = 0;
    while let Some(lease) = queue.claim(Duration::from_secs(60)).await.unwrap() {
        let job = lease.hold().id;
        if totals.absorb(row, job, |sum| *sum += 1).await.unwrap() == Absorbed::Declined {
            declined += 1;
        }
        let _ = queue.complete(lease.hold()).await.unwrap();
    }
    declined
}

#[tokio::test]
async fn a_server_killed_right_after_an_admission_has_the_job_and_one_that_is_down_is_waited_for() {
    let ground = Ground::syncing().await;
    let kills = Arc::new(AtomicUsize::new(0));
    let id = ground.fill(1, true).await;
    let reached = Arc::new(tokio::sync::Notify::new());
    let (told, seen) = (Arc::clone(&reached), Arc::clone(&kills));
    let relay = ground.relay().before_delete(move || {
        let (told, first) = (Arc::clone(&told), seen.fetch_add(1, Ordering::SeqCst) == 0);
        async move {
            if first {
                told.notify_one();
                std::future::pending::<()>().await;
            }
        }
    });
    let (_stop, running) = start(relay);
    tokio::time::timeout(PATIENCE, reached.notified()).await.unwrap();
    ground.valkey.kill9().unwrap();
    running.abort();
    // Down: what is committed meanwhile stays.
    ground.fill(2, true).await;
    let relay = ground.relay().held_for(Duration::ZERO);
    let mut status = relay.status();
    let (stop, running) = start(relay);
    let failed = status.wait_for(|status| status.failures > 0);
    tokio::time::timeout(PATIENCE, failed).await.unwrap().unwrap();
    assert_eq!(ground.rows("emq_outbox").await, 2);
    ground.valkey.start_again().unwrap();
    ground.empty().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(ground.queue.get(id).await.unwrap().is_some(), "it was fsynced before it was deleted");
    assert_eq!(ground.queue.counts().await.unwrap().pending, 2);
    assert!(status.borrow().duplicates >= 1, "{:?}", status.borrow());
}
