//! Frame by frame: what each looks like when it is right.

use bytes::{Bytes, BytesMut};
use emq_wire::{Decoder, Limits, Reply, ServerError};

use crate::feed::{one, whole};

fn bulk(text: &str) -> Reply {
    Reply::Bulk(Bytes::copy_from_slice(text.as_bytes()))
}

fn simple(text: &str) -> Reply {
    Reply::Simple(Bytes::copy_from_slice(text.as_bytes()))
}

fn error(line: &str) -> Reply {
    Reply::Error(ServerError::from_line(Bytes::copy_from_slice(line.as_bytes())))
}

/// Every type, as bytes and as a value.
pub(crate) fn table() -> Vec<(&'static [u8], Reply)> {
    vec![
        (b"+OK\r\n", simple("OK")),
        (b"+PONG\r\n", simple("PONG")),
        (b"+QUEUED\r\n", simple("QUEUED")),
        (b"+\r\n", simple("")),
        (b"+OKAY\r\n", simple("OKAY")),
        (b"+a line that is longer than what is copied\r\n", {
            simple("a line that is longer than what is copied")
        }),
        (b"-ERR unknown command\r\n", error("ERR unknown command")),
        (b"-NOSCRIPT\r\n", error("NOSCRIPT")),
        (b"-\r\n", error("")),
        (b":0\r\n", Reply::Int(0)),
        (b":-1\r\n", Reply::Int(-1)),
        (b":9223372036854775807\r\n", Reply::Int(i64::MAX)),
        (b":-9223372036854775808\r\n", Reply::Int(i64::MIN)),
        (b"$0\r\n\r\n", bulk("")),
        (b"$5\r\nhello\r\n", bulk("hello")),
        (b"$4\r\n\r\n\r\n\r\n", bulk("\r\n\r\n")),
        (b"$7\r\na\0+OK\r\n\r\n", bulk("a\0+OK\r\n")),
        (b"$-1\r\n", Reply::Nil),
        (b"*-1\r\n", Reply::Nil),
        (b"_\r\n", Reply::Nil),
        (b"*0\r\n", Reply::Array(vec![])),
        (b"*2\r\n$1\r\na\r\n:2\r\n", Reply::Array(vec![bulk("a"), Reply::Int(2)])),
        (b"*3\r\n*0\r\n*1\r\n$-1\r\n+OK\r\n", {
            Reply::Array(vec![Reply::Array(vec![]), Reply::Array(vec![Reply::Nil]), simple("OK")])
        }),
        (b"*2\r\n-EMQSTALE token 7\r\n+OK\r\n", {
            Reply::Array(vec![error("EMQSTALE token 7"), simple("OK")])
        }),
        (b",3.25\r\n", Reply::Double(3.25)),
        (b",-1e+20\r\n", Reply::Double(-1e20)),
        (b",10\r\n", Reply::Double(10.0)),
        (b",inf\r\n", Reply::Double(f64::INFINITY)),
        (b",-inf\r\n", Reply::Double(f64::NEG_INFINITY)),
        (b"#t\r\n", Reply::Bool(true)),
        (b"#f\r\n", Reply::Bool(false)),
        (b"(-3492890328409238509324850943850943825024385\r\n", {
            Reply::BigNumber(Bytes::from_static(b"-3492890328409238509324850943850943825024385"))
        }),
        (b"=8\r\ntxt:a\r\nb\r\n", {
            Reply::Verbatim { format: *b"txt", text: Bytes::from_static(b"a\r\nb") }
        }),
        (b"=4\r\nmkd:\r\n", Reply::Verbatim { format: *b"mkd", text: Bytes::new() }),
        (b"!10\r\nERR a\r\nb c\r\n", error("ERR a\r\nb c")),
        (b"%0\r\n", Reply::Map(vec![])),
        (b"%2\r\n+b\r\n:1\r\n+a\r\n*1\r\n:2\r\n", {
            Reply::Map(vec![
                (simple("b"), Reply::Int(1)),
                (simple("a"), Reply::Array(vec![Reply::Int(2)])),
            ])
        }),
        (b"~2\r\n:1\r\n:1\r\n", Reply::Set(vec![Reply::Int(1), Reply::Int(1)])),
        (b">2\r\n+message\r\n$1\r\nx\r\n", Reply::Push(vec![simple("message"), bulk("x")])),
        (b"|1\r\n+ttl\r\n:3600\r\n:7\r\n", Reply::Int(7)),
        (b"|1\r\n+a\r\n*1\r\n|1\r\n+b\r\n+c\r\n:1\r\n|0\r\n+OK\r\n", simple("OK")),
        (b"*2\r\n:1\r\n|1\r\n+ttl\r\n:3600\r\n:2\r\n", {
            Reply::Array(vec![Reply::Int(1), Reply::Int(2)])
        }),
        (b"%1\r\n|1\r\n+k\r\n+v\r\n+key\r\n|1\r\n+k\r\n+v\r\n+value\r\n", {
            Reply::Map(vec![(simple("key"), simple("value"))])
        }),
    ]
}

#[test]
fn each_type_is_read_as_it_was_meant() {
    for (bytes, reply) in table() {
        assert_eq!(one(bytes), reply, "{:?}", String::from_utf8_lossy(bytes));
    }
    for nan in [&b",nan\r\n"[..], b",-nan\r\n"] {
        assert!(matches!(one(nan), Reply::Double(value) if value.is_nan()));
    }
}

#[test]
fn a_stream_of_all_types_comes_out_in_order() {
    let bytes: Vec<u8> = table().iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
    let replies: Vec<Reply> = table().into_iter().map(|(_, reply)| reply).collect();
    let outcome = whole(&bytes);
    assert_eq!((outcome.replies, outcome.error, outcome.left), (replies, None, 0));
}

#[test]
fn a_server_error_keeps_every_word() {
    let Reply::Error(error) = one(b"-WRONGTYPE Operation  against a key\r\n") else { panic!() };
    assert_eq!(error.class(), "WRONGTYPE");
    assert_eq!(error.message(), "Operation  against a key");
    assert!(error.is("WRONGTYPE") && !error.is("WRONG"));

    let Reply::Error(error) = one(b"-\xff\xfe bytes\r\n") else { panic!() };
    assert_eq!((error.class(), error.message().as_ref()), ("", "bytes"));
    assert_eq!(&error.line()[..], b"\xff\xfe bytes");
}

#[test]
fn between_replies_means_that_nothing_was_begun() {
    for begun in [&b"*1\r\n"[..], b"$5\r\nhe", b"|1\r\n+a\r\n:1\r\n", b"|0\r\n", b"%1\r\n+k\r\n"] {
        let mut decoder = Decoder::new(Limits::default());
        let mut buf = BytesMut::from(begun);
        assert!(decoder.is_between_replies());
        assert_eq!(decoder.decode(&mut buf), Ok(None));
        assert!(!decoder.is_between_replies(), "{begun:?}");
    }
    let mut decoder = Decoder::new(Limits::default());
    let mut buf = BytesMut::from(&b"*1\r\n|1\r\n+a\r\n:1\r\n:5\r\n:6\r\n"[..]);
    assert_eq!(decoder.decode(&mut buf), Ok(Some(Reply::Array(vec![Reply::Int(5)]))));
    assert!(decoder.is_between_replies());
    assert_eq!(decoder.decode(&mut buf), Ok(Some(Reply::Int(6))));
}

#[test]
fn short_strings_are_copies_and_long_ones_are_slices() {
    let mut decoder = Decoder::new(Limits::default());
    for (len, slice) in [(1, false), (32, false), (33, true), (1000, true)] {
        let mut buf = BytesMut::from(format!("${len}\r\n{}\r\n", "x".repeat(len)).as_bytes());
        let memory = buf.as_ptr() as usize..buf.as_ptr() as usize + buf.len();
        let Ok(Some(Reply::Bulk(text))) = decoder.decode(&mut buf) else { panic!() };
        assert_eq!(text.len(), len);
        assert_eq!(memory.contains(&(text.as_ptr() as usize)), slice, "{len}");
    }
}

#[test]
fn errors_are_always_copies() {
    let line = format!("-ERR {}\r\n", "x".repeat(500));
    let mut buf = BytesMut::from(line.as_bytes());
    let memory = buf.as_ptr() as usize..buf.as_ptr() as usize + buf.len();
    let decoded = Decoder::new(Limits::default()).decode(&mut buf).unwrap().unwrap();
    let error = decoded.as_error().unwrap();
    assert_eq!(error.line().len(), 504);
    assert!(!memory.contains(&(error.line().as_ptr() as usize)));
}

#[test]
fn a_huge_string_takes_the_buffer_with_it() {
    let mut decoder = Decoder::new(Limits::default());
    let mut buf =
        BytesMut::from(format!("$1000000\r\n{}\r\n:1\r\n", "x".repeat(1_000_000)).as_bytes());
    buf.reserve(5_000_000);
    let Ok(Some(Reply::Bulk(text))) = decoder.decode(&mut buf) else { panic!() };
    assert_eq!(text.len(), 1_000_000);
    assert!(buf.capacity() < 1000, "{} bytes go on being held", buf.capacity());
    assert_eq!(decoder.decode(&mut buf), Ok(Some(Reply::Int(1))));
    assert!(buf.is_empty());
}

#[test]
fn detaching_changes_nothing_but_the_memory() {
    let mut replies: Vec<Reply> = table().into_iter().map(|(_, reply)| reply).collect();
    replies.push(bulk(&"long ".repeat(100)));
    let reply = Reply::Array(replies);
    assert_eq!(reply.clone().detach(), reply);

    let mut buf =
        BytesMut::from(&b"*2\r\n$40\r\n0123456789012345678901234567890123456789\r\n$-1\r\n"[..]);
    let memory = buf.as_ptr() as usize..buf.as_ptr() as usize + buf.len();
    let decoded = Decoder::new(Limits::default()).decode(&mut buf).unwrap().unwrap();
    let inside = |reply: &Reply| {
        let text = reply.as_array().and_then(|items| items[0].as_bytes()).unwrap();
        memory.contains(&(text.as_ptr() as usize))
    };
    assert!(inside(&decoded));
    let detached = decoded.clone().detach();
    assert!(!inside(&detached));
    assert_eq!(detached, decoded);
}
