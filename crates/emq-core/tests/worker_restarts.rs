//! A worker outlives its server, and what was in flight is settled when it is back.

mod ground;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use emq_core::{Bus, Error, Job, Phase, Worker};
use emq_keys::BrandedId;
use emq_testkit::{Fsync, Valkey};
use ground::crew::Crew;
use ground::proxy::Proxy;
use ground::{LONG, PATIENCE, admit, bus_on, healthy, phase, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_job_is_done_through_any_number_of_crashes() {
    let valkey = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let worked: Arc<Mutex<HashMap<BrandedId, u32>>> = Arc::default();
    let worker = Worker::builder(&queue)
        .concurrency(8)
        .lease(Duration::from_secs(2))
        .handler({
            let worked = Arc::clone(&worked);
            move |job: Job<Bytes>| {
                let worked = Arc::clone(&worked);
                async move {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    *worked.lock().unwrap().entry(job.id()).or_default() += 1;
                    Ok(())
                }
            }
        })
        .start()
        .unwrap();
    let mut admitted = Vec::new();
    for round in 0..4 {
        for n in 0..200 {
            // What was admitted without an answer may be there too; only what was answered counts.
            if let Ok(outcome) = queue.enqueue(format!("{round}.{n}")).await {
                admitted.push(outcome.id());
            }
        }
        if round % 2 == 0 {
            valkey.kill9().unwrap();
            valkey.start_again().unwrap();
        } else {
            valkey.restart().unwrap();
        }
    }
    assert!(admitted.len() > 400, "{}", admitted.len());
    until("the end of all jobs", async || match queue.counts().await {
        Ok(counts) => counts.pending + counts.active + counts.scheduled == 0,
        Err(_) => false,
    })
    .await;
    let worked = worked.lock().unwrap().clone();
    let missing = admitted.iter().filter(|id| !worked.contains_key(id)).count();
    assert_eq!(missing, 0);
    assert!(worker.totals().reconnects > 0);
    assert_eq!(worker.stop(PATIENCE).await.abandoned, 0);
    healthy(&queue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_in_flight_is_settled_after_the_crash() {
    let valkey = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let crew = Crew::closed();
    let worker = Worker::builder(&queue).lease(LONG).handler(crew.clone()).start().unwrap();
    let id = admit(&queue, "x").await;
    crew.next().await;
    valkey.kill9().unwrap();
    // The handler ends while there is no server to tell.
    crew.let_end(1);
    phase(&worker, Phase::Reconnecting).await;
    valkey.start_again().unwrap();
    until("the settlement", async || worker.totals().done == 1).await;
    assert_eq!(queue.get(id).await.unwrap(), None);
    assert_eq!(worker.totals().claimed, 1);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_settlement_whose_reply_was_lost_is_sent_again_and_was_decided() {
    let valkey = Valkey::start().unwrap();
    let proxy = Proxy::before(&valkey).await;
    let bus = Bus::connect(&proxy.url()).await.unwrap();
    let queue = bus.queue("work").unwrap();
    let crew = Crew::closed();
    let worker =
        Worker::builder(&queue).lease(LONG).beat(LONG / 2).handler(crew.clone()).start().unwrap();
    let id = admit(&queue, "x").await;
    crew.next().await;
    proxy.swallow_replies();
    crew.let_end(1);
    proxy.swallowed().await;
    // The server has run it by now.
    let row = queue.keys().job(&id);
    until("the run", async || valkey.cli(&["EXISTS", &row]).unwrap() == "0").await;
    assert_eq!(worker.totals().done + worker.totals().stale, 0);
    proxy.cut();
    until("the second answer", async || worker.totals().stale == 1).await;
    // The worker goes on.
    admit(&queue, "y").await;
    crew.next().await;
    crew.let_end(1);
    until("the next", async || worker.totals().done == 1).await;
    healthy(&queue).await;
}

#[tokio::test]
async fn a_claim_whose_reply_was_lost_costs_a_lease_and_no_blame() {
    let valkey = Valkey::start().unwrap();
    let proxy = Proxy::before(&valkey).await;
    let bus = Bus::connect(&proxy.url()).await.unwrap();
    let queue = bus.queue("work").unwrap();
    let crew = Crew::open();
    let worker = Worker::builder(&queue)
        .lease(Duration::from_millis(500))
        .handler(crew.clone())
        .start()
        .unwrap();
    phase(&worker, Phase::Parked).await;
    let id = admit(&bus.queue("other").unwrap(), "y").await;
    proxy.swallow_replies();
    // Another producer, which isn't behind the proxy.
    let direct = Bus::connect(&valkey.url()).await.unwrap();
    let lost = direct.queue("work").unwrap();
    let options = emq_core::EnqueueOptions::new().id(id);
    let _ = lost.enqueue_with("x", &options).await.unwrap();
    proxy.swallowed().await;
    proxy.cut();
    let started = crew.next().await;
    assert_eq!(started.id, id);
    until("the end", async || lost.get(id).await.unwrap().is_none()).await;
    drop(worker);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_worker_whose_server_became_anothers_fails_by_type() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let worker = Worker::builder(&queue).handler(Crew::open()).start().unwrap();
    phase(&worker, Phase::Parked).await;
    valkey.cli(&["SET", "{emq}:version", "echomq:9.9.9"]).unwrap();
    valkey.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
    phase(&worker, Phase::Failed).await;
    assert!(matches!(worker.error(), Some(Error::Refused(_))), "{:?}", worker.error());
    let refused = queue.enqueue("x").await;
    assert!(matches!(&refused, Err(Error::Refused(_) | Error::Minting(_))), "{refused:?}");
    let report = worker.stop(PATIENCE).await;
    assert_eq!(report.abandoned, 0);
}

#[tokio::test]
async fn a_worker_on_a_closed_bus_ends() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let beat = Duration::from_millis(20);
    let worker = Worker::builder(&queue).beat(beat).handler(Crew::open()).start().unwrap();
    phase(&worker, Phase::Parked).await;
    bus.close().await;
    phase(&worker, Phase::Failed).await;
    assert!(matches!(worker.error(), Some(Error::Closed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_may_start_while_its_server_is_down() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    valkey.kill9().unwrap();
    let crew = Crew::open();
    let worker = Worker::builder(&queue).handler(crew.clone()).start().unwrap();
    phase(&worker, Phase::Reconnecting).await;
    valkey.start_again().unwrap();
    phase(&worker, Phase::Parked).await;
    let id = admit(&queue, "x").await;
    assert_eq!(crew.next().await.id, id);
    healthy(&queue).await;
}
