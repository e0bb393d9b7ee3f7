//! Instructions that the codec and the ids take, counted under callgrind: the same on a busy
//! machine and on a quiet one. `cargo xtask bench instructions` runs it and compares the counts.

#[path = "work/codec.rs"]
mod codec;
#[path = "work/ids.rs"]
mod ids;

use std::hint::black_box;

use bytes::Bytes;
use emq_keys::{BrandedId, Key, Minter, QueueKeys};
use emq_scripts::Turned;
use emq_wire::Reply;
use gungraun::prelude::*;

use codec::Sample;

#[library_benchmark]
fn encode_set() -> Bytes {
    black_box(codec::encode_set())
}

#[library_benchmark]
fn encode_pipeline_100() -> usize {
    black_box(codec::encode_pipeline())
}

#[library_benchmark]
#[bench::of(Sample::new())]
fn encode_enqueue(sample: Sample) -> (Bytes, Sample) {
    (black_box(codec::encode_enqueue(black_box(&sample))), sample)
}

#[library_benchmark]
#[bench::of(Sample::new())]
fn encode_enqueue_many_100(sample: Sample) -> (Bytes, Sample) {
    (black_box(codec::encode_enqueue_many(black_box(&sample))), sample)
}

#[library_benchmark]
#[bench::of(Sample::new())]
fn encode_turn_100(sample: Sample) -> (Bytes, Sample) {
    (black_box(codec::encode_turn(black_box(&sample))), sample)
}

#[library_benchmark]
#[bench::of(codec::short_replies())]
fn decode_short_100(bytes: Bytes) -> (Vec<Reply>, Bytes) {
    (black_box(codec::decode(black_box(&bytes))), bytes)
}

#[library_benchmark]
#[bench::of(codec::turn_reply(&Sample::new()))]
fn decode_turn_100(bytes: Bytes) -> (Vec<Reply>, Bytes) {
    (black_box(codec::decode(black_box(&bytes))), bytes)
}

fn turn_answered() -> (Sample, Reply) {
    let sample = Sample::new();
    let reply = codec::decode(&codec::turn_reply(&sample)).remove(0);
    (sample, reply)
}

#[library_benchmark]
#[bench::of(turn_answered())]
fn read_turn_100(given: (Sample, Reply)) -> (Turned, (Sample, Reply)) {
    (black_box(codec::read_turn(black_box(&given.0), &given.1)), given)
}

#[library_benchmark]
fn id_parse() -> BrandedId {
    black_box(ids::parse(black_box(ids::ID)))
}

#[library_benchmark]
#[bench::of(ids::minter())]
fn id_mint(minter: Minter) -> (BrandedId, Minter) {
    (black_box(ids::mint(black_box(&minter))), minter)
}

#[library_benchmark]
#[bench::of(ids::minter())]
fn id_mint_100(minter: Minter) -> (Vec<BrandedId>, Minter) {
    (black_box(ids::mint_hundred(black_box(&minter))), minter)
}

#[library_benchmark]
fn id_derive() -> BrandedId {
    black_box(ids::derive(black_box(ids::NAME)))
}

#[library_benchmark]
fn key_slot() -> u16 {
    black_box(ids::slot_of(black_box(ids::KEY)))
}

#[library_benchmark]
fn key_parse() -> Key {
    black_box(ids::parse_key(black_box(ids::KEY)))
}

#[library_benchmark]
#[bench::of((ids::keys(), ids::parse(ids::ID)))]
fn key_of_a_job(given: (QueueKeys, BrandedId)) -> (String, QueueKeys) {
    (black_box(ids::job_key(black_box(&given.0), &given.1)), given.0)
}

library_benchmark_group!(
    name = codec_group,
    benchmarks = [
        encode_set,
        encode_pipeline_100,
        encode_enqueue,
        encode_enqueue_many_100,
        encode_turn_100,
        decode_short_100,
        decode_turn_100,
        read_turn_100
    ]
);

library_benchmark_group!(
    name = ids_group,
    benchmarks = [id_parse, id_mint, id_mint_100, id_derive, key_slot, key_parse, key_of_a_job]
);

main!(library_benchmark_groups = [codec_group, ids_group]);
