//! Parking: nothing is sent while there is nothing to do, and work starts at once when there is.
//!
//! The beat of these workers is a minute, twice as long as a test waits: whatever starts was not
//! found by a beat.

mod ground;

use std::time::{Duration, Instant};

use emq_core::{Error, Job, JobError, NewJob, Phase, Queue, Worker, WorkerBuilder};
use emq_testkit::Valkey;
use ground::crew::Crew;
use ground::{LONG, PATIENCE, admit, bus_on, calls, commands, healthy, phase, shared, soon, until};

fn parking(queue: &Queue, concurrency: usize, crew: &Crew) -> Worker {
    slow_beat(Worker::builder(queue))
        .concurrency(concurrency)
        .handler(crew.clone())
        .start()
        .unwrap()
}

fn slow_beat<T: Send + 'static, C: emq_core::Codec<T>>(
    builder: WorkerBuilder<T, C>,
) -> WorkerBuilder<T, C> {
    builder.lease(LONG).beat(2 * PATIENCE)
}

#[tokio::test]
async fn an_idle_worker_sends_nothing() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    // What the counting itself costs.
    let first = commands(&valkey);
    let cost = commands(&valkey) - first;
    let workers: Vec<Worker> = (0..5).map(|_| parking(&queue, 10, &Crew::open())).collect();
    for worker in &workers {
        phase(worker, Phase::Parked).await;
    }
    until("all parks", async || {
        valkey.cli(&["INFO", "clients"]).unwrap().contains("blocked_clients:5")
    })
    .await;
    let before = commands(&valkey);
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(commands(&valkey) - before, cost);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_parked_worker_starts_an_admitted_job_at_once() {
    let (_bus, queue) = shared().await;
    let crew = Crew::open();
    let worker = parking(&queue, 1, &crew);
    for n in 0..20 {
        phase(&worker, Phase::Parked).await;
        let id = admit(&queue, n.to_string()).await;
        assert_eq!(crew.next().await.id, id);
    }
    assert!(worker.totals().wakes >= 20);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_burst_wakes_as_many_as_there_is_work_for() {
    let (bus, queue) = shared().await;
    let crew = Crew::closed();
    let workers: Vec<Worker> = (0..8).map(|_| parking(&queue, 1, &crew)).collect();
    for worker in &workers {
        phase(worker, Phase::Parked).await;
    }
    let mut list = Vec::new();
    for _ in 0..8 {
        list.push(NewJob::new(bus.mint_job().await.unwrap(), "x"));
    }
    assert_eq!(queue.enqueue_many(&list).await.unwrap().len(), 8);
    // None ends before all have started.
    for _ in 0..8 {
        crew.next().await;
    }
    crew.let_end(8);
    healthy(&queue).await;
}

#[tokio::test]
async fn one_admission_after_the_other_reaches_a_hand_while_the_rest_are_full() {
    let (_bus, queue) = shared().await;
    let crew = Crew::closed();
    let workers: Vec<Worker> = (0..3).map(|_| parking(&queue, 2, &crew)).collect();
    for worker in &workers {
        phase(worker, Phase::Parked).await;
    }
    for n in 0..6 {
        let id = admit(&queue, n.to_string()).await;
        assert_eq!(crew.next().await.id, id);
    }
    // All six hands are full: the seventh waits, and is served when one is free.
    let seventh = admit(&queue, "7").await;
    crew.let_end(1);
    assert_eq!(crew.next().await.id, seventh);
    healthy(&queue).await;
}

#[tokio::test]
async fn each_transition_to_runnable_wakes() {
    let (_bus, queue) = shared().await;
    let crew = Crew::open();
    let worker = parking(&queue, 1, &crew);
    let parked = async || phase(&worker, Phase::Parked).await;

    // Paused, filled, resumed.
    parked().await;
    queue.pause().await.unwrap();
    let id = admit(&queue, "paused").await;
    until("the token was taken", async || worker.totals().wakes >= 1).await;
    assert!(crew.is_quiet().await);
    queue.resume().await.unwrap();
    assert_eq!(crew.next().await.id, id);

    // Released: taken by hand while the queue is paused for the worker is not possible, so the
    // worker is stopped first.
    parked().await;
    worker.stop(PATIENCE).await;
    let id = admit(&queue, "released").await;
    let released = queue.claim(LONG).await.unwrap().unwrap();
    let dead = admit(&queue, "requeued").await;
    let lease = queue.claim(LONG).await.unwrap().unwrap();
    let died = lease.retry(&emq_core::Failure::new("no").dead()).await.unwrap();
    assert_eq!(died, emq_core::Retried::Dead);
    let worker = parking(&queue, 1, &crew);
    phase(&worker, Phase::Parked).await;
    released.release().await.unwrap();
    assert_eq!(crew.next().await.id, id);
    phase(&worker, Phase::Parked).await;
    queue.morgue().requeue(dead).await.unwrap();
    assert_eq!(crew.next().await.id, dead);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_delayed_job_starts_at_its_time() {
    let (_bus, queue) = shared().await;
    let crew = Crew::open();
    let worker = parking(&queue, 1, &crew);
    phase(&worker, Phase::Parked).await;
    let far = queue.enqueue_in("far", LONG).await.unwrap().id();
    for delay_ms in [300, 100, 1] {
        phase(&worker, Phase::Parked).await;
        let delay = Duration::from_millis(delay_ms);
        let begun = Instant::now();
        let id = queue.enqueue_in("near", delay).await.unwrap().id();
        assert_eq!(crew.next().await.id, id);
        // The server rounds its clock down to milliseconds.
        assert!(begun.elapsed() + Duration::from_millis(1) >= delay, "{:?}", begun.elapsed());
    }
    assert!(queue.get(far).await.unwrap().is_some());
    healthy(&queue).await;
}

#[tokio::test]
async fn a_delayed_job_does_not_wait_for_a_busy_worker_to_be_idle() {
    let (bus, queue) = shared().await;
    let delayed = queue.enqueue_in("delayed", Duration::from_millis(100)).await.unwrap().id();
    let mut backlog = Vec::new();
    for _ in 0..2_000 {
        backlog.push(NewJob::new(bus.mint_job().await.unwrap(), "x"));
    }
    assert_eq!(queue.enqueue_many(&backlog).await.unwrap().len(), 2_000);
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let worker = slow_beat(Worker::builder(&queue))
        .concurrency(1)
        .handler(move |job: Job<bytes::Bytes>| {
            let told = told.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(told.send(job.id())?)
            }
        })
        .start()
        .unwrap();
    // It is older than the backlog, so it is served as soon as it was promoted.
    soon("the delayed job", async { while heard.recv().await.unwrap() != delayed {} }).await;
    assert!(queue.depth().await.unwrap() > 0);
    drop(worker);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_retried_job_starts_at_its_time() {
    let (_bus, queue) = shared().await;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let _worker = slow_beat(Worker::builder(&queue))
        .backoff(emq_core::Backoff::fixed(Duration::from_millis(50)))
        .handler(move |job: Job<bytes::Bytes>| {
            let told = told.clone();
            async move {
                told.send((job.attempt(), Instant::now()))?;
                if job.attempt() < 4 { Err(JobError::new("again")) } else { Ok(()) }
            }
        })
        .start()
        .unwrap();
    admit(&queue, "x").await;
    let (_, mut last) = soon("the first", heard.recv()).await.unwrap();
    for attempt in 2..=4 {
        let (number, at) = soon("the next", heard.recv()).await.unwrap();
        assert_eq!(number, attempt);
        assert!(at - last + Duration::from_millis(1) >= Duration::from_millis(50));
        last = at;
    }
    healthy(&queue).await;
}

#[tokio::test]
async fn a_delayed_job_is_promoted_by_a_worker_that_is_full() {
    let (_bus, queue) = shared().await;
    let (busy, idle) = (Crew::closed(), Crew::open());
    let full = parking(&queue, 1, &busy);
    admit(&queue, "busy").await;
    busy.next().await;
    // Its look at the schedule comes with its next claim; the only hand of the queue is full.
    let id = queue.enqueue_in("due", Duration::from_millis(50)).await.unwrap().id();
    let other = parking(&queue, 1, &idle);
    assert_eq!(idle.next().await.id, id);
    busy.let_end(1);
    drop((full, other));
    healthy(&queue).await;
}

#[tokio::test]
async fn a_lease_that_was_lost_before_is_reaped_at_its_end() {
    let (_bus, queue) = shared().await;
    let id = admit(&queue, "x").await;
    let lost = queue.claim(Duration::from_millis(150)).await.unwrap().unwrap();
    let crew = Crew::closed();
    let worker = parking(&queue, 1, &crew);
    let started = crew.next().await;
    assert_eq!((started.id, started.token), (id, 2));
    let late = lost.complete().await;
    assert!(matches!(late, Err(Error::Stale { .. })), "{late:?}");
    assert_eq!(queue.get(id).await.unwrap().unwrap().lost, 1);
    crew.let_end(1);
    until("the end", async || worker.totals().done == 1).await;
    healthy(&queue).await;
}

/// How many wake tokens stand.
fn tokens(valkey: &Valkey, queue: &Queue) -> String {
    valkey.cli(&["LLEN", queue.keys().wake()]).unwrap()
}

#[tokio::test]
async fn a_worker_that_is_woken_while_it_is_full_passes_the_wake_on() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let crew = Crew::closed();
    let worker = parking(&queue, 2, &crew);
    phase(&worker, Phase::Parked).await;
    admit(&queue, "0").await;
    crew.next().await;
    // Work that no token tells of: the queue is resumed behind everybody's back.
    queue.pause().await.unwrap();
    for n in 1..=4 {
        admit(&queue, n.to_string()).await;
    }
    until("a park", async || is_parked(&valkey) && tokens(&valkey, &queue) == "0").await;
    valkey.cli(&["HDEL", queue.keys().meta(), "paused"]).unwrap();
    let before = worker.totals();
    // The turn that settles this one fills the worker, which is parked still, and leaves work.
    crew.let_end(1);
    crew.next().await;
    crew.next().await;
    until("the token", async || tokens(&valkey, &queue) == "1").await;
    let after = worker.totals();
    assert_eq!((after.wakes - before.wakes, after.parks - before.parks), (1, 0));
    // It stands for somebody else.
    let other = parking(&queue, 2, &crew);
    crew.next().await;
    crew.next().await;
    crew.let_end(4);
    drop(other);
    healthy(&queue).await;
}

/// Whether a client is parked.
fn is_parked(valkey: &Valkey) -> bool {
    valkey.cli(&["INFO", "clients"]).unwrap().contains("blocked_clients:1")
}

#[tokio::test]
async fn a_stop_leaves_a_token_for_the_others() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let worker = parking(&queue, 1, &Crew::open());
    phase(&worker, Phase::Parked).await;
    worker.stop(PATIENCE).await;
    assert_eq!(tokens(&valkey, &queue), "1");
    healthy(&queue).await;
}

#[tokio::test]
async fn a_worker_that_stops_passes_the_wake_on() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let (one, two) = (Crew::open(), Crew::open());
    let first = parking(&queue, 1, &one);
    let second = parking(&queue, 1, &two);
    for round in 0..10 {
        phase(&first, Phase::Parked).await;
        phase(&second, Phase::Parked).await;
        let leaving = parking(&queue, 1, &one);
        phase(&leaving, Phase::Parked).await;
        let (stopped, id) = tokio::join!(leaving.stop(PATIENCE), admit(&queue, round.to_string()));
        assert_eq!(stopped.abandoned, 0);
        until("the job", async || queue.get(id).await.unwrap().is_none()).await;
    }
    assert!(calls(&valkey, "blpop") > 0);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_worker_whose_lane_is_killed_parks_again_and_misses_nothing() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let crew = Crew::open();
    let worker = parking(&queue, 1, &crew);
    for n in 0..5 {
        phase(&worker, Phase::Parked).await;
        until("the park", async || {
            valkey.cli(&["INFO", "clients"]).unwrap().contains("blocked_clients:1")
        })
        .await;
        let clients = valkey.cli(&["CLIENT", "LIST"]).unwrap();
        let lane = clients.lines().find(|line| line.contains("cmd=blpop")).unwrap();
        let id = lane.split_whitespace().next().unwrap().strip_prefix("id=").unwrap();
        valkey.cli(&["CLIENT", "KILL", "ID", id]).unwrap();
        let job = admit(&queue, n.to_string()).await;
        assert_eq!(crew.next().await.id, job);
    }
    healthy(&queue).await;
}
