//! `enqueue_many`: chunks, verdicts, and a connection that is lost in the middle of a list.

mod ground;

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use emq_core::{
    Bus, Durability, EnqueueOptions, Error, JobState, ManyError, NewJob, Queue, Verdict,
};
use emq_keys::{BrandedId, namespace};
use emq_testkit::{Fsync, Valkey};
use ground::{LONG, bus_on, shared, until};

async fn jobs(bus: &Bus, n: usize) -> Vec<NewJob> {
    let mut jobs = Vec::with_capacity(n);
    for at in 0..n {
        jobs.push(NewJob::new(bus.mint_job().await.unwrap(), at.to_string()));
    }
    jobs
}

#[tokio::test]
async fn a_long_list_is_enqueued_in_chunks_and_answered_in_order() {
    let (bus, queue) = shared().await;
    let list = jobs(&bus, 1_001).await;
    let before = bus.counters();
    let verdicts = queue.enqueue_many(&list).await.unwrap();
    let admitted: Vec<Verdict> = list.iter().map(|job| Verdict::Admitted(job.id())).collect();
    assert_eq!(verdicts, admitted);
    assert_eq!(bus.counters().evalsha_calls - before.evalsha_calls, 3);
    assert_eq!(queue.depth().await.unwrap(), 1_001);
    let again = queue.enqueue_many(&list).await.unwrap();
    assert!(again.iter().all(|verdict| matches!(verdict, Verdict::Duplicate(_))));
    assert_eq!(queue.enqueue_many(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn a_list_is_cut_by_bytes_too() {
    let (bus, queue) = shared().await;
    let mut list = Vec::new();
    for _ in 0..40 {
        list.push(NewJob::new(bus.mint_job().await.unwrap(), vec![b'x'; 60 * 1024]));
    }
    let before = bus.counters();
    assert_eq!(queue.enqueue_many(&list).await.unwrap().len(), 40);
    // 17 of them are a mebibyte.
    assert_eq!(bus.counters().evalsha_calls - before.evalsha_calls, 3);
}

#[tokio::test]
async fn each_job_has_a_verdict_of_its_own() {
    let (bus, queue) = shared().await;
    let held = queue.enqueue_with("x", &EnqueueOptions::new().unique("k")).await.unwrap().id();
    let mut list = jobs(&bus, 4).await;
    let no_job = bus.mint(namespace!("ORD")).await.unwrap();
    list.push(NewJob::new(no_job, "x"));
    list[1] = list[1].clone().with(EnqueueOptions::new().unique("k").kind("k"));
    list[2] = list[2].clone().with(EnqueueOptions::new().delay(LONG));
    let at = SystemTime::now() + LONG;
    list[3] = list[3].clone().with(EnqueueOptions::new().at(at));
    let ids: Vec<BrandedId> = list.iter().map(NewJob::id).collect();
    assert_eq!(
        queue.enqueue_many(&list).await.unwrap(),
        [
            Verdict::Admitted(ids[0]),
            Verdict::Held { id: ids[1], by: held },
            Verdict::Admitted(ids[2]),
            Verdict::Admitted(ids[3]),
            Verdict::Kind(ids[4]),
        ]
    );
    for id in [ids[2], ids[3]] {
        assert_eq!(queue.get(id).await.unwrap().unwrap().state, JobState::Scheduled);
    }
}

#[tokio::test]
async fn one_payload_over_the_cap_stops_the_list_before_the_wire() {
    let (bus, queue) = shared().await;
    let mut list = jobs(&bus, 500).await;
    list.push(NewJob::new(bus.mint_job().await.unwrap(), vec![0; 64 * 1024 + 1]));
    let error = queue.enqueue_many(&list).await.unwrap_err();
    assert!(matches!(error.cause, Error::PayloadTooLarge { .. }) && !error.is_retryable());
    assert_eq!((error.known.len(), error.in_doubt.len()), (0, 0));
    assert_eq!(error.not_sent.len(), 501);
    assert_eq!(queue.depth().await.unwrap(), 0);
}

/// Sends a list until several chunks were answered, kills the server, and answers the error.
async fn lose_the_server(valkey: &Valkey, bus: &Bus, queue: &Queue, list: &[NewJob]) -> ManyError {
    let before = bus.counters().replies;
    let mut call = pin!(queue.enqueue_many(list));
    // Nothing more is sent while the call isn't polled: at most three chunks are under way.
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(outcome) => panic!("ended early: {outcome:?}"),
        Poll::Pending if bus.counters().replies - before >= 5 => Poll::Ready(()),
        Poll::Pending => Poll::Pending,
    })
    .await;
    valkey.kill9().unwrap();
    *call.await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_lost_in_the_middle_of_a_list_leaves_three_clear_parts_and_a_safe_resend() {
    let valkey = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let list = jobs(&bus, 40_000).await;
    let error = lose_the_server(&valkey, &bus, &queue, &list).await;
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.known.len() >= 800, "{error}");
    assert!(error.in_doubt.len() <= 1_200, "{error}");
    assert!(error.not_sent.len() >= 30_000, "{error}");

    let mut parts: Vec<BrandedId> = error.known.iter().map(|verdict| verdict.id()).collect();
    parts.extend(&error.in_doubt);
    parts.extend(&error.not_sent);
    let ids: Vec<BrandedId> = list.iter().map(NewJob::id).collect();
    assert_eq!(parts.iter().collect::<HashSet<_>>(), ids.iter().collect::<HashSet<_>>());
    assert_eq!(parts.len(), ids.len());

    valkey.start_again().unwrap();
    let mut verdicts = Vec::new();
    until("the resend", async || {
        let outcome = queue.enqueue_many(&list).await;
        outcome.map(|all| verdicts = all).is_ok()
    })
    .await;
    // What was known is there still; the rest was or is admitted; nothing is there twice.
    let known: HashSet<BrandedId> = error.known.iter().map(|verdict| verdict.id()).collect();
    for verdict in &verdicts {
        match verdict {
            Verdict::Duplicate(_) => {}
            Verdict::Admitted(id) => assert!(!known.contains(id)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(queue.depth().await.unwrap(), 40_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_durable_list_is_acknowledged_and_survives_a_crash() {
    let valkey = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let list = jobs(&bus, 1_000).await;
    let verdicts = queue.enqueue_many_with(&list, Durability::Fsynced).await.unwrap();
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Admitted(_))));
    valkey.kill9().unwrap();
    valkey.start_again().unwrap();
    until("the reconnect", async || queue.depth().await.is_ok()).await;
    assert_eq!(queue.depth().await.unwrap(), 1_000);
    let again = queue.enqueue_many_with(&list, Durability::Fsynced).await.unwrap();
    assert!(again.iter().all(|verdict| matches!(verdict, Verdict::Duplicate(_))));
}

#[tokio::test]
async fn a_list_without_a_replica_to_confirm_it_is_unconfirmed() {
    let valkey = Valkey::start().unwrap();
    let within = Duration::from_millis(20);
    let bus = ground::builder_on(&valkey).durable_within(within).connect().await.unwrap();
    let queue = bus.queue("work").unwrap();
    let list = jobs(&bus, 2).await;
    let verdicts = queue.enqueue_many_with(&list, Durability::Replicated(1)).await.unwrap();
    let unconfirmed: Vec<Verdict> = list.iter().map(|job| Verdict::Unconfirmed(job.id())).collect();
    assert_eq!(verdicts, unconfirmed);
    assert_eq!(queue.depth().await.unwrap(), 2);
}
