//! `redis-protocol` as the oracle: another decoder, written by others from the same documents.
//!
//! It is laxer in places (it accepts `:+5`, and any two bytes behind a string) and knows streamed
//! types, so only what both accept is compared.

use bytes::{Bytes, BytesMut};
use emq_wire::{Decoder, Limits, Reply};
use proptest::prelude::*;
use redis_protocol::resp2::types::BytesFrame as Frame2;
use redis_protocol::resp3::types::{BytesFrame as Frame3, VerbatimStringFormat};
use redis_protocol::{resp2, resp3};

use crate::tree::{Dialect, encode, noise, reply2, reply3};

/// One reply and how many bytes it took.
fn ours(bytes: &[u8]) -> Option<(Reply, usize)> {
    let mut buf = BytesMut::from(bytes);
    let reply = Decoder::new(Limits::default()).decode(&mut buf).ok()??;
    Some((reply, bytes.len() - buf.len()))
}

fn oracle2(bytes: &[u8]) -> Option<(Frame2, usize)> {
    resp2::decode::decode_bytes(&Bytes::copy_from_slice(bytes)).ok()?
}

fn oracle3(bytes: &[u8]) -> Option<(Frame3, usize)> {
    resp3::decode::complete::decode_bytes(&Bytes::copy_from_slice(bytes)).ok()?
}

/// The same value in the oracle's types, when it is one of RESP2.
fn frame2(reply: &Reply) -> Option<Frame2> {
    Some(match reply {
        Reply::Nil => Frame2::Null,
        Reply::Int(value) => Frame2::Integer(*value),
        Reply::Simple(text) => Frame2::SimpleString(text.clone()),
        Reply::Bulk(text) => Frame2::BulkString(text.clone()),
        Reply::Error(error) => {
            Frame2::Error(std::str::from_utf8(error.line()).ok()?.to_owned().into())
        }
        Reply::Array(items) => Frame2::Array(items.iter().map(frame2).collect::<Option<Vec<_>>>()?),
        _ => return None,
    })
}

/// The same value in the oracle's types.
fn frame3(reply: &Reply) -> Frame3 {
    let attributes = None;
    let all = |items: &[Reply]| items.iter().map(frame3).collect::<Vec<_>>();
    match reply {
        Reply::Nil => Frame3::Null,
        Reply::Int(data) => Frame3::Number { data: *data, attributes },
        Reply::Double(data) => Frame3::Double { data: *data, attributes },
        Reply::Bool(data) => Frame3::Boolean { data: *data, attributes },
        Reply::Simple(data) => Frame3::SimpleString { data: data.clone(), attributes },
        Reply::Bulk(data) => Frame3::BlobString { data: data.clone(), attributes },
        Reply::BigNumber(data) => Frame3::BigNumber { data: data.clone(), attributes },
        Reply::Error(error) => {
            let data = String::from_utf8_lossy(error.line()).into_owned().into();
            Frame3::SimpleError { data, attributes }
        }
        Reply::Verbatim { format, text } => {
            let format = match format {
                b"mkd" => VerbatimStringFormat::Markdown,
                _ => VerbatimStringFormat::Text,
            };
            Frame3::VerbatimString { data: text.clone(), format, attributes }
        }
        Reply::Array(items) => Frame3::Array { data: all(items), attributes },
        Reply::Push(items) => Frame3::Push { data: all(items), attributes },
        Reply::Set(items) => Frame3::Set { data: items.iter().map(frame3).collect(), attributes },
        Reply::Map(pairs) => {
            let data = pairs.iter().map(|(key, value)| (frame3(key), frame3(value))).collect();
            Frame3::Map { data, attributes }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn resp2_trees_travel_both_ways(reply in reply2()) {
        let frame = frame2(&reply).expect("a tree of RESP2");
        let mut bytes = Vec::new();
        encode(&reply, Dialect::Resp2, &mut bytes);
        prop_assert_eq!(oracle2(&bytes), Some((frame.clone(), bytes.len())));
        prop_assert_eq!(ours(&bytes), Some((reply.clone(), bytes.len())));

        let mut theirs = BytesMut::new();
        resp2::encode::extend_encode(&mut theirs, &frame, false).expect("it encodes");
        prop_assert_eq!(ours(&theirs), Some((reply, theirs.len())));
    }

    #[test]
    fn resp3_trees_travel_both_ways(reply in reply3()) {
        let frame = frame3(&reply);
        let mut bytes = Vec::new();
        encode(&reply, Dialect::Resp3, &mut bytes);
        prop_assert_eq!(oracle3(&bytes), Some((frame.clone(), bytes.len())));

        let mut theirs = BytesMut::new();
        resp3::encode::complete::extend_encode(&mut theirs, &frame, false).expect("it encodes");
        // Sets and maps come in the order of the oracle's hash tables.
        let (again, taken) = ours(&theirs).expect("what the oracle encodes");
        prop_assert_eq!(frame3(&again), frame);
        prop_assert_eq!(taken, theirs.len());
    }

    #[test]
    fn noise_that_both_accept_means_the_same(bytes in noise()) {
        if let (Some((reply, taken)), Some((frame, theirs))) = (ours(&bytes), oracle2(&bytes))
            && let Some(expected) = frame2(&reply)
        {
            prop_assert_eq!((expected, taken), (frame, theirs));
        }
        // The oracle keeps attributes, and tells errors with a length from others.
        let comparable = !bytes.contains(&b'|') && !bytes.contains(&b'!');
        if comparable
            && let (Some((reply, taken)), Some((frame, theirs))) = (ours(&bytes), oracle3(&bytes))
        {
            prop_assert_eq!((frame3(&reply), taken), (frame, theirs));
        }
    }
}

/// What the oracle accepts and we don't, on purpose: if this list shrinks, somebody should know.
#[test]
fn where_we_are_stricter() {
    for bytes in [&b":+5\r\n"[..], b":007\r\n", b":-0\r\n", b"$3\r\nabcXY", b"+a\nb\r\n"] {
        assert!(oracle2(bytes).is_some(), "{bytes:?}");
        assert!(ours(bytes).is_none(), "{bytes:?}");
    }
}
