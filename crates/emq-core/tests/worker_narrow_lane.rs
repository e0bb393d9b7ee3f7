//! A lane of ceiling one under eight workers: holders die, holders come late, handlers fail.
//! Cooperative handlers never overlap, each job is done once, and the lane is never stuck for
//! longer than a lease and a beat.

mod ground;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use emq_core::{Backoff, Bus, Job, JobError, Lane, Queue, Totals, Worker};
use emq_keys::BrandedId;
use emq_testkit::Valkey;
use ground::{PATIENCE, healthy, shared, soon, until};
use tokio::sync::{Notify, mpsc, oneshot};

const JOBS: usize = 5_000;
/// So many of the eight workers come late; each has a thread to itself, which it blocks.
const LATE_WORKERS: usize = 2;
const WORKERS: usize = 8 - LATE_WORKERS;
const LEASE: Duration = Duration::from_millis(700);
const BEAT: Duration = Duration::from_millis(150);
/// So many starts lie between two holders that are killed.
const KILL_EVERY: usize = 1_000;
/// How many jobs lie between two that one worker is late with.
const LATE_EVERY: usize = 2_000;
/// After so many starts the lane is taken from the worker that has it, for another to have it.
const PASS_EVERY: usize = 50;

/// What the handlers know of each other, none of it from the server.
#[derive(Default)]
struct Seen {
    /// Cooperative handlers that run now, and how often one found another.
    inside: AtomicUsize,
    overlaps: AtomicUsize,
    /// When handlers started, of whatever job.
    starts: Mutex<Vec<Instant>>,
    started: Notify,
    /// How often each job started, and how often its handler came to a good end.
    runs: Mutex<HashMap<BrandedId, usize>>,
    ends: Mutex<HashMap<BrandedId, usize>>,
    /// Jobs that failed: each does once.
    failed: Mutex<HashSet<usize>>,
    /// How many holders were chosen to be killed.
    doomed: AtomicUsize,
}

impl Seen {
    fn start(&self, id: BrandedId) {
        self.starts.lock().unwrap().push(Instant::now());
        *self.runs.lock().unwrap().entry(id).or_default() += 1;
        self.started.notify_one();
    }

    fn end(&self, id: BrandedId) {
        *self.ends.lock().unwrap().entry(id).or_default() += 1;
    }

    fn runs(&self, id: BrandedId) -> usize {
        self.runs.lock().unwrap()[&id]
    }

    fn fails_first(&self, n: usize) -> bool {
        self.failed.lock().unwrap().insert(n)
    }

    /// Whether a holder is to be killed now. It goes by the number of starts, not by the job: a
    /// late worker may hold any job, and isn't killed.
    fn is_time_to_kill(&self) -> bool {
        let doomed = self.doomed.load(Ordering::SeqCst);
        let due = KILL_EVERY / 2 + doomed * KILL_EVERY <= self.starts.lock().unwrap().len();
        due && self
            .doomed
            .compare_exchange(doomed, doomed + 1, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// How many jobs came to a good end.
    fn ended(&self) -> usize {
        self.ends.lock().unwrap().len()
    }
}

/// Alone among the cooperative handlers, until it is dropped.
struct Alone<'a>(&'a Seen);

impl Alone<'_> {
    fn enter(seen: &Seen) -> Alone<'_> {
        if seen.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            seen.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        Alone(seen)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Works a job and yields now and then. `holders` hears from one that holds its job until it is
/// killed.
async fn cooperate(
    seen: &Seen,
    job: &Job<Bytes>,
    holder: Option<(usize, &mpsc::UnboundedSender<usize>)>,
) -> Result<(), JobError> {
    let _alone = Alone::enter(seen);
    seen.start(job.id());
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    if let Some((worker, holders)) = holder
        && seen.is_time_to_kill()
    {
        holders.send(worker)?;
        std::future::pending::<()>().await;
    }
    let n = number(job);
    if n % 7 == 3 && seen.fails_first(n) {
        return Err(JobError::new("the first attempt"));
    }
    seen.end(job.id());
    Ok(())
}

fn number(job: &Job<Bytes>) -> usize {
    std::str::from_utf8(&job.payload).unwrap().parse().unwrap()
}

fn builder(queue: &Queue) -> emq_core::WorkerBuilder<Bytes, emq_core::Raw> {
    Worker::builder(queue)
        .concurrency(2)
        .lease(LEASE)
        .beat(BEAT)
        .lost_cap(1_000)
        .max_attempts(1_000)
        .backoff(Backoff::fixed(Duration::from_millis(1)))
}

/// A worker that says with its number when it holds a job until it is killed.
fn mortal(
    queue: &Queue,
    number: usize,
    seen: &Arc<Seen>,
    holders: &mpsc::UnboundedSender<usize>,
) -> Worker {
    let (seen, holders) = (Arc::clone(seen), holders.clone());
    let handler = move |job: Job<Bytes>| {
        let (seen, holders) = (Arc::clone(&seen), holders.clone());
        async move { cooperate(&seen, &job, Some((number, &holders))).await }
    };
    builder(queue).handler(handler).start().unwrap()
}

/// A worker on a thread of its own, which some jobs block until another worker has them too: it
/// extends nothing meanwhile, and settles when its lease is long over.
struct Late {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<Totals>,
}

impl Late {
    fn start(queue: &Queue, seen: &Arc<Seen>) -> Late {
        let (stop, stopped) = oneshot::channel();
        let (name, seen) = (queue.name().to_string(), Arc::clone(seen));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let bus = Bus::connect(&Valkey::of_this_process().url()).await.unwrap();
                let worker = Late::work(&bus.queue(name).unwrap(), seen);
                let _ = stopped.await;
                worker.stop(PATIENCE).await.totals
            })
        });
        Late { stop, thread }
    }

    fn work(queue: &Queue, seen: Arc<Seen>) -> Worker {
        let next = Arc::new(AtomicUsize::new(0));
        let handler = move |job: Job<Bytes>| {
            let (seen, next) = (Arc::clone(&seen), Arc::clone(&next));
            async move {
                if number(&job) < next.load(Ordering::SeqCst) {
                    return cooperate(&seen, &job, None).await;
                }
                next.store(number(&job) + LATE_EVERY, Ordering::SeqCst);
                seen.start(job.id());
                let mine = seen.runs(job.id());
                let begun = Instant::now();
                while seen.runs(job.id()) == mine && begun.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(2));
                }
                seen.end(job.id());
                Ok(())
            }
        };
        builder(queue).concurrency(1).handler(handler).start().unwrap()
    }

    async fn stop(self) -> Totals {
        self.stop.send(()).unwrap();
        tokio::task::spawn_blocking(|| self.thread.join().unwrap()).await.unwrap()
    }
}

/// Takes the lane out of the hands of the worker that goes from job to job on it.
async fn pass_on(lane: Lane, seen: Arc<Seen>) {
    loop {
        for _ in 0..PASS_EVERY {
            seen.started.notified().await;
        }
        lane.pause().await.unwrap();
        while lane.status().await.unwrap().leases > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        lane.resume().await.unwrap();
    }
}

/// How late a task was that had to sleep for a moment and ask the server: when it was over, and by
/// how much it had overrun.
type Stalls = Arc<Mutex<Vec<(Instant, Duration)>>>;

async fn canary(bus: Bus, stalls: Stalls) {
    const MOMENT: Duration = Duration::from_millis(5);
    loop {
        let begun = Instant::now();
        tokio::time::sleep(MOMENT).await;
        bus.fenced().connection().command(emq_wire::Cmd::new("PING")).await.unwrap();
        let overrun = begun.elapsed().saturating_sub(MOMENT);
        stalls.lock().unwrap().push((Instant::now(), overrun));
    }
}

/// No time between two starts was longer than a lease, a beat, and what the machine stood still.
fn assert_never_stuck(starts: &[Instant], stalls: &[(Instant, Duration)]) {
    for pair in starts.windows(2).filter(|pair| pair[1] - pair[0] > LEASE + BEAT) {
        let within = stalls.iter().filter(|(at, _)| pair[0] <= *at);
        // One that overran the end of the gap began in it.
        let stood = within.take_while(|(at, overrun)| *at - *overrun <= pair[1]);
        let stood: Duration = stood.map(|(_, overrun)| *overrun).sum();
        let gap = pair[1] - pair[0];
        assert!(gap <= LEASE + BEAT + stood, "stuck for {gap:?}, of which stalled {stood:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn on_a_lane_of_ceiling_one_each_job_is_done_once_and_alone_whoever_dies_or_is_late() {
    let (bus, queue) = shared().await;
    let lane = queue.lane(ground::raw::tenant("narrow"));
    lane.limit(1).await.unwrap();
    let mut jobs = Vec::new();
    for n in 0..JOBS {
        let id = bus.mint_job().await.unwrap();
        jobs.push(emq_core::NewJob::new(id, n.to_string()).lane(lane.id()));
    }
    queue.enqueue_many(&jobs).await.unwrap();

    let (seen, stalls) = (Arc::new(Seen::default()), Stalls::default());
    let (holders, mut held) = mpsc::unbounded_channel();
    let aside = [
        tokio::spawn(canary(bus.clone(), Arc::clone(&stalls))),
        tokio::spawn(pass_on(lane.clone(), Arc::clone(&seen))),
    ];
    let late: Vec<Late> = (0..LATE_WORKERS).map(|_| Late::start(&queue, &seen)).collect();
    let mut workers: Vec<Worker> =
        (0..WORKERS).map(|number| mortal(&queue, number, &seen, &holders)).collect();
    let mut totals: Vec<Totals> = Vec::new();
    let mut killed = 0;
    while seen.ended() < JOBS {
        tokio::select! {
            number = held.recv() => {
                let number = number.unwrap();
                let next = mortal(&queue, number, &seen, &holders);
                let dead = std::mem::replace(&mut workers[number], next);
                totals.push(dead.totals());
                drop(dead);
                killed += 1;
            }
            () = tokio::time::sleep(Duration::from_millis(5)) => {}
        }
    }
    until("the last settlement", async || {
        let counts = queue.counts().await.unwrap();
        counts.active + counts.scheduled + counts.dead == 0 && lane.depth().await.unwrap() == 0
    })
    .await;
    aside.iter().for_each(tokio::task::JoinHandle::abort);
    for worker in workers {
        totals.push(worker.stop(PATIENCE).await.totals);
    }
    for late in late {
        totals.push(soon("the late one", late.stop()).await);
    }

    assert_eq!(seen.overlaps.load(Ordering::SeqCst), 0, "two cooperative handlers overlapped");
    let ends: usize = seen.ends.lock().unwrap().values().sum();
    let sum = |of: fn(&Totals) -> u64| totals.iter().map(of).sum::<u64>() as usize;
    let (done, stale) = (sum(|it| it.done), sum(|it| it.stale));
    assert_eq!(done, JOBS, "settles accepted");
    assert!(ends > JOBS, "nobody was late");
    assert!(ends - done <= stale, "{ends} good ends, {done} accepted, {stale} refused");
    assert!(killed >= JOBS / KILL_EVERY - 1, "{killed} holders were killed");
    assert!(sum(|it| it.retried) >= JOBS / 8);
    assert_never_stuck(&seen.starts.lock().unwrap(), &stalls.lock().unwrap());
    assert_eq!(lane.status().await.unwrap().leases, 0);
    healthy(&queue).await;
}
