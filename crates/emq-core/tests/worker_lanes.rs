//! Lanes and the flat set under a worker: rotation, weights, ceilings.

mod ground;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use emq_core::{Bus, Job, Lane, Queue, Worker};
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
        healthy(&queue).await;
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
