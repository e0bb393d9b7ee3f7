//! Stopping: a drain with a deadline.

mod ground;

use std::time::Duration;

use bytes::Bytes;
use emq_core::{CancelReason, Job, JobError, JobState, NewJob, Phase, Worker};
use emq_testkit::Valkey;
use ground::crew::Crew;
use ground::{LONG, PATIENCE, admit, bus_on, healthy, phase, shared, soon, until};

#[tokio::test]
async fn a_stop_lets_handlers_end_and_claims_nothing_more() {
    let (_bus, queue) = shared().await;
    let crew = Crew::closed();
    let worker = Worker::builder(&queue).concurrency(3).handler(crew.clone()).start().unwrap();
    for n in 0..3 {
        admit(&queue, n.to_string()).await;
        crew.next().await;
    }
    let stopping = tokio::spawn(worker.stop(PATIENCE));
    tokio::task::yield_now().await;
    let late = admit(&queue, "late").await;
    crew.let_end(4);
    let report = soon("the stop", stopping).await.unwrap();
    assert_eq!((report.finished, report.released, report.abandoned), (3, 0, 0));
    assert!(report.took < PATIENCE);
    assert_eq!(queue.get(late).await.unwrap().unwrap().state, JobState::Pending);
    assert!(crew.is_quiet().await);
    healthy(&queue).await;
}

#[tokio::test]
async fn an_idle_stop_is_not_held_up_by_its_park() {
    let (_bus, queue) = shared().await;
    let worker = Worker::builder(&queue)
        .lease(LONG)
        .beat(2 * PATIENCE)
        .handler(Crew::open())
        .start()
        .unwrap();
    phase(&worker, Phase::Parked).await;
    let report = soon("the stop", worker.stop(LONG)).await;
    assert_eq!((report.finished, report.released, report.abandoned), (0, 0, 0));
    healthy(&queue).await;
}

#[tokio::test]
async fn what_cannot_end_in_time_is_handed_back_at_once_and_without_blame() {
    let (_bus, queue) = shared().await;
    let crew = Crew::closed();
    let worker =
        Worker::builder(&queue).concurrency(200).lease(LONG).handler(crew.clone()).start().unwrap();
    for n in 0..200 {
        admit(&queue, n.to_string()).await;
    }
    for _ in 0..200 {
        crew.next().await;
    }
    let report = worker.stop(Duration::from_secs(2)).await;
    assert_eq!((report.finished, report.released, report.abandoned), (0, 200, 0));
    assert_eq!(crew.next_cancelled().await, CancelReason::Stopping);
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.pending, counts.active), (200, 0));
    let lease = queue.claim(LONG).await.unwrap().unwrap();
    assert_eq!(lease.token(), 2);
    assert_eq!(queue.get(lease.id()).await.unwrap().unwrap().failures(), 1);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_handler_that_hears_of_the_stop_saves_and_hands_back() {
    let (_bus, queue) = shared().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::builder(&queue)
        .handler(move |job: Job<Bytes>| {
            let told = told.clone();
            async move {
                told.send(())?;
                job.stopping().cancelled().await;
                job.save(b"half").await?;
                Err(JobError::release())
            }
        })
        .start()
        .unwrap();
    let id = admit(&queue, "x").await;
    soon("the job", heard.recv()).await.unwrap();
    let report = soon("the stop", worker.stop(LONG)).await;
    assert_eq!((report.finished, report.released, report.abandoned), (0, 1, 0));
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!(record.checkpoint.as_deref(), Some(b"half".as_slice()));
    assert_eq!((record.state, record.forgiven), (JobState::Pending, 1));
    healthy(&queue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_by_its_deadline_when_the_server_does_not_answer() {
    for dead in [false, true] {
        let valkey = Valkey::start().unwrap();
        let (_bus, queue) = bus_on(&valkey).await;
        let crew = Crew::closed();
        let worker = Worker::builder(&queue)
            .concurrency(200)
            .lease(LONG)
            .handler(crew.clone())
            .start()
            .unwrap();
        for n in 0..220 {
            admit(&queue, n.to_string()).await;
        }
        for _ in 0..200 {
            crew.next().await;
        }
        if dead {
            valkey.kill9().unwrap();
        } else {
            valkey.pause().unwrap();
        }
        // Ten handlers end, and can't say so; the others can't hand back.
        crew.let_end(10);
        let report = soon("the stop", worker.stop(Duration::from_millis(600))).await;
        assert_eq!((report.finished, report.released, report.abandoned), (0, 0, 200), "{dead}");
    }
}

#[tokio::test]
async fn a_stop_without_grace_tries_to_hand_back_all_the_same() {
    let (_bus, queue) = shared().await;
    let crew = Crew::closed();
    let worker = Worker::builder(&queue).lease(LONG).handler(crew.clone()).start().unwrap();
    let id = admit(&queue, "x").await;
    crew.next().await;
    let report = soon("the stop", worker.stop(Duration::ZERO)).await;
    // A quarter of a second is enough here, unless the machine is asleep.
    assert_eq!((report.finished, report.released + report.abandoned), (0, 1));
    let wanted = if report.released == 1 { JobState::Pending } else { JobState::Active };
    assert_eq!(queue.get(id).await.unwrap().unwrap().state, wanted);
    healthy(&queue).await;
}

#[tokio::test]
async fn after_a_stop_every_job_is_done_or_may_be_claimed_at_once() {
    let (bus, queue) = shared().await;
    let mut list = Vec::new();
    for n in 0..3_000 {
        list.push(NewJob::new(bus.mint_job().await.unwrap(), n.to_string()));
    }
    assert_eq!(queue.enqueue_many(&list).await.unwrap().len(), list.len());
    let mut done = 0;
    for round in 1..=8 {
        let worker = Worker::builder(&queue)
            .concurrency(40)
            .lease(LONG)
            .handler(move |job: Job<Bytes>| async move {
                // Some take their time, and are handed back: fewer than there are slots, else those
                // that came back, which are the oldest, would fill them all.
                if job.payload.ends_with(b"00") {
                    job.cancelled().cancelled().await;
                    return Err(JobError::new("told to stop"));
                }
                Ok(())
            })
            .start()
            .unwrap();
        let idle = async || queue.counts().await.unwrap().pending == 0;
        until("some work", async || worker.totals().done > 5 * round || idle().await).await;
        let report = worker.stop(Duration::from_millis(500)).await;
        assert_eq!(report.abandoned, 0, "{report:?}");
        assert_eq!(report.totals.claimed, report.totals.done + report.totals.released);
        done += report.totals.done;
        let counts = queue.counts().await.unwrap();
        assert_eq!((counts.active, counts.scheduled, counts.dead), (0, 0, 0));
        assert_eq!(counts.pending + done, 3_000);
    }
    healthy(&queue).await;
}
