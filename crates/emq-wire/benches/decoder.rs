//! The decoder beside `redis-protocol`, in one run and in turn: medians of 101 short rounds, and
//! the median of the ratios of two neighbouring rounds.
//!
//! `cargo bench -p emq-wire --bench decoder`. A figure is nanoseconds for one reply, the copy
//! into the read buffer and the drop of the reply included, as on a connection.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use emq_wire::{Cmd, Decoder, Limits, Pipeline, Reply};

const ROUNDS: usize = 101;
const ROUND: Duration = Duration::from_millis(4);

/// Replies as they arrive: `pieces` are the reads.
struct Load {
    name: &'static str,
    replies: usize,
    pieces: Vec<Vec<u8>>,
}

impl Load {
    fn new(name: &'static str, replies: usize, bytes: &[u8], read: usize) -> Self {
        Self { name, replies, pieces: bytes.chunks(read).map(<[u8]>::to_vec).collect() }
    }
}

fn bulk(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// What a claim of 100 jobs answers: id, token, attempts, kind, deadline, payload.
fn turn(payload: usize) -> Vec<u8> {
    let mut out = b"*100\r\n".to_vec();
    for job in 0..100 {
        out.extend_from_slice(b"*6\r\n");
        bulk(&mut out, format!("JOB{job:011}").as_bytes());
        out.extend_from_slice(format!(":{}\r\n", 1000 + job).as_bytes());
        bulk(&mut out, b"1");
        bulk(&mut out, b"desk.fill");
        bulk(&mut out, b"1764460800123");
        bulk(&mut out, &vec![b'x'; payload]);
    }
    out
}

fn own(load: &Load, buf: &mut BytesMut, decoder: &mut Decoder) -> usize {
    let mut replies = 0;
    for piece in &load.pieces {
        buf.reserve(16 * 1024);
        buf.extend_from_slice(piece);
        while let Some(reply) = decoder.decode(buf).expect("valid") {
            black_box(&reply);
            replies += 1;
        }
    }
    replies
}

fn theirs(load: &Load, buf: &mut BytesMut) -> usize {
    let mut replies = 0;
    for piece in &load.pieces {
        buf.reserve(16 * 1024);
        buf.extend_from_slice(piece);
        while let Some((frame, _, _)) =
            redis_protocol::resp2::decode::decode_bytes_mut(buf).expect("valid")
        {
            black_box(&frame);
            replies += 1;
        }
    }
    replies
}

/// Nanoseconds for one reply, over one round.
fn time(mut pass: impl FnMut() -> usize) -> f64 {
    let start = Instant::now();
    let mut replies = 0;
    while start.elapsed() < ROUND {
        replies += pass();
    }
    start.elapsed().as_nanos() as f64 / replies as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn decode(load: &Load) {
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    let (mut buf, mut decoder) = (BytesMut::new(), Decoder::new(Limits::default()));
    let mut other_buf = BytesMut::new();
    for _ in 0..ROUNDS {
        ours.push(time(|| own(load, &mut buf, &mut decoder)));
        others.push(time(|| theirs(load, &mut other_buf)));
    }
    assert_eq!(own(load, &mut buf, &mut decoder), load.replies);
    let ratio = median(ours.iter().zip(&others).map(|(our, other)| other / our).collect());
    let (ours, others) = (median(ours), median(others));
    println!("{:<44}{ours:>12.1}{others:>18.1}{ratio:>8.2}", load.name);
}

fn encode(name: &str, mut build: impl FnMut() -> usize) {
    let figures = (0..ROUNDS).map(|_| {
        time(|| {
            for _ in 0..100 {
                black_box(build());
            }
            100
        })
    });
    println!("{name:<44}{:>12.1}", median(figures.collect()));
}

fn main() {
    println!("{:<44}{:>12}{:>18}{:>8}", "one reply, ns", "emq-wire", "redis-protocol", "ratio");
    let many = |frame: &[u8]| frame.repeat(1000);
    let mut value = Vec::new();
    bulk(&mut value, &[b'v'; 100]);
    let mut short = Vec::new();
    bulk(&mut short, b"JOB00000000001");
    let mut big = Vec::new();
    bulk(&mut big, &vec![b'b'; 1 << 20]);
    for load in [
        Load::new("+OK", 1000, &many(b"+OK\r\n"), 1 << 16),
        Load::new(":1", 1000, &many(b":1\r\n"), 1 << 16),
        Load::new("a string of 14 bytes", 1000, &many(&short), 1 << 14),
        Load::new("a string of 100 bytes", 1000, &many(&value), 1 << 14),
        Load::new("100 jobs x 6 fields, 40 B payload, one read", 1, &turn(40), 1 << 16),
        Load::new("100 jobs x 6 fields, 100 B payload, one read", 1, &turn(100), 1 << 16),
        Load::new("the same, reads of 4 KiB", 1, &turn(100), 1 << 12),
        Load::new("the same, reads of 1,448 B (one TCP segment)", 1, &turn(100), 1448),
        Load::new("a string of 1 MiB, reads of 16 KiB", 1, &big, 1 << 14),
    ] {
        decode(&load);
    }

    println!("\nencoding, ns");
    encode("SET key value", || Cmd::new("SET").arg("key:1").arg("value").to_bytes().len());
    encode("HSET key field value", || {
        Cmd::new("HSET").arg("key:1").arg("f").arg("value").to_bytes().len()
    });
    encode("a pipeline of 100 SETs, each", || {
        let mut pipeline = Pipeline::with_capacity(4096);
        for _ in 0..100 {
            pipeline.push(Cmd::new("SET").arg("key:1").arg("value"));
        }
        pipeline.byte_len()
    });

    let mut decoder = Decoder::new(Limits::default());
    let mut buf = BytesMut::from(&turn(100)[..]);
    let reply = decoder.decode(&mut buf).expect("valid").expect("whole");
    println!("\none reply in memory");
    println!("{:<44}{:>12}", "size of a Reply, bytes", size_of::<Reply>());
    encode("clone and detach 100 jobs x 6 fields, ns", || {
        black_box(reply.clone().detach());
        1
    });
}
