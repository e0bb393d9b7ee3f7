//! What the codec does for one call, and what it is given.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use contender::payload;
use emq_keys::{BrandedId, Minter, Namespace, NodeId, QueueKeys, QueueName};
use emq_scripts::{
    AdmitOptions, Bundle, Enqueue, EnqueueMany, ManyItem, ScriptCall, Settle, SettleOutcome, Turn,
    Turned,
};
use emq_wire::{Cmd, Decoder, Limits, Pipeline, Reply};

/// Jobs of a list and of a turn.
pub const JOBS: usize = 100;
/// A fixed time, so that each run encodes the same ids.
const UNIX_MS: u64 = 1_769_526_697_641;

/// What calls are made of.
pub struct Sample {
    bundle: Arc<Bundle>,
    keys: QueueKeys,
    ids: Vec<BrandedId>,
    payloads: Vec<String>,
}

impl Sample {
    pub fn new() -> Sample {
        let minter = Minter::new(NodeId::new(7).expect("a node"));
        let ids = minter.mint_many_at(Namespace::JOB, JOBS, UNIX_MS).expect("a block");
        Sample {
            bundle: Bundle::embedded(),
            keys: QueueKeys::new(QueueName::new("orders").expect("a name")),
            ids: ids.collect(),
            payloads: (0..JOBS).map(payload).collect(),
        }
    }

    fn encode<C: ScriptCall>(&self, call: &C) -> Bytes {
        call.encode(self.bundle.script(C::SCRIPT), &self.keys).to_bytes()
    }

    fn settles(&self) -> Vec<Settle<'_>> {
        let settle = |id: &BrandedId| Settle {
            id: *id,
            token: 1,
            ticket: Some("bench.1"),
            outcome: SettleOutcome::Complete,
        };
        self.ids.iter().map(settle).collect()
    }
}

fn turn<'a>(settles: &'a [Settle<'a>]) -> Turn<'a> {
    Turn {
        ticket: Some("bench.1"),
        lease: Duration::from_secs(30),
        claim: 100,
        promote: 200,
        reap: 0,
        lost_cap: 10,
        max_attempts: 25,
        settles,
        extensions: &[],
    }
}

pub fn encode_set() -> Bytes {
    Cmd::new("SET").arg(black_box("key:1")).arg(black_box("value")).to_bytes()
}

pub fn encode_pipeline() -> usize {
    let set = || Cmd::new("SET").arg(black_box("key:1")).arg(black_box("value"));
    let pipeline: Pipeline = (0..JOBS).map(|_| set()).collect();
    black_box(pipeline).byte_len()
}

pub fn encode_enqueue(sample: &Sample) -> Bytes {
    let (id, payload) = (sample.ids[0], sample.payloads[0].as_bytes());
    sample.encode(&Enqueue { id, payload, options: AdmitOptions::default(), durable: false })
}

pub fn encode_enqueue_many(sample: &Sample) -> Bytes {
    let item = |(id, payload)| -> ManyItem<'_> {
        let (id, payload): (&BrandedId, &String) = (id, payload);
        let options = AdmitOptions::default();
        ManyItem { id: *id, payload: payload.as_bytes(), group: None, run_at_ms: None, options }
    };
    let items: Vec<_> = sample.ids.iter().zip(&sample.payloads).map(item).collect();
    sample.encode(&EnqueueMany { items: &items, durable: false })
}

pub fn encode_turn(sample: &Sample) -> Bytes {
    sample.encode(&turn(&sample.settles()))
}

/// Bytes of a hundred short replies.
pub fn short_replies() -> Bytes {
    b"+OK\r\n:1\r\n".repeat(JOBS / 2).into()
}

/// Bytes of what a turn answers that settled and claimed a hundred.
pub fn turn_reply(sample: &Sample) -> Bytes {
    let mut out = b"*7\r\n*100\r\n".to_vec();
    out.extend(b":1\r\n".repeat(JOBS));
    out.extend_from_slice(b"*0\r\n*600\r\n");
    let bulk = |out: &mut Vec<u8>, text: &[u8]| {
        out.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    };
    for (id, payload) in sample.ids.iter().zip(&sample.payloads) {
        bulk(&mut out, id.as_bytes());
        bulk(&mut out, payload.as_bytes());
        out.extend_from_slice(b":1\r\n");
        for _ in ["lane", "checkpoint", "kind"] {
            bulk(&mut out, b"");
        }
    }
    out.extend_from_slice(b":30000\r\n:0\r\n:0\r\n:0\r\n");
    out.into()
}

/// All replies in `bytes`, read in pieces of 16 KiB as from a socket.
pub fn decode(bytes: &Bytes) -> Vec<Reply> {
    let (mut decoder, mut buf) = (Decoder::new(Limits::default()), BytesMut::new());
    let mut replies = Vec::new();
    for piece in bytes.chunks(16 * 1024) {
        buf.extend_from_slice(piece);
        while let Some(reply) = decoder.decode(&mut buf).expect("valid") {
            replies.push(reply);
        }
    }
    replies
}

/// The typed answer of a turn.
pub fn read_turn(sample: &Sample, reply: &Reply) -> Turned {
    turn(&sample.settles()).read(reply).expect("an answer of the turn")
}
