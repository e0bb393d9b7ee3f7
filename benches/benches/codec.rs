//! Commands out and replies in, without a socket: `cargo bench -p emq-bench --bench codec`.
//!
//! The decoder beside another one is the bench `decoder` of emq-wire.

#[path = "work/codec.rs"]
mod work;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use work::Sample;

fn encode(criterion: &mut Criterion) {
    let sample = Sample::new();
    let mut group = criterion.benchmark_group("encode");
    group.bench_function("SET", |bench| bench.iter(work::encode_set));
    group.bench_function("enqueue", |bench| bench.iter(|| work::encode_enqueue(&sample)));
    group.throughput(Throughput::Elements(work::JOBS as u64));
    group.bench_function("pipeline of 100 SETs", |bench| bench.iter(work::encode_pipeline));
    group.bench_function("enqueue_many of 100", |bench| {
        bench.iter(|| work::encode_enqueue_many(&sample));
    });
    group.bench_function("turn, settles 100", |bench| bench.iter(|| work::encode_turn(&sample)));
    group.finish();
}

fn decode(criterion: &mut Criterion) {
    let sample = Sample::new();
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(work::JOBS as u64));
    let short = work::short_replies();
    group.bench_function("100 short replies", |bench| bench.iter(|| work::decode(&short)));
    let long = work::turn_reply(&sample);
    group.bench_function("turn's reply of 100 jobs", |bench| bench.iter(|| work::decode(&long)));
    let reply = work::decode(&long).remove(0);
    group.bench_function("turn's reply, typed", |bench| {
        bench.iter(|| work::read_turn(&sample, black_box(&reply)));
    });
    group.finish();
}

criterion_group!(benches, encode, decode);
criterion_main!(benches);
