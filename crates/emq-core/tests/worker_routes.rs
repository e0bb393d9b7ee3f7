//! Which handler works a job, what it knows of it, and what becomes of a job that none knows.

mod ground;

use std::time::Duration;

use bytes::Bytes;
use emq_core::{
    Codec, CodecError, EnqueueOptions, Job, JobError, JobState, Phase, Queue, Raw, Worker,
};
use emq_keys::BrandedId;
use ground::crew::Crew;
use ground::{LONG, PATIENCE, admit, healthy, phase, shared, soon, until};
use tokio::sync::mpsc;

async fn admit_kind(queue: &Queue, kind: &str, payload: &str) -> BrandedId {
    let options = EnqueueOptions::new().kind(kind);
    queue.enqueue_with(payload, &options).await.unwrap().id()
}

/// Upper case as it travels.
struct Loud;

impl Codec<String> for Loud {
    fn encode(value: &String) -> Result<Bytes, CodecError> {
        Ok(Bytes::from(value.to_uppercase()))
    }

    fn decode(payload: &Bytes) -> Result<String, CodecError> {
        let text = String::from_utf8(payload.to_vec()).map_err(CodecError::decode)?;
        Ok(text.to_lowercase())
    }
}

#[tokio::test]
async fn each_kind_has_its_own_handler_type_and_codec() {
    let (_bus, queue) = shared().await;
    let (told, mut heard) = mpsc::unbounded_channel::<String>();
    let (one, two, three, rest) = (told.clone(), told.clone(), told.clone(), told);
    let worker = Worker::builder(&queue)
        .route("pair", move |job: Job<(u8, String)>| {
            let told = one.clone();
            async move { Ok(told.send(format!("pair {} {}", job.payload.0, job.payload.1))?) }
        })
        .route("number", move |job: Job<u64>| {
            let told = two.clone();
            async move { Ok(told.send(format!("number {}", job.payload + 1))?) }
        })
        .route_with::<_, Loud, _>("loud", move |job: Job<String>| {
            let told = three.clone();
            async move { Ok(told.send(format!("{} {}", job.kind().unwrap(), job.payload))?) }
        })
        .handler(move |job: Job<Bytes>| {
            let told = rest.clone();
            async move { Ok(told.send(format!("rest {:?} {:?}", job.kind(), job.payload))?) }
        })
        .start()
        .unwrap();
    admit_kind(&queue, "pair", "[7,\"x\"]").await;
    admit_kind(&queue, "number", "41").await;
    admit_kind(&queue, "loud", "HELLO").await;
    admit_kind(&queue, "other", "o").await;
    admit(&queue, "n").await;
    let mut got = Vec::new();
    while got.len() < 5 {
        got.push(soon("a job", heard.recv()).await.unwrap());
    }
    got.sort();
    let wanted =
        ["loud hello", "number 42", "pair 7 x", "rest None b\"n\"", "rest Some(\"other\") b\"o\""];
    assert_eq!(got, wanted);
    // A payload that isn't the kind's is that job's end.
    let bad = admit_kind(&queue, "number", "none").await;
    until("the burial", async || queue.get(bad).await.unwrap().unwrap().state == JobState::Dead)
        .await;
    assert_eq!(worker.stop(PATIENCE).await.totals.done, 5);
}

#[tokio::test]
async fn a_job_of_an_unknown_kind_is_handed_back_without_blame_until_somebody_knows_it() {
    let (_bus, queue) = shared().await;
    let old = Worker::builder(&queue)
        .concurrency(1)
        .hold_aside(Duration::from_millis(20))
        .route("known", |_: Job<u8>| async { Ok(()) })
        .start()
        .unwrap();
    // Its own cap leaves it one attempt.
    let options = EnqueueOptions::new().kind("new").max_attempts(1);
    let new = queue.enqueue_with("x", &options).await.unwrap().id();
    until("three returns", async || old.totals().released >= 3).await;
    let record = queue.get(new).await.unwrap().unwrap();
    // The attempt under way counts, and no earlier one.
    assert!(record.failures() <= 1 && record.lost == 0, "{record:?}");
    assert_eq!(record.last_error, None);
    assert_ne!(record.state, JobState::Dead);
    // What it knows goes on beside it.
    let known = admit_kind(&queue, "known", "1").await;
    until("the known one", async || queue.get(known).await.unwrap().is_none()).await;
    let crew = Crew::open();
    let newer = Worker::builder(&queue)
        .concurrency(1)
        .route_with::<Bytes, Raw, _>("new", crew.clone())
        .start()
        .unwrap();
    assert_eq!(crew.next().await.id, new);
    until("its end", async || queue.get(new).await.unwrap().is_none()).await;
    assert!(old.totals().unknown >= 3);
    assert_eq!(old.totals().started, 1);
    old.stop(PATIENCE).await;
    newer.stop(PATIENCE).await;
    healthy(&queue).await;
}

#[tokio::test]
async fn what_is_held_aside_keeps_its_lease_takes_no_slot_and_goes_back_at_a_stop() {
    let (_bus, queue) = shared().await;
    let lease = Duration::from_millis(600);
    let crew = Crew::open();
    let worker = Worker::builder(&queue)
        .concurrency(2)
        .lease(lease)
        .hold_aside(LONG)
        .route_with::<Bytes, Raw, _>("known", crew.clone())
        .start()
        .unwrap();
    let unknown = admit(&queue, "of no kind").await;
    let also = admit_kind(&queue, "new", "x").await;
    until("both aside", async || worker.totals().unknown == 2).await;
    for n in 0..10 {
        let id = admit_kind(&queue, "known", &n.to_string()).await;
        assert_eq!(crew.next().await.id, id);
    }
    // Longer than a lease, by its own extensions: each is a third of one after the last.
    until("extensions", async || worker.totals().extended >= 8).await;
    for id in [unknown, also] {
        let record = queue.get(id).await.unwrap().unwrap();
        assert_eq!((record.state, record.attempts, record.lost), (JobState::Active, 1, 0));
    }
    let report = soon("the stop", worker.stop(LONG)).await;
    assert_eq!((report.released, report.abandoned), (2, 0));
    assert_eq!(queue.counts().await.unwrap().pending, 2);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_job_reads_what_its_producer_sent_along() {
    let (_bus, queue) = shared().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = Worker::builder(&queue)
        .handler(move |job: Job<Bytes>| {
            let told = told.clone();
            async move {
                let headers = job.headers().await?;
                Ok::<_, JobError>(told.send(headers)?)
            }
        })
        .start()
        .unwrap();
    let headers = r#"{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#;
    let options = EnqueueOptions::new().headers(headers);
    let _ = queue.enqueue_with("x", &options).await.unwrap();
    assert_eq!(soon("the job", heard.recv()).await.unwrap().as_deref(), Some(headers));
    admit(&queue, "y").await;
    assert_eq!(soon("the job", heard.recv()).await.unwrap(), None);
    worker.stop(PATIENCE).await;
}

#[tokio::test]
async fn a_worker_knows_its_pace() {
    let (_bus, queue) = shared().await;
    let worker = Worker::builder(&queue).handler(|_: Job<Bytes>| async { Ok(()) }).start().unwrap();
    phase(&worker, Phase::Parked).await;
    assert_eq!(worker.rates().done, 0.0);
    for n in 0..50 {
        admit(&queue, n.to_string()).await;
    }
    until("the end", async || worker.totals().done == 50).await;
    let rates = worker.rates();
    assert!(rates.done > 0.0 && rates.claimed > 0.0 && rates.failed == 0.0, "{rates:?}");
    // No more than all of them in the shortest time that a rate is of.
    assert!(rates.done <= 200.0, "{rates:?}");
}
