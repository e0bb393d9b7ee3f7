//! Wakes, by the table of transitions: for each one that makes a job runnable, everyone is parked,
//! it happens, and work starts.
//!
//! The beat of these workers is a minute, twice as long as a test waits: whatever starts was not
//! found by a beat.

mod ground;

use std::time::Duration;

use emq_core::{
    EnqueueOptions, Failure, JobState, Lane, Lease, NewJob, Phase, Queue, Retried, Worker,
};
use emq_keys::{BrandedId, Namespace};
use emq_testkit::Valkey;
use ground::crew::Crew;
use ground::{LONG, PATIENCE, admit, bus_on, commands, healthy, phase, shared, soon, until};

const SOON: Duration = Duration::from_millis(40);

fn parking(queue: &Queue, concurrency: usize, crew: &Crew) -> Worker {
    Worker::builder(queue)
        .concurrency(concurrency)
        .lease(LONG)
        .beat(2 * PATIENCE)
        .handler(crew.clone())
        .start()
        .unwrap()
}

/// What stands before a transition.
struct Scene {
    queue: Queue,
    lane: Lane,
    /// What is held by hand.
    held: Option<Lease>,
    /// The job that must start.
    job: Option<BrandedId>,
    valkey: Valkey,
}

impl Scene {
    async fn new() -> Scene {
        let valkey = Valkey::start().unwrap();
        let (bus, queue) = bus_on(&valkey).await;
        let lane = queue.lane(bus.mint(Namespace::new("TEN").unwrap()).await.unwrap());
        Scene { queue, lane, held: None, job: None, valkey }
    }

    async fn in_lane(&mut self, payload: &str) -> BrandedId {
        self.lane.enqueue(payload).await.unwrap().id()
    }

    /// A flat job that is held by hand.
    async fn hold(&mut self) {
        self.job = Some(admit(&self.queue, "held").await);
        self.held = Some(self.queue.claim(LONG).await.unwrap().unwrap());
    }

    /// A job of the lane that is held by hand.
    async fn hold_in_lane(&mut self) {
        self.job = Some(self.in_lane("held").await);
        self.held = Some(self.queue.claim_lane(LONG).await.unwrap().unwrap());
    }

    /// The lane is at its ceiling, and another of its jobs waits.
    async fn fill_lane(&mut self) {
        self.lane.limit(1).await.unwrap();
        self.hold_in_lane().await;
        self.job = Some(self.in_lane("next").await);
    }

    async fn bury(&mut self) {
        let died = self.held().retry(&Failure::new("no").dead()).await.unwrap();
        assert_eq!(died, Retried::Dead);
        self.held = None;
    }

    fn held(&self) -> &Lease {
        self.held.as_ref().unwrap()
    }

    fn job(&self) -> BrandedId {
        self.job.unwrap()
    }

    /// Ends the lease that is held by hand, of which nobody is told.
    async fn expire(&self) {
        self.held().extend(Duration::from_millis(1)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(3)).await;
    }

    /// Makes a scheduled job due, of which nobody is told.
    fn fall_due(&self) {
        let job = self.job();
        let args = ["ZADD", self.queue.keys().schedule(), "XX", "1", job.as_ref()];
        self.valkey.cli(&args).unwrap();
    }

    async fn enqueue_many(&mut self, lane: Option<BrandedId>) {
        let mut list = Vec::new();
        for payload in ["1", "2", "3"] {
            let job = NewJob::new(self.queue.bus().mint_job().await.unwrap(), payload);
            list.push(match lane {
                Some(lane) => job.lane(lane),
                None => job,
            });
        }
        self.job = Some(list[0].id());
        assert_eq!(self.queue.enqueue_many(&list).await.unwrap().len(), 3);
    }
}

/// Prepares a scene, parks three workers, lets the transition happen, and waits for its job.
async fn work_starts(
    prepare: impl AsyncFnOnce(&mut Scene),
    transition: impl AsyncFnOnce(&mut Scene),
) {
    let mut scene = Scene::new().await;
    prepare(&mut scene).await;
    let crew = Crew::closed();
    let workers: Vec<Worker> = (0..3).map(|_| parking(&scene.queue, 1, &crew)).collect();
    rest(&scene.valkey, &scene.queue, workers.len()).await;
    assert!(crew.is_quiet().await);
    transition(&mut scene).await;
    let wanted = scene.job();
    soon("the job", async { while crew.next().await.id != wanted {} }).await;
    crew.let_end(100);
    for worker in workers {
        assert_eq!(worker.stop(PATIENCE).await.abandoned, 0);
    }
    healthy(&scene.queue).await;
}

/// A test for each row: what stands before, and the transition.
macro_rules! transitions {
    ($($name:ident: |$scene:ident| $before:block => $transition:block)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                work_starts(async |$scene: &mut Scene| $before, async |$scene: &mut Scene| $transition)
                    .await;
            }
        )*
    };
}

transitions! {
    // nothing -> pending
    enqueue: |scene| { let _ = scene; } => {
        scene.job = Some(admit(&scene.queue, "x").await);
    }
    lane_enqueue: |scene| { let _ = scene; } => {
        scene.job = Some(scene.in_lane("x").await);
    }
    enqueue_many_flat: |scene| { let _ = scene; } => { scene.enqueue_many(None).await; }
    enqueue_many_in_a_lane: |scene| { let _ = scene; } => {
        scene.enqueue_many(Some(scene.lane.id())).await;
    }
    schedule_of_a_job_that_is_due_already: |scene| { let _ = scene; } => {
        let options = EnqueueOptions::new().at(std::time::UNIX_EPOCH);
        scene.job = Some(scene.queue.enqueue_with("x", &options).await.unwrap().id());
    }
    schedule_in_a_lane_of_a_job_that_is_due_already: |scene| { let _ = scene; } => {
        let options = EnqueueOptions::new().at(std::time::UNIX_EPOCH);
        scene.job = Some(scene.lane.enqueue_with("x", &options).await.unwrap().id());
    }

    // scheduled -> pending, in time
    scheduled_job_that_falls_due: |scene| { let _ = scene; } => {
        scene.job = Some(scene.queue.enqueue_in("x", SOON).await.unwrap().id());
    }
    scheduled_job_of_a_lane_that_falls_due: |scene| { let _ = scene; } => {
        scene.job = Some(scene.lane.enqueue_in("x", SOON).await.unwrap().id());
    }
    scheduled_job_that_falls_due_before_the_others: |scene| {
        let _ = scene.queue.enqueue_in("later", LONG).await.unwrap();
    } => {
        scene.job = Some(scene.queue.enqueue_in("x", SOON).await.unwrap().id());
    }
    retried_job_that_falls_due: |scene| { scene.hold().await; } => {
        let retried = scene.held().retry(&Failure::new("no").delay(SOON)).await.unwrap();
        assert_eq!(retried, Retried::Scheduled);
    }
    retried_job_of_a_lane_that_falls_due: |scene| { scene.hold_in_lane().await; } => {
        let retried = scene.held().retry(&Failure::new("no").delay(SOON)).await.unwrap();
        assert_eq!(retried, Retried::Scheduled);
    }
    promote_by_hand: |scene| {
        scene.job = Some(scene.queue.enqueue_in("x", LONG).await.unwrap().id());
    } => {
        scene.fall_due();
        assert_eq!(scene.queue.promote(10).await.unwrap(), 1);
    }
    promote_by_hand_into_a_lane: |scene| {
        scene.job = Some(scene.lane.enqueue_in("x", LONG).await.unwrap().id());
    } => {
        scene.fall_due();
        assert_eq!(scene.queue.promote(10).await.unwrap(), 1);
    }

    // active -> pending
    release: |scene| { scene.hold().await; } => { scene.held().release().await.unwrap(); }
    release_in_a_lane: |scene| { scene.hold_in_lane().await; } => {
        scene.held().release().await.unwrap();
    }
    release_at_the_ceiling: |scene| {
        scene.fill_lane().await;
        scene.job = Some(scene.held().id());
    } => { scene.held().release().await.unwrap(); }
    reap_by_hand: |scene| { scene.hold().await; } => {
        scene.expire().await;
        assert_eq!(scene.queue.reap(10, 10).await.unwrap().returned, 1);
    }
    reap_by_hand_in_a_lane: |scene| { scene.hold_in_lane().await; } => {
        scene.expire().await;
        assert_eq!(scene.queue.reap(10, 10).await.unwrap().returned, 1);
    }
    lease_that_ends: |scene| {
        scene.job = Some(admit(&scene.queue, "x").await);
        scene.held = scene.queue.claim(Duration::from_millis(300)).await.unwrap();
    } => { let _ = scene; }

    // dead -> pending
    requeue: |scene| { scene.hold().await; scene.bury().await; } => {
        scene.queue.morgue().requeue(scene.job()).await.unwrap();
    }
    requeue_in_a_lane: |scene| { scene.hold_in_lane().await; scene.bury().await; } => {
        scene.queue.morgue().requeue(scene.job()).await.unwrap();
    }
    requeue_of_all: |scene| { scene.hold().await; scene.bury().await; } => {
        scene.queue.morgue().requeue_all().await.unwrap();
    }

    // Room below a ceiling
    complete_at_the_ceiling: |scene| { scene.fill_lane().await; } => {
        scene.held().complete().await.unwrap();
    }
    retry_at_the_ceiling: |scene| { scene.fill_lane().await; } => {
        scene.held().retry(&Failure::new("no").delay(LONG)).await.unwrap();
    }
    burial_at_the_ceiling: |scene| { scene.fill_lane().await; } => { scene.bury().await; }
    reap_of_a_job_that_dies_at_the_ceiling: |scene| { scene.fill_lane().await; } => {
        scene.expire().await;
        assert_eq!(scene.queue.reap(10, 1).await.unwrap().buried, 1);
    }
    lane_limit_raised: |scene| { scene.fill_lane().await; } => {
        scene.lane.limit(2).await.unwrap();
    }
    lane_limit_lifted: |scene| { scene.fill_lane().await; } => {
        scene.lane.unlimited().await.unwrap();
    }

    // What an operator lets go on
    queue_resume: |scene| {
        scene.queue.pause().await.unwrap();
        scene.job = Some(admit(&scene.queue, "x").await);
    } => { scene.queue.resume().await.unwrap(); }
    queue_resume_with_lanes: |scene| {
        scene.queue.pause().await.unwrap();
        scene.job = Some(scene.in_lane("x").await);
    } => { scene.queue.resume().await.unwrap(); }
    lane_resume: |scene| {
        scene.lane.pause().await.unwrap();
        scene.job = Some(scene.in_lane("x").await);
    } => { scene.lane.resume().await.unwrap(); }
    reassign_out_of_a_paused_lane: |scene| {
        scene.lane.pause().await.unwrap();
        scene.job = Some(scene.in_lane("x").await);
    } => { scene.queue.reassign(scene.job(), None).await.unwrap(); }
    reassign_of_the_backlog_of_a_paused_lane: |scene| {
        scene.lane.pause().await.unwrap();
        scene.job = Some(scene.in_lane("x").await);
    } => {
        scene.queue.reassign_backlog(Some(scene.lane.id()), None).await.unwrap();
    }
}

/// Waits until so many clients are parked and no wake stands.
async fn rest(valkey: &Valkey, queue: &Queue, parked: usize) {
    until("all parks", async || {
        let clients = valkey.cli(&["INFO", "clients"]).unwrap();
        clients.contains(&format!("blocked_clients:{parked}\r"))
            && valkey.cli(&["LLEN", queue.keys().wake()]).unwrap() == "0"
    })
    .await;
}

fn wakes(workers: &[Worker]) -> u64 {
    workers.iter().map(|worker| worker.totals().wakes).sum()
}

#[tokio::test]
async fn one_job_wakes_one_of_fifty_and_a_burst_wakes_all() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let crew = Crew::closed();
    let workers: Vec<Worker> = (0..50).map(|_| parking(&queue, 1, &crew)).collect();
    rest(&valkey, &queue, 50).await;
    assert_eq!(wakes(&workers), 0);
    for n in 1..=5 {
        let id = admit(&queue, n.to_string()).await;
        assert_eq!(crew.next().await.id, id);
        crew.let_end(1);
        until("the end", async || queue.get(id).await.unwrap().is_none()).await;
        rest(&valkey, &queue, 50).await;
        assert_eq!(wakes(&workers), n);
    }
    let mut burst = Vec::new();
    for _ in 0..1_000 {
        burst.push(NewJob::new(bus.mint_job().await.unwrap(), "x"));
    }
    assert_eq!(queue.enqueue_many(&burst).await.unwrap().len(), 1_000);
    // None ends before all fifty have started.
    for _ in 0..50 {
        crew.next().await;
    }
    assert!(crew.is_quiet().await);
    crew.let_end(1_000);
    for _ in 0..950 {
        crew.next().await;
    }
    rest(&valkey, &queue, 50).await;
    let done: u64 = workers.iter().map(|worker| worker.totals().done).sum();
    assert_eq!(done, 1_005);
    healthy(&queue).await;
}

/// How many commands a server runs while nothing happens; its own counting is left out.
async fn spent_idle(valkey: &Valkey) -> u64 {
    let first = commands(valkey);
    let cost = commands(valkey) - first;
    let before = commands(valkey);
    tokio::time::sleep(Duration::from_millis(300)).await;
    commands(valkey) - before - cost
}

#[tokio::test]
async fn full_workers_and_a_backlog_spin_for_nobody() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let crew = Crew::closed();
    let workers: Vec<Worker> = (0..3).map(|_| parking(&queue, 2, &crew)).collect();
    rest(&valkey, &queue, 3).await;
    for n in 0..20 {
        admit(&queue, n.to_string()).await;
    }
    for _ in 0..6 {
        crew.next().await;
    }
    until("a wake that stands", async || {
        valkey.cli(&["LLEN", queue.keys().wake()]).unwrap() == "1"
            && valkey.cli(&["INFO", "clients"]).unwrap().contains("blocked_clients:0\r")
    })
    .await;
    assert_eq!(spent_idle(&valkey).await, 0);
    crew.let_end(20);
    until("the end", async || workers.iter().map(|worker| worker.totals().done).sum::<u64>() == 20)
        .await;
    healthy(&queue).await;
}

#[tokio::test]
async fn a_paused_queue_and_a_lane_at_its_ceiling_make_nobody_spin() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let crew = Crew::closed();
    let workers: Vec<Worker> = (0..3).map(|_| parking(&queue, 2, &crew)).collect();
    rest(&valkey, &queue, 3).await;
    let lane = queue.lane(bus.mint(Namespace::new("TEN").unwrap()).await.unwrap());
    lane.limit(1).await.unwrap();
    queue.pause().await.unwrap();
    for n in 0..10 {
        let _ = lane.enqueue(n.to_string()).await.unwrap();
    }
    rest(&valkey, &queue, 3).await;
    assert_eq!(spent_idle(&valkey).await, 0);
    assert!(crew.is_quiet().await);
    queue.resume().await.unwrap();
    crew.next().await;
    // The one that works has a free hand, and is parked too.
    rest(&valkey, &queue, 3).await;
    assert_eq!(spent_idle(&valkey).await, 0);
    assert!(crew.is_quiet().await);
    crew.let_end(10);
    until("the end", async || workers.iter().map(|worker| worker.totals().done).sum::<u64>() == 10)
        .await;
    healthy(&queue).await;
}

#[tokio::test]
async fn workers_that_stop_eat_no_wake() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let (leaving, staying) = (Crew::closed(), Crew::closed());
    for round in 0..10 {
        let leavers: Vec<Worker> = (0..3).map(|_| parking(&queue, 1, &leaving)).collect();
        rest(&valkey, &queue, 3).await;
        let stayer = parking(&queue, 10, &staying);
        rest(&valkey, &queue, 4).await;
        // The admissions meet the stops at every stage: woken, claiming, working, gone.
        let stops: Vec<_> =
            leavers.into_iter().map(|worker| tokio::spawn(worker.stop(PATIENCE))).collect();
        for n in 0..4 {
            admit(&queue, format!("{round}.{n}")).await;
        }
        // What a leaver has begun it ends.
        leaving.let_end(3);
        for stop in stops {
            assert_eq!(soon("a stop", stop).await.unwrap().abandoned, 0);
        }
        staying.let_end(4);
        until("the end of all", async || {
            let counts = queue.counts().await.unwrap();
            counts.pending + counts.active == 0
        })
        .await;
        assert_eq!(stayer.stop(PATIENCE).await.abandoned, 0);
    }
    healthy(&queue).await;
}

#[tokio::test]
async fn a_worker_keeps_the_time_of_the_schedule_while_it_is_full() {
    let (_bus, queue) = shared().await;
    let crew = Crew::closed();
    let worker = parking(&queue, 1, &crew);
    phase(&worker, Phase::Parked).await;
    let delayed = queue.enqueue_in("delayed", Duration::from_millis(300)).await.unwrap().id();
    admit(&queue, "busy").await;
    crew.next().await;
    // Nobody else is there to move it, and the only hand stays full.
    until("the promotion", async || {
        queue.get(delayed).await.unwrap().unwrap().state == JobState::Pending
    })
    .await;
    assert_eq!(worker.totals().claimed, 1);
    crew.let_end(2);
    assert_eq!(crew.next().await.id, delayed);
    healthy(&queue).await;
}
