//! Each script form on a real server, one call at a time:
//! `cargo bench -p emq-bench --bench scripts`.
//!
//! What a form needs is made before its clock starts, and no job is left behind.

use std::time::{Duration, Instant};

use contender::payload;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use emq_core::{Bus, NewJob, Queue};
use emq_keys::{BrandedId, NodeId};
use emq_scripts::{
    AdmitOptions, Claim, Complete, Enqueue, EnqueueMany, ManyItem, Settle, SettleOutcome, Turn,
};
use emq_testkit::Valkey;
use emq_wire::Cmd;
use tokio::runtime::Runtime;

const LEASE: Duration = Duration::from_secs(600);
const TICKET: Option<&str> = Some("bench.1");
const MANY: usize = 100;
/// Jobs handed over in one list when a queue is filled.
const FILL: usize = 10_000;

struct Ground {
    _valkey: Valkey,
    bus: Bus,
    queue: Queue,
}

impl Ground {
    async fn start() -> Ground {
        let valkey = Valkey::start().expect("a server");
        let builder = Bus::builder(&valkey.url()).expect("a URL");
        let node = NodeId::new(7).expect("a node");
        let bus = builder.node(node).connect().await.expect("a bus");
        let queue = bus.queue("scripts").expect("a queue");
        Ground { _valkey: valkey, bus, queue }
    }

    async fn mint(&self, n: usize) -> Vec<BrandedId> {
        let mut ids = Vec::with_capacity(n);
        for _ in 0..n {
            ids.push(self.bus.mint_job().await.expect("an id"));
        }
        ids
    }

    async fn fill(&self, n: usize) {
        let jobs: Vec<_> = self.mint(n).await.into_iter().enumerate().collect();
        for jobs in jobs.chunks(FILL) {
            let list: Vec<_> = jobs.iter().map(|(i, id)| NewJob::new(*id, payload(*i))).collect();
            self.queue.enqueue_many(&list).await.expect("enqueued");
        }
    }

    async fn empty(&self) {
        let all = Cmd::new("FLUSHALL").arg("SYNC");
        self.bus.fenced().connection().command(all).await.expect("answered");
    }

    async fn call<C: emq_scripts::ScriptCall>(&self, call: &C) -> C::Reply {
        self.bus.fenced().call(self.queue.keys(), call).await.expect("answered")
    }

    async fn enqueue(&self, count: usize) -> Duration {
        self.empty().await;
        let ids = self.mint(count).await;
        let payload = payload(1);
        let begun = Instant::now();
        for id in ids {
            let (payload, options) = (payload.as_bytes(), AdmitOptions::default());
            self.call(&Enqueue { id, payload, options, durable: false }).await;
        }
        begun.elapsed()
    }

    async fn enqueue_many(&self, count: usize) -> Duration {
        self.empty().await;
        let ids = self.mint(count * MANY).await;
        let payload = payload(1);
        let begun = Instant::now();
        for ids in ids.chunks(MANY) {
            let item = |id: &BrandedId| ManyItem {
                id: *id,
                payload: payload.as_bytes(),
                group: None,
                run_at_ms: None,
                options: AdmitOptions::default(),
            };
            let items: Vec<_> = ids.iter().map(item).collect();
            self.call(&EnqueueMany { items: &items, durable: false }).await;
        }
        begun.elapsed()
    }

    /// The time of the claims, and that of the completions after them.
    async fn claim_and_complete(&self, count: usize) -> [Duration; 2] {
        self.empty().await;
        self.fill(count).await;
        let mut held = Vec::with_capacity(count);
        let begun = Instant::now();
        for _ in 0..count {
            held.push(self.call(&Claim { lease: LEASE, ticket: TICKET }).await.expect("a job"));
        }
        let claims = begun.elapsed();
        let begun = Instant::now();
        for job in held {
            self.call(&Complete { id: job.id, token: job.token, ticket: TICKET }).await;
        }
        [claims, begun.elapsed()]
    }

    /// Turns that settle what the one before claimed.
    async fn turns(&self, count: usize, batch: usize) -> Duration {
        self.empty().await;
        self.fill(count * batch).await;
        let mut held: Vec<(BrandedId, u64)> = Vec::new();
        let begun = Instant::now();
        for _ in 0..count {
            let settle = |(id, token): &(BrandedId, u64)| Settle {
                id: *id,
                token: *token,
                ticket: TICKET,
                outcome: SettleOutcome::Complete,
            };
            let settles: Vec<_> = held.iter().map(settle).collect();
            let turned = self.call(&turn(batch, &settles)).await;
            assert_eq!(turned.jobs.len(), batch);
            held = turned.jobs.iter().map(|job| (job.id, job.token)).collect();
        }
        begun.elapsed()
    }
}

fn turn<'a>(claim: usize, settles: &'a [Settle<'a>]) -> Turn<'a> {
    Turn {
        ticket: TICKET,
        lease: LEASE,
        claim: u32::try_from(claim).expect("a batch"),
        promote: 200,
        reap: 0,
        lost_cap: 10,
        max_attempts: 25,
        settles,
        extensions: &[],
    }
}

/// One form, with `jobs` a call.
fn form(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    name: &str,
    jobs: usize,
    work: impl AsyncFn(usize) -> Duration,
) {
    group.throughput(Throughput::Elements(jobs as u64));
    group.bench_function(name, |bench| {
        bench.iter_custom(|count| runtime.block_on(work(usize::try_from(count).expect("a count"))));
    });
}

fn scripts(criterion: &mut Criterion) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ground = runtime.block_on(Ground::start());
    let mut group = criterion.benchmark_group("scripts");
    form(&mut group, &runtime, "enqueue", 1, async |n| ground.enqueue(n).await);
    form(&mut group, &runtime, "enqueue_many, 100", MANY, async |n| ground.enqueue_many(n).await);
    form(&mut group, &runtime, "claim", 1, async |n| ground.claim_and_complete(n).await[0]);
    form(&mut group, &runtime, "complete", 1, async |n| ground.claim_and_complete(n).await[1]);
    for batch in [1, 10, 100] {
        let name = format!("turn, settles and claims {batch}");
        form(&mut group, &runtime, &name, batch, async |n| ground.turns(n, batch).await);
    }
    group.finish();
}

criterion_group!(benches, scripts);
criterion_main!(benches);
