//! Lanes and the flat set under a worker: rotation, weights, ceilings.

mod ground;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use emq_core::{Backoff, Bus, Job, JobError, Lane, Queue, Worker};
use emq_keys::{BrandedId, Namespace};
use ground::crew::Crew;
use ground::{LONG, PATIENCE, admit, healthy, shared, soon, until};
use tokio::sync::mpsc;

async fn lane(bus: &Bus, queue: &Queue) -> Lane {
    queue.lane(bus.mint(Namespace::new("TEN").unwrap()).await.unwrap())
}

/// Starts a worker that tells of the lane of each job, in the order in which they start.
fn telling(queue: &Queue, concurrency: usize) -> (Worker, mpsc::UnboundedReceiver<Start>) {
    let (told, heard) = mpsc::unbounded_channel();
    let worker = Worker::builder(queue)
        .concurrency(concurrency)
        .lease(LONG)
        .handler(move |job: Job<Bytes>| {
            let told = told.clone();
            async move { Ok(told.send((job.id(), job.lane()))?) }
        })
        .start()
        .unwrap();
    (worker, heard)
}

type Start = (BrandedId, Option<BrandedId>);

async fn starts(heard: &mut mpsc::UnboundedReceiver<Start>, jobs: usize) -> Vec<Start> {
    let mut list = Vec::new();
    while list.len() < jobs {
        list.push(soon("a job", heard.recv()).await.unwrap());
    }
    list
}

#[tokio::test]
async fn lanes_and_the_flat_set_are_served_and_a_job_knows_its_lane() {
    for concurrency in [1, 10] {
        let (bus, queue) = shared().await;
        let mut wanted: HashMap<BrandedId, Option<BrandedId>> = HashMap::new();
        for _ in 0..3 {
            let lane = lane(&bus, &queue).await;
            for n in 0..5 {
                wanted.insert(lane.enqueue(n.to_string()).await.unwrap().id(), Some(lane.id()));
            }
        }
        for n in 0..5 {
            wanted.insert(admit(&queue, n.to_string()).await, None);
        }
        let (worker, mut heard) = telling(&queue, concurrency);
        let started: HashMap<_, _> = starts(&mut heard, 20).await.into_iter().collect();
        assert_eq!(started, wanted);
        assert_eq!(worker.stop(PATIENCE).await.totals.done, 20);
        healthy(&queue).await;
    }
}

#[tokio::test]
async fn a_quiet_lane_does_not_wait_behind_a_noisy_one() {
    for concurrency in [1, 8] {
        let (bus, queue) = shared().await;
        let (noisy, quiet) = (lane(&bus, &queue).await, lane(&bus, &queue).await);
        for n in 0..200 {
            let _ = noisy.enqueue(n.to_string()).await.unwrap();
        }
        for n in 0..10 {
            let _ = quiet.enqueue(n.to_string()).await.unwrap();
        }
        let (worker, mut heard) = telling(&queue, concurrency);
        let order = starts(&mut heard, 210).await;
        let places: Vec<usize> =
            (0..order.len()).filter(|n| order[*n].1 == Some(quiet.id())).collect();
        // Every second one; a batch may start within itself in any order.
        let last = 20 + 2 * concurrency;
        assert!(places.iter().all(|place| *place < last), "{concurrency}: {places:?}");
        worker.stop(PATIENCE).await;
    }
}

#[tokio::test]
async fn a_weight_is_a_share_of_the_ring() {
    let (bus, queue) = shared().await;
    let (heavy, light) = (lane(&bus, &queue).await, lane(&bus, &queue).await);
    heavy.weight(3).await.unwrap();
    for n in 0..30 {
        let _ = heavy.enqueue(n.to_string()).await.unwrap();
        let _ = light.enqueue(n.to_string()).await.unwrap();
    }
    let (worker, mut heard) = telling(&queue, 1);
    let order = starts(&mut heard, 60).await;
    for cycle in order[..40].chunks(4) {
        let of_heavy = cycle.iter().filter(|(_, lane)| *lane == Some(heavy.id())).count();
        assert_eq!(of_heavy, 3, "{order:?}");
    }
    worker.stop(PATIENCE).await;
    healthy(&queue).await;
}

#[tokio::test]
async fn a_ceiling_bounds_a_lane_and_leaves_the_slots_to_others() {
    let (bus, queue) = shared().await;
    let (bounded, free) = (lane(&bus, &queue).await, lane(&bus, &queue).await);
    bounded.limit(2).await.unwrap();
    let mut of_bounded = HashSet::new();
    for n in 0..10 {
        of_bounded.insert(bounded.enqueue(n.to_string()).await.unwrap().id());
        let _ = free.enqueue(n.to_string()).await.unwrap();
    }
    let crew = Crew::closed();
    let worker =
        Worker::builder(&queue).concurrency(8).lease(LONG).handler(crew.clone()).start().unwrap();
    let mut running = 0;
    for _ in 0..8 {
        running += usize::from(of_bounded.contains(&crew.next().await.id));
    }
    assert_eq!(running, 2);
    assert_eq!(bounded.status().await.unwrap().leases, 2);
    crew.let_end(20);
    until("the end", async || worker.totals().done == 20).await;
    healthy(&queue).await;
}

/// Checks by itself that it is alone.
struct Alone(Arc<AtomicUsize>);

impl Alone {
    fn enter(inside: &Arc<AtomicUsize>) -> Alone {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are on the lane");
        Alone(Arc::clone(inside))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A lane of which one job runs at a time, with workers that die and holders that come late.
#[derive(Clone)]
struct Narrow {
    queue: Queue,
    inside: Arc<AtomicUsize>,
    /// How often two overlapped: a panic in a handler is only a failed job.
    overlaps: Arc<AtomicUsize>,
    done: Arc<Mutex<HashSet<BrandedId>>>,
    started: Arc<tokio::sync::Notify>,
}

impl Narrow {
    fn work(&self) -> Worker {
        let narrow = self.clone();
        Worker::builder(&self.queue)
            .concurrency(2)
            .lease(Duration::from_secs(1))
            .beat(Duration::from_millis(200))
            .lost_cap(1_000)
            .max_attempts(1_000)
            .backoff(Backoff::fixed(Duration::from_millis(1)))
            .handler(move |job: Job<Bytes>| {
                let narrow = narrow.clone();
                async move { narrow.handle(&job).await }
            })
            .start()
            .unwrap()
    }

    async fn handle(&self, job: &Job<Bytes>) -> Result<(), JobError> {
        if self.inside.load(Ordering::SeqCst) > 0 {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let _alone = Alone::enter(&self.inside);
        self.started.notify_one();
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        if job.attempt() == 1 && job.id().as_bytes()[13].is_multiple_of(5) {
            return Err(JobError::new("the first attempt"));
        }
        self.done.lock().unwrap().insert(job.id());
        Ok(())
    }

    /// Takes a job by hand, works it within its lease, and says so only after that has ended.
    async fn come_late(&self) {
        let lease = Duration::from_millis(50);
        let Some(held) = self.queue.claim_lane(lease).await.unwrap() else { return };
        tokio::time::sleep(3 * lease).await;
        // Accepted if nobody has it yet; else refused, whatever became of it.
        if held.complete().await.is_ok() {
            self.done.lock().unwrap().insert(held.id());
        }
    }
}

#[tokio::test]
async fn on_a_lane_of_ceiling_one_cooperative_handlers_never_overlap() {
    let (bus, queue) = shared().await;
    let lane = lane(&bus, &queue).await;
    lane.limit(1).await.unwrap();
    let mut wanted = HashSet::new();
    for n in 0..500 {
        wanted.insert(lane.enqueue(n.to_string()).await.unwrap().id());
    }
    let narrow = Narrow {
        queue: queue.clone(),
        inside: Arc::default(),
        overlaps: Arc::default(),
        done: Arc::default(),
        started: Arc::default(),
    };
    let mut workers: Vec<Worker> = (0..8).map(|_| narrow.work()).collect();
    for n in 0..6 {
        for _ in 0..20 {
            soon("a start", narrow.started.notified()).await;
        }
        if n % 2 == 0 {
            // All die where they are, and the one that holds the job with them.
            workers.clear();
            workers.extend((0..8).map(|_| narrow.work()));
        } else {
            narrow.come_late().await;
        }
    }
    until("the end", async || narrow.done.lock().unwrap().len() == wanted.len()).await;
    until("the last settlement", async || {
        let counts = queue.counts().await.unwrap();
        counts.active + counts.scheduled + counts.dead == 0
    })
    .await;
    assert_eq!(*narrow.done.lock().unwrap(), wanted);
    assert_eq!(narrow.overlaps.load(Ordering::SeqCst), 0);
    for worker in workers {
        worker.stop(PATIENCE).await;
    }
    healthy(&queue).await;
}
