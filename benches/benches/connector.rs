//! One connection to a real server: `cargo bench -p emq-bench --bench connector`.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use emq_testkit::Valkey;
use emq_wire::{Cmd, Connection, Pipeline, Script};
use tokio::runtime::Runtime;

const DEPTH: u64 = 100;
const TASKS: u64 = 64;

fn set() -> Cmd {
    Cmd::new("SET").arg("key:000000000000").arg("xxx")
}

/// `count` commands from tasks that share the connection.
async fn shared(connection: &Connection, count: u64) -> Duration {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move {
                for _ in 0..count {
                    connection.command(set()).await.expect("answered");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    begun.elapsed()
}

fn connector(criterion: &mut Criterion) {
    let runtime: Runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let valkey = Valkey::start().expect("a server");
    let url = valkey.url().parse().expect("a URL");
    let connection = runtime.block_on(Connection::connect(url)).expect("connected");
    let empty = Script::new("bare", "return 1");
    let mut group = criterion.benchmark_group("connector");
    group.throughput(Throughput::Elements(1));
    group.bench_function("round trip, SET", |bench| {
        bench.iter(|| runtime.block_on(connection.command(set())).expect("answered"));
    });
    group.bench_function("round trip, empty script", |bench| {
        bench.iter(|| runtime.block_on(connection.command(empty.call(0, 0))).expect("answered"));
    });
    group.throughput(Throughput::Elements(DEPTH));
    group.bench_function("pipeline of 100 SETs", |bench| {
        bench.iter(|| {
            let pipeline: Pipeline = (0..DEPTH).map(|_| set()).collect();
            runtime.block_on(connection.pipeline(pipeline)).expect("answered")
        });
    });
    group.throughput(Throughput::Elements(TASKS));
    group.bench_function("64 tasks, a SET each", |bench| {
        bench.iter_custom(|count| runtime.block_on(shared(&connection, count)));
    });
    group.finish();
}

criterion_group!(benches, connector);
criterion_main!(benches);
