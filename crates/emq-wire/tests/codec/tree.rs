//! Random replies, and an encoder that shares nothing with the decoder.

use bytes::Bytes;
use emq_wire::{Reply, ServerError};
use proptest::prelude::*;

/// Bytes of a value: often with CRLF and NUL inside, sometimes long.
fn payload() -> impl Strategy<Value = Bytes> {
    let byte = prop_oneof![3 => any::<u8>(), 1 => prop::sample::select(&b"\r\n\0$*:+-"[..])];
    prop_oneof![
        8 => prop::collection::vec(byte, 0..48).prop_map(Bytes::from),
        1 => (any::<u8>(), 100..3000_usize).prop_map(|(b, n)| Bytes::from(vec![b; n])),
    ]
}

/// Bytes that fit on a line.
fn line() -> impl Strategy<Value = Bytes> {
    "[ -~]{0,60}".prop_map(Bytes::from)
}

fn error() -> impl Strategy<Value = Reply> {
    line().prop_map(|line| Reply::Error(ServerError::from_line(line)))
}

fn leaf2() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Nil),
        any::<i64>().prop_map(Reply::Int),
        line().prop_map(Reply::Simple),
        prop::sample::select(&["OK", "PONG", "QUEUED"][..]).prop_map(|s| Reply::Simple(s.into())),
        payload().prop_map(Reply::Bulk),
        error(),
    ]
}

fn leaf3() -> impl Strategy<Value = Reply> {
    let double = any::<f64>().prop_filter("a nan isn't equal to itself", |value| !value.is_nan());
    let format = any::<bool>().prop_map(|text| if text { *b"txt" } else { *b"mkd" });
    prop_oneof![
        6 => leaf2(),
        1 => double.prop_map(Reply::Double),
        1 => any::<bool>().prop_map(Reply::Bool),
        1 => "-?[1-9][0-9]{0,60}".prop_map(|digits| Reply::BigNumber(digits.into())),
        1 => (format, payload()).prop_map(|(format, text)| Reply::Verbatim { format, text }),
    ]
}

/// A reply of RESP2.
pub(crate) fn reply2() -> impl Strategy<Value = Reply> {
    leaf2()
        .prop_recursive(6, 64, 8, |inner| prop::collection::vec(inner, 0..8).prop_map(Reply::Array))
}

/// A reply of RESP3. Keys and members are distinct strings: the oracle keeps them in hash tables.
pub(crate) fn reply3() -> impl Strategy<Value = Reply> {
    let keys = || prop::collection::hash_set(payload(), 0..6);
    let tree = leaf3().prop_recursive(6, 64, 8, move |inner| {
        let values = prop::collection::vec(inner.clone(), 6);
        prop_oneof![
            2 => prop::collection::vec(inner, 0..8).prop_map(Reply::Array),
            1 => (keys(), values).prop_map(|(keys, values)| {
                Reply::Map(keys.into_iter().map(Reply::Bulk).zip(values).collect())
            }),
            1 => keys().prop_map(|keys| {
                Reply::Set(keys.into_iter().map(Reply::Bulk).collect())
            }),
        ]
    });
    let push = prop::collection::vec(leaf3(), 1..5).prop_map(Reply::Push);
    prop_oneof![9 => tree, 1 => push]
}

/// How the encoder writes what may be written in more than one way.
#[derive(Clone, Copy)]
pub(crate) enum Dialect {
    Resp2,
    Resp3,
    /// RESP3, with attributes before every value.
    Annotated,
}

pub(crate) fn encode(reply: &Reply, dialect: Dialect, out: &mut Vec<u8>) {
    if matches!(dialect, Dialect::Annotated) {
        out.extend_from_slice(b"|2\r\n+ttl\r\n:3600\r\n$3\r\nset\r\n~2\r\n#t\r\n*1\r\n,1.5\r\n");
    }
    let counted = |out: &mut Vec<u8>, tag: char, count: usize| {
        out.extend_from_slice(format!("{tag}{count}\r\n").as_bytes());
    };
    let text = |out: &mut Vec<u8>, tag: char, parts: &[&[u8]]| {
        counted(out, tag, parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.extend_from_slice(b"\r\n");
    };
    let line = |out: &mut Vec<u8>, tag: u8, text: &[u8]| {
        out.push(tag);
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    };
    match reply {
        Reply::Nil => match dialect {
            Dialect::Resp2 => out.extend_from_slice(b"$-1\r\n"),
            Dialect::Resp3 | Dialect::Annotated => out.extend_from_slice(b"_\r\n"),
        },
        Reply::Int(value) => line(out, b':', value.to_string().as_bytes()),
        Reply::Simple(bytes) => line(out, b'+', bytes),
        Reply::Bulk(bytes) => text(out, '$', &[bytes]),
        Reply::Error(error) => line(out, b'-', error.line()),
        Reply::Double(value) => line(out, b',', format!("{value:?}").as_bytes()),
        Reply::Bool(value) => line(out, b'#', if *value { b"t" } else { b"f" }),
        Reply::BigNumber(digits) => line(out, b'(', digits),
        Reply::Verbatim { format, text: body } => text(out, '=', &[format, b":", body]),
        Reply::Array(items) => items_of(out, '*', items, dialect),
        Reply::Set(items) => items_of(out, '~', items, dialect),
        Reply::Push(items) => items_of(out, '>', items, dialect),
        Reply::Map(pairs) => {
            counted(out, '%', pairs.len());
            for (key, value) in pairs {
                encode(key, dialect, out);
                encode(value, dialect, out);
            }
        }
    }
}

fn items_of(out: &mut Vec<u8>, tag: char, items: &[Reply], dialect: Dialect) {
    out.extend_from_slice(format!("{tag}{}\r\n", items.len()).as_bytes());
    items.iter().for_each(|item| encode(item, dialect, out));
}

/// A stream that looks like RESP often enough to get deep into a decoder.
pub(crate) fn noise() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(&[
            "+OK\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "*2\r\n", "$3\r\nabc\r\n", "%1\r\n", "~2\r\n",
            ">1\r\n", "|1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12\r\n", "=7\r\ntxt:abc\r\n",
            "!3\r\nERR\r\n", "-ERR x\r\n", "*0\r\n", "$0\r\n\r\n", "*3\r\n", "$1\r\n", "\r\n", "$9\r\n",
            ":-0\r\n", "$-2\r\n", "*99999999\r\n", "$99999999999\r\n", "|0\r\n", "\r", "\n",
        ][..]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(prop::sample::select(&b"+-:$*%~>|_#,(=!019tf\r\n"[..]), 1..6),
        1 => prop::collection::vec(any::<u8>(), 1..6),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}
