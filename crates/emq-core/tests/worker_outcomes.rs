//! What becomes of a job by what its handler does.

mod ground;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use emq_core::{
    Backoff, CancelReason, Cancelled, Codec, CodecError, EnqueueOptions, Handler, Job, JobError,
    JobRecord, JobState, Phase, Queue, Worker,
};
use emq_keys::BrandedId;
use ground::crew::Crew;
use ground::{LONG, PATIENCE, admit, phase, shared, soon, until};

/// Waits until a job is in a state.
async fn becomes(queue: &Queue, id: BrandedId, state: JobState) -> JobRecord {
    let mut record = None;
    until(&format!("{state}"), async || {
        record = queue.get(id).await.unwrap();
        record.as_ref().is_some_and(|record| record.state == state)
    })
    .await;
    record.unwrap()
}

async fn is_gone(queue: &Queue, id: BrandedId) {
    until("the end of the job", async || queue.get(id).await.unwrap().is_none()).await;
}

/// A worker whose jobs all end in one way.
fn ending(queue: &Queue, end: fn(u64) -> Result<(), JobError>) -> Worker {
    Worker::builder(queue)
        .backoff(Backoff::fixed(LONG))
        .handler(move |job: Job<Bytes>| async move { end(job.attempt()) })
        .start()
        .unwrap()
}

#[tokio::test]
async fn typed_jobs_are_worked_and_leave_nothing() {
    let (_bus, queue) = shared().await;
    let typed = queue.typed::<(u32, String)>();
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::builder(&typed)
        .handler(move |job: Job<(u32, String)>| {
            let told = told.clone();
            async move { Ok(told.send(job.payload.clone())?) }
        })
        .start()
        .unwrap();
    for n in 0..20 {
        let _ = typed.enqueue(&(n, format!("{n}"))).await.unwrap();
    }
    let mut got = Vec::new();
    while got.len() < 20 {
        got.push(soon("a job", heard.recv()).await.unwrap());
    }
    got.sort();
    assert_eq!(got, (0..20).map(|n| (n, format!("{n}"))).collect::<Vec<_>>());
    let report = worker.stop(PATIENCE).await;
    assert_eq!((report.totals.done, report.totals.claimed, report.abandoned), (20, 20, 0));
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.pending, counts.active, counts.scheduled, counts.dead), (0, 0, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_slots_are_used_and_never_more() {
    struct Counting {
        running: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
    }
    impl Handler<Bytes> for Counting {
        async fn run(&self, _job: Job<Bytes>) -> Result<(), JobError> {
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(running, Ordering::SeqCst);
            // Long enough that the others come, if they may.
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            self.running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    }
    let (_bus, queue) = shared().await;
    let crew = Crew::closed();
    let full = Worker::builder(&queue).concurrency(7).handler(crew.clone()).start().unwrap();
    for n in 0..300 {
        admit(&queue, n.to_string()).await;
    }
    for _ in 0..7 {
        crew.next().await;
    }
    assert_eq!(queue.counts().await.unwrap().active, 7);
    assert!(crew.is_quiet().await);
    crew.let_end(7);
    full.stop(PATIENCE).await;

    let most = Arc::new(AtomicUsize::new(0));
    let handler = Counting { running: Arc::default(), most: Arc::clone(&most) };
    let worker = Worker::builder(&queue).concurrency(7).handler(handler).start().unwrap();
    until("the end", async || {
        let counts = queue.counts().await.unwrap();
        counts.pending + counts.active == 0
    })
    .await;
    worker.stop(PATIENCE).await;
    assert!(most.load(Ordering::SeqCst) <= 7);
}

#[tokio::test]
async fn a_failure_is_kept_with_its_causes_and_tried_again_by_the_backoff() {
    #[derive(Debug, thiserror::Error)]
    #[error("no invoice")]
    struct NoInvoice(#[source] std::num::ParseIntError);
    let (_bus, queue) = shared().await;
    let id = admit(&queue, "x").await;
    let worker = ending(&queue, |_| Err(NoInvoice("x".parse::<u8>().unwrap_err()))?);
    let record = becomes(&queue, id, JobState::Scheduled).await;
    assert_eq!(record.last_error.unwrap(), "no invoice: invalid digit found in string");
    until("the count", async || worker.totals().retried == 1).await;
}

#[tokio::test]
async fn a_job_that_always_fails_is_dead_at_its_cap() {
    let (_bus, queue) = shared().await;
    let own = EnqueueOptions::new().max_attempts(2);
    let own = queue.enqueue_with("x", &own).await.unwrap().id();
    let usual = admit(&queue, "x").await;
    let worker = Worker::builder(&queue)
        .backoff(Backoff::fixed(Duration::ZERO))
        .max_attempts(4)
        .handler(|job: Job<Bytes>| async move {
            Err(JobError::new(format!("attempt {}", job.attempt())))
        })
        .start()
        .unwrap();
    for (id, attempts) in [(own, 2), (usual, 4)] {
        let record = becomes(&queue, id, JobState::Dead).await;
        assert_eq!(record.attempts, attempts);
        assert_eq!(record.last_error.unwrap(), format!("attempt {attempts}"));
    }
    until("the counts", async || worker.totals().dead == 2).await;
    assert_eq!(worker.totals().retried, 4);
}

#[tokio::test]
async fn a_handler_can_bury_postpone_or_hand_back() {
    let (bus, queue) = shared().await;
    let id = admit(&queue, "x").await;
    let worker = ending(&queue, |_| Err(JobError::dead("closed")));
    let record = becomes(&queue, id, JobState::Dead).await;
    assert_eq!((record.attempts, record.last_error.as_deref()), (1, Some("closed")));
    worker.stop(PATIENCE).await;

    let queue = bus.queue(ground::fresh_name()).unwrap();
    let id = admit(&queue, "x").await;
    // The worker's own backoff would bring the job back in ten minutes.
    let worker = ending(&queue, |attempt| match attempt {
        1 => Err(JobError::retry_after(Duration::from_millis(1), "busy")),
        _ => Ok(()),
    });
    is_gone(&queue, id).await;
    worker.stop(PATIENCE).await;

    let queue = bus.queue(ground::fresh_name()).unwrap();
    let id = admit(&queue, "x").await;
    let worker = ending(&queue, |attempt| match attempt {
        1..=30 => Err(JobError::release()),
        _ => Err(JobError::dead("enough")),
    });
    let record = becomes(&queue, id, JobState::Dead).await;
    assert_eq!((record.attempts, record.forgiven), (31, 30));
    assert_eq!(worker.totals().released, 30);
}

#[tokio::test]
async fn a_panic_is_that_jobs_failure_and_nobody_elses() {
    let (_bus, queue) = shared().await;
    let bad = admit(&queue, "bad").await;
    let worker = Worker::builder(&queue)
        .concurrency(1)
        .backoff(Backoff::fixed(LONG))
        .handler(|job: Job<Bytes>| async move {
            assert!(job.payload != "bad", "a bad one");
            Ok(())
        })
        .start()
        .unwrap();
    let record = becomes(&queue, bad, JobState::Scheduled).await;
    assert_eq!(record.last_error.unwrap(), "panicked: a bad one");
    let good = admit(&queue, "good").await;
    is_gone(&queue, good).await;
    until("the counts", async || worker.totals().done == 1).await;
    assert_eq!(worker.totals().panicked, 1);
}

#[tokio::test]
async fn words_and_a_backoff_that_panic_harm_nobody() {
    #[derive(Debug)]
    struct Speechless;
    impl std::fmt::Display for Speechless {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no words")
        }
    }
    impl std::error::Error for Speechless {}
    let (_bus, queue) = shared().await;
    let id = admit(&queue, "x").await;
    let worker = Worker::builder(&queue)
        .concurrency(1)
        .backoff(Backoff::custom(|_| panic!("no idea")))
        .handler(|_job: Job<Bytes>| async { Err(Speechless)? })
        .start()
        .unwrap();
    // The default backoff brings it back in a second or so.
    let mut record = None;
    until("the second attempt", async || {
        record = queue.get(id).await.unwrap();
        record.as_ref().is_some_and(|record| record.attempts >= 2)
    })
    .await;
    assert_eq!(record.unwrap().last_error.unwrap(), "panicked: no words");
    assert!(worker.totals().panicked >= 1);
}

/// A codec that doesn't take everything.
struct Picky;

impl Codec<u8> for Picky {
    fn encode(value: &u8) -> Result<Bytes, CodecError> {
        Ok(Bytes::copy_from_slice(&[*value]))
    }

    fn decode(payload: &Bytes) -> Result<u8, CodecError> {
        assert!(payload.len() < 3, "too long for me");
        match payload.as_ref() {
            [value] => Ok(*value),
            _ => Err(CodecError::decode("one byte is needed")),
        }
    }
}

#[tokio::test]
async fn a_payload_that_does_not_decode_is_dead_at_once_and_a_codec_may_panic() {
    let (_bus, queue) = shared().await;
    let worker = Worker::builder(queue.typed_with::<u8, Picky>())
        .backoff(Backoff::fixed(LONG))
        .handler(|_job: Job<u8>| async { Ok(()) })
        .start()
        .unwrap();
    let bad = admit(&queue, "xx").await;
    let record = becomes(&queue, bad, JobState::Dead).await;
    assert_eq!(record.attempts, 1);
    assert_eq!(record.last_error.unwrap(), "the payload doesn't decode: one byte is needed");
    let worse = admit(&queue, "xxx").await;
    let record = becomes(&queue, worse, JobState::Scheduled).await;
    assert_eq!(record.last_error.unwrap(), "panicked: too long for me");
    let good = admit(&queue, "x").await;
    is_gone(&queue, good).await;
    assert_eq!((worker.totals().undecodable, worker.totals().panicked), (1, 1));
}

#[tokio::test]
async fn a_handler_out_of_time_is_cancelled_and_tried_again() {
    let (_bus, queue) = shared().await;
    let crew = Crew::closed();
    let id = admit(&queue, "x").await;
    let worker = Worker::builder(&queue)
        .timeout(Duration::from_millis(30))
        .backoff(Backoff::fixed(LONG))
        .handler(crew.clone())
        .start()
        .unwrap();
    assert_eq!(crew.next_cancelled().await, CancelReason::Timeout);
    let record = becomes(&queue, id, JobState::Scheduled).await;
    assert_eq!(record.last_error.unwrap(), "timed out after 30ms: told to stop");
    until("the count", async || worker.totals().timed_out == 1).await;
}

#[tokio::test]
async fn a_handler_that_does_not_listen_is_dropped_at_its_next_await() {
    struct Dropped(tokio::sync::mpsc::UnboundedSender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (_bus, queue) = shared().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let id = admit(&queue, "x").await;
    let _worker = Worker::builder(&queue)
        .timeout(Duration::from_millis(20))
        .cancel_grace(Duration::from_millis(20))
        .backoff(Backoff::fixed(LONG))
        .handler(move |_job: Job<Bytes>| {
            let dropped = Dropped(told.clone());
            async move {
                std::future::pending::<()>().await;
                drop(dropped);
                Ok(())
            }
        })
        .start()
        .unwrap();
    soon("the drop", heard.recv()).await.unwrap();
    let record = becomes(&queue, id, JobState::Scheduled).await;
    assert_eq!(record.last_error.unwrap(), "timed out after 20ms");
}

#[tokio::test]
async fn a_job_that_is_called_off_while_it_runs_is_gone() {
    let (_bus, queue) = shared().await;
    let crew = Crew::closed();
    let worker = Worker::builder(&queue)
        .lease(Duration::from_millis(600))
        .handler(crew.clone())
        .start()
        .unwrap();
    let id = admit(&queue, "x").await;
    crew.next().await;
    assert_eq!(queue.cancel(id).await.unwrap(), Cancelled::Asked);
    assert_eq!(crew.next_cancelled().await, CancelReason::Asked);
    is_gone(&queue, id).await;
    until("the count", async || worker.totals().cancelled == 1).await;
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.active, counts.pending, counts.dead), (0, 0, 0));
}

#[tokio::test]
async fn saving_progress_tells_of_a_cancel_and_the_next_attempt_gets_it() {
    let (_bus, queue) = shared().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let _worker = Worker::builder(&queue)
        .backoff(Backoff::fixed(Duration::ZERO))
        .handler(move |job: Job<Bytes>| {
            let told = told.clone();
            async move {
                match job.checkpoint() {
                    None => {
                        job.save(b"page 7").await?;
                        Err(JobError::new("crash"))
                    }
                    Some(page) => {
                        told.send(page.clone())?;
                        let off = job.queue().cancel(job.id()).await?;
                        assert_eq!(off, Cancelled::Asked);
                        assert!(!job.cancelled().is_cancelled());
                        job.save(b"page 8").await?;
                        job.cancelled().cancelled().await;
                        Err(JobError::new("stopped"))
                    }
                }
            }
        })
        .start()
        .unwrap();
    let id = admit(&queue, "x").await;
    assert_eq!(soon("the page", heard.recv()).await.unwrap(), "page 7");
    is_gone(&queue, id).await;
}

#[tokio::test]
async fn a_worker_out_of_range_is_refused() {
    let (_bus, queue) = shared().await;
    let builder = || Worker::builder(&queue).handler(|_job: Job<Bytes>| async { Ok(()) });
    for wrong in [
        builder().concurrency(0),
        builder().lease(Duration::from_millis(1)),
        builder().lease(Duration::MAX),
        builder().beat(Duration::ZERO),
        builder().max_attempts(0),
        builder().lost_cap(0),
    ] {
        assert!(matches!(wrong.start(), Err(emq_core::Error::Setting { .. })));
    }
}

#[tokio::test]
async fn a_worker_says_what_it_does() {
    let (_bus, queue) = shared().await;
    let crew = Crew::closed();
    let worker = Worker::builder(&queue).handler(crew.clone()).start().unwrap();
    phase(&worker, Phase::Parked).await;
    admit(&queue, "x").await;
    let started = crew.next().await;
    let mut status = worker.status();
    soon("one in flight", status.wait_for(|status| status.in_flight == 1)).await.unwrap();
    phase(&worker, Phase::Running).await;
    let holder = queue.get(started.id).await.unwrap().unwrap().holder.unwrap();
    assert_eq!(holder.split('.').next().unwrap(), worker.incarnation());
    crew.let_end(1);
    phase(&worker, Phase::Parked).await;
    let mut status = worker.status();
    worker.stop(PATIENCE).await;
    assert_eq!(status.borrow_and_update().phase, Phase::Stopped);
}
