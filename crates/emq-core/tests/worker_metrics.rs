//! What workers and producers tell the `metrics` facade.

mod ground;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use emq_core::{Backoff, Durability, EnqueueOptions, Job, JobError, NewJob, Worker};
use ground::{PATIENCE, admit, shared, until};
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Keeps what is told, by name.
#[derive(Clone, Default)]
struct Kept {
    numbers: Arc<Mutex<HashMap<String, Arc<AtomicU64>>>>,
    samples: Arc<Mutex<HashMap<String, Arc<Samples>>>>,
}

#[derive(Default)]
struct Samples(Mutex<Vec<f64>>);

impl HistogramFn for Samples {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

impl Kept {
    fn number(&self, key: &Key) -> Arc<AtomicU64> {
        assert!(key.labels().any(|label| label.key() == "queue"), "{key}");
        Arc::clone(self.numbers.lock().unwrap().entry(key.name().to_owned()).or_default())
    }

    fn counted(&self, name: &str) -> u64 {
        self.numbers.lock().unwrap()[name].load(Ordering::SeqCst)
    }

    fn sampled(&self, name: &str) -> Vec<f64> {
        self.samples.lock().unwrap()[name].0.lock().unwrap().clone()
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.number(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.number(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut samples = self.samples.lock().unwrap();
        Histogram::from_arc(Arc::clone(samples.entry(key.name().to_owned()).or_default()))
    }
}

#[tokio::test]
async fn a_worker_tells_what_it_does() {
    let (_bus, queue) = shared().await;
    let kept = Kept::default();
    let worker = metrics::with_local_recorder(&kept, || {
        Worker::builder(&queue)
            .backoff(Backoff::fixed(Duration::ZERO))
            .handler(|job: Job<Bytes>| async move {
                match (job.payload.as_ref(), job.attempt()) {
                    (b"again", 1) => Err(JobError::new("again")),
                    (b"dead", _) => Err(JobError::dead("dead")),
                    _ => Ok(()),
                }
            })
            .start()
            .unwrap()
    });
    for payload in ["again", "dead", "done"] {
        admit(&queue, payload).await;
    }
    until("the end", async || worker.totals().done == 2 && worker.totals().dead == 1).await;
    let report = worker.stop(PATIENCE).await;
    assert_eq!(report.abandoned, 0);
    for (name, wanted) in [
        ("emq_jobs_started_total", 4),
        ("emq_jobs_done_total", 2),
        ("emq_jobs_retried_total", 1),
        ("emq_jobs_dead_total", 1),
        ("emq_jobs_lost_total", 0),
        ("emq_jobs_stale_total", 0),
        ("emq_worker_reconnects_total", 0),
        ("emq_worker_parks_total", report.totals.parks),
        ("emq_worker_wakes_total", report.totals.wakes),
    ] {
        assert_eq!(kept.counted(name), wanted, "{name}");
    }
    assert_eq!(f64::from_bits(kept.counted("emq_jobs_in_flight")), 0.0);
    assert_eq!(kept.sampled("emq_job_run_seconds").len(), 4);
    let waits = kept.sampled("emq_job_wait_seconds");
    assert!(waits.len() == 3 && waits.iter().all(|wait| *wait >= 0.0), "{waits:?}");
}

#[tokio::test]
async fn a_worker_tells_what_its_turns_moved() {
    let (_bus, queue) = shared().await;
    let short = Duration::from_millis(1);
    // One was lost once, one is lost for the second time: the worker's cap.
    admit(&queue, "twice").await;
    assert!(queue.claim(short).await.unwrap().is_some());
    until("the reaper", async || queue.reap(10, 10).await.unwrap().returned == 1).await;
    assert!(queue.claim(short).await.unwrap().is_some());
    admit(&queue, "once").await;
    assert!(queue.claim(short).await.unwrap().is_some());
    for payload in ["later", "later too"] {
        let options = EnqueueOptions::new().delay(Duration::from_millis(5));
        let _ = queue.enqueue_with(payload, &options).await.unwrap();
    }
    let kept = Kept::default();
    let worker = metrics::with_local_recorder(&kept, || {
        let builder = Worker::builder(&queue).lost_cap(2);
        builder.handler(|_: Job<Bytes>| async { Ok(()) }).start().unwrap()
    });
    until("the end", async || worker.totals().done == 3 && worker.totals().buried == 1).await;
    let totals = worker.stop(PATIENCE).await.totals;
    assert_eq!((totals.returned, totals.buried, totals.promoted), (1, 1, 2));
    // Those that others lost are none that it failed or lost.
    assert_eq!((totals.dead, totals.lost), (0, 0));
    for (name, wanted) in [
        ("emq_jobs_returned_total", 1),
        ("emq_jobs_buried_total", 1),
        ("emq_jobs_promoted_total", 2),
    ] {
        assert_eq!(kept.counted(name), wanted, "{name}");
    }
}

#[tokio::test]
async fn a_producer_tells_what_it_admits() {
    let (bus, queue) = shared().await;
    let kept = Kept::default();
    // The runtime has one thread: all that is awaited here tells this recorder.
    let _told = metrics::set_default_local_recorder(&kept);
    let lane = queue.lane(ground::raw::tenant("acme"));
    let first = admit(&queue, "flat").await;
    let again = EnqueueOptions::new().id(first);
    let _ = queue.enqueue_with("flat", &again).await.unwrap();
    let _ = lane.enqueue("laned").await.unwrap();
    let _ = lane.enqueue_in("later", PATIENCE).await.unwrap();
    let unique = EnqueueOptions::new().unique("key");
    let _ = queue.enqueue_with("holds", &unique).await.unwrap();
    let _ = queue.enqueue_with("is held off", &unique).await.unwrap();
    assert_eq!(kept.counted("emq_jobs_admitted_total"), 4);
    assert_eq!(kept.counted("emq_jobs_duplicate_total"), 2);

    let mut list = vec![NewJob::new(first, "flat")];
    for _ in 0..500 {
        list.push(NewJob::new(bus.mint_job().await.unwrap(), "x"));
    }
    list.push(NewJob::new(lane.id(), "no job's id"));
    let _ = queue.enqueue_many(&list).await.unwrap();
    assert_eq!(kept.counted("emq_jobs_admitted_total"), 504);
    assert_eq!(kept.counted("emq_jobs_duplicate_total"), 3);

    // No replica confirms it: it was admitted all the same.
    let within = Duration::from_millis(20);
    let builder = ground::builder_on(emq_testkit::Valkey::of_this_process());
    let bus = builder.durable_within(within).connect().await.unwrap();
    let queue = bus.queue(queue.name()).unwrap();
    let replicated = EnqueueOptions::new().durability(Durability::Replicated(1));
    let _ = queue.enqueue_with("durable", &replicated).await.unwrap();
    assert_eq!(kept.counted("emq_jobs_admitted_total"), 505);
}
