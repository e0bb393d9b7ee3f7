//! A stream must mean the same however it is cut, and never break a decoder or its bounds.
//!
//! The first byte says how the rest is cut and which bounds hold: each byte of a small table of
//! sizes would be lost on a fuzzer that only looks at coverage, so the sizes follow from one seed.

#![no_main]

use bytes::BytesMut;
use emq_wire::{Decoder, Limits, ProtocolError, Reply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&seed, stream)) = data.split_first() else { return };
    let limits = if seed & 1 == 0 { Limits::default() } else { tight() };
    let whole = decode(std::iter::once(stream), limits);
    let cut = decode(Cuts { rest: stream, state: u32::from(seed) | 0x100 }, limits);
    assert_eq!(whole, cut, "a cut changed the meaning");
    for reply in &whole.replies {
        check(&reply.0, 0, &mut Totals::default(), limits);
    }
});

/// Bounds that short inputs meet.
fn tight() -> Limits {
    Limits {
        max_bulk_bytes: 64,
        max_reply_bytes: 100,
        max_depth: 3,
        max_elements: 12,
        max_line_bytes: 16,
    }
}

#[derive(Debug, PartialEq)]
struct Outcome {
    replies: Vec<Same>,
    error: Option<ProtocolError>,
    left: usize,
}

/// A reply that is equal to itself even where it holds a nan.
#[derive(Debug)]
struct Same(Reply);

impl PartialEq for Same {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || format!("{:?}", self.0) == format!("{:?}", other.0)
    }
}

fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: Limits) -> Outcome {
    let mut decoder = Decoder::new(limits);
    let mut buf = BytesMut::new();
    let mut replies = Vec::new();
    for piece in pieces {
        buf.extend_from_slice(piece);
        loop {
            let before = buf.len();
            match decoder.decode(&mut buf) {
                Ok(Some(reply)) => {
                    assert!(buf.len() < before, "a reply takes bytes");
                    assert!(decoder.is_between_replies());
                    replies.push(Same(reply));
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.decode(&mut buf), Err(error.clone()), "an error stays");
                    return Outcome { replies, error: Some(error), left: 0 };
                }
            }
        }
    }
    Outcome { replies, error: None, left: buf.len() }
}

/// Pieces of 0 to 15 bytes, from a small generator.
struct Cuts<'a> {
    rest: &'a [u8],
    state: u32,
}

impl<'a> Iterator for Cuts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = (self.state >> 28) as usize;
        let (piece, rest) = self.rest.split_at(size.min(self.rest.len()));
        self.rest = rest;
        Some(piece)
    }
}

#[derive(Default)]
struct Totals {
    elements: usize,
    bytes: usize,
}

/// What came out keeps the bounds that were asked for.
fn check(reply: &Reply, depth: usize, totals: &mut Totals, limits: Limits) {
    let mut text = |len: usize, bound: usize| {
        totals.bytes += len;
        assert!(len <= bound && totals.bytes <= limits.max_reply_bytes);
    };
    let (bulk, line) = (limits.max_bulk_bytes, limits.max_line_bytes);
    match reply {
        Reply::Nil | Reply::Int(_) | Reply::Double(_) | Reply::Bool(_) => {}
        Reply::Simple(bytes) | Reply::BigNumber(bytes) => text(bytes.len(), line),
        Reply::Bulk(bytes) | Reply::Verbatim { text: bytes, .. } => text(bytes.len(), bulk),
        Reply::Error(error) => text(error.line().len(), line.max(bulk)),
        Reply::Array(items) | Reply::Set(items) => inside(items.iter(), depth, totals, limits),
        Reply::Push(items) => {
            assert_eq!(depth, 0, "a push answers nothing and stands in nothing");
            inside(items.iter(), depth, totals, limits);
        }
        Reply::Map(pairs) => {
            inside(pairs.iter().flat_map(|(key, value)| [key, value]), depth, totals, limits);
        }
    }
}

fn inside<'a>(
    items: impl Iterator<Item = &'a Reply>,
    depth: usize,
    totals: &mut Totals,
    limits: Limits,
) {
    assert!(depth < limits.max_depth);
    for item in items {
        totals.elements += 1;
        assert!(totals.elements <= limits.max_elements);
        check(item, depth + 1, totals, limits);
    }
}
