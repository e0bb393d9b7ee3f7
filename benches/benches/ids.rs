//! Ids, keys and slots: `cargo bench -p emq-bench --bench ids`.

#[path = "work/ids.rs"]
mod work;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

fn ids(criterion: &mut Criterion) {
    let (minter, keys, id) = (work::minter(), work::keys(), work::parse(work::ID));
    let mut group = criterion.benchmark_group("ids");
    group.bench_function("parse", |bench| bench.iter(|| work::parse(black_box(work::ID))));
    group.bench_function("mint", |bench| bench.iter(|| work::mint(&minter)));
    group.bench_function("mint 100", |bench| bench.iter(|| work::mint_hundred(&minter)));
    group.bench_function("derive", |bench| bench.iter(|| work::derive(black_box(work::NAME))));
    group.finish();
    let mut group = criterion.benchmark_group("keys");
    group.bench_function("slot", |bench| bench.iter(|| work::slot_of(black_box(work::KEY))));
    group.bench_function("parse", |bench| bench.iter(|| work::parse_key(black_box(work::KEY))));
    group.bench_function("of a job", |bench| bench.iter(|| work::job_key(&keys, &id)));
    group.finish();
}

criterion_group!(benches, ids);
criterion_main!(benches);
