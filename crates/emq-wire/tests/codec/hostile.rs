//! Frames that no server sends.

use emq_wire::{Limits, ProtocolError, Reply};

use crate::feed::{feed, whole};

#[track_caller]
fn refuses(bytes: &[u8], limits: Limits, error: &ProtocolError) {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    assert_eq!(feed([bytes], limits).error.as_ref(), Some(error), "whole: {shown:?}");
    assert_eq!(feed(bytes.chunks(1), limits).error.as_ref(), Some(error), "cut: {shown:?}");
}

#[test]
fn malformed_frames_have_typed_errors() {
    use ProtocolError::*;
    for (bytes, error) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], UnknownType(b'H')),
        (b"\r\n", UnknownType(b'\r')),
        (b"\0", UnknownType(0)),
        (b"\xff", UnknownType(0xff)),
        (b"@1\r\n", UnknownType(b'@')),
        (b"+OK\r\nx", UnknownType(b'x')),
        (b":\r\n", BadInteger),
        (b":+5\r\n", BadInteger),
        (b":-0\r\n", BadInteger),
        (b":01\r\n", BadInteger),
        (b": 1\r\n", BadInteger),
        (b":1.5\r\n", BadInteger),
        (b":9223372036854775808\r\n", BadInteger),
        (b":-9223372036854775809\r\n", BadInteger),
        (b":111111111111111111111111111111\r\n", BadInteger),
        (b":1\n", BadInteger),
        (b":1\r\r", BadInteger),
        (b"$-2\r\n", BadLength),
        (b"$-0\r\n", BadLength),
        (b"$+1\r\na\r\n", BadLength),
        (b"$01\r\na\r\n", BadLength),
        (b"$?\r\n", BadLength),
        (b"$\r\n", BadLength),
        (b"$1x\r\n", BadLength),
        (b"$9223372036854775808\r\n", BadLength),
        (b"*-2\r\n", BadLength),
        (b"*?\r\n", BadLength),
        (b"*1 \r\n", BadLength),
        (b"%-1\r\n", BadLength),
        (b"~-1\r\n", BadLength),
        (b">-1\r\n", BadLength),
        (b"|-1\r\n", BadLength),
        (b"=-1\r\n", BadLength),
        (b"!-1\r\n", BadLength),
        (b"$3\r\nabcd\r\n", MissingCrlf),
        (b"$3\r\nab\r\n+", MissingCrlf),
        (b"$0\r\n+OK\r\n", MissingCrlf),
        (b"!3\r\nERR\n\r", MissingCrlf),
        (b"+OK\n", MissingCrlf),
        (b"+OK\rX", MissingCrlf),
        (b"+a\nb\r\n", MissingCrlf),
        (b"-ERR\r\r\n", MissingCrlf),
        (b"_0\r\n", BadNull),
        (b"#\r\n", BadBool),
        (b"#true\r\n", BadBool),
        (b"#T\r\n", BadBool),
        (b",\r\n", BadDouble),
        (b",1.2.3\r\n", BadDouble),
        (b",Inf\r\n", BadDouble),
        (b",0x10\r\n", BadDouble),
        (b"(\r\n", BadBigNumber),
        (b"(12a\r\n", BadBigNumber),
        (b"=3\r\ntxt\r\n", BadVerbatim),
        (b"=0\r\n\r\n", BadVerbatim),
        (b"=5\r\ntxt_a\r\n", BadVerbatim),
        (b"*1\r\n>1\r\n+x\r\n", NestedPush),
        (b"|1\r\n+a\r\n>1\r\n+x\r\n", NestedPush),
    ] {
        refuses(bytes, Limits::default(), &error);
    }
}

#[test]
fn announced_lengths_are_refused_at_once() {
    let limits = Limits::default();
    let too_long = |announced| ProtocolError::BulkTooLong { announced, limit: 512 << 20 };
    refuses(b"$536870913\r\n", limits, &too_long(536_870_913));
    refuses(b"$9223372036854775807\r\n", limits, &too_long(i64::MAX as u64));
    refuses(b"!9223372036854775807\r\n", limits, &too_long(i64::MAX as u64));
    refuses(b"=9223372036854775807\r\n", limits, &too_long(i64::MAX as u64));
    let too_many = ProtocolError::TooManyElements { limit: limits.max_elements };
    for tag in ["*", "%", "~", ">", "|"] {
        refuses(format!("{tag}9223372036854775807\r\n").as_bytes(), limits, &too_many);
        refuses(format!("{tag}8388609\r\n").as_bytes(), limits, &too_many);
    }
    // A pair is two elements.
    refuses(b"%4194305\r\n", limits, &too_many);
    assert_eq!(whole(b"%4194304\r\n").error, None);
}

#[test]
fn the_bounds_hold_for_the_whole_reply_and_start_again_with_the_next() {
    let limits = Limits { max_elements: 10, max_reply_bytes: 10, ..Limits::default() };
    let too_many = ProtocolError::TooManyElements { limit: 10 };
    refuses(b"*5\r\n*6\r\n", limits, &too_many);
    refuses(b"*2\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n*5\r\n", limits, &too_many);
    let too_long = ProtocolError::ReplyTooLong { limit: 10 };
    refuses(b"*2\r\n$6\r\nabcdef\r\n$5\r\n", limits, &too_long);
    refuses(b"*2\r\n+abcdef\r\n-abcde\r\n", limits, &too_long);
    refuses(b"*2\r\n$6\r\nabcdef\r\n(12345\r\n", limits, &too_long);
    refuses(b"$11\r\n", limits, &too_long);

    let fits =
        b"*5\r\n*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n$4\r\nabcd\r\n+abc\r\n$3\r\nabc\r\n:1\r\n";
    let twice = [&fits[..], fits].concat();
    let outcome = feed([&twice[..]], limits);
    assert_eq!((outcome.replies.len(), outcome.error, outcome.left), (2, None, 0));
    assert_eq!(feed(twice.chunks(1), limits).replies, outcome.replies);
}

#[test]
fn nesting_is_bounded_without_recursion() {
    let limits = Limits::default();
    let nested = |depth: usize| ["*1\r\n".repeat(depth), ":1\r\n".to_owned()].concat();
    let outcome = whole(nested(64).as_bytes());
    assert_eq!((outcome.replies.len(), outcome.error), (1, None));
    let too_deep = ProtocolError::TooDeep { limit: 64 };
    refuses(nested(65).as_bytes(), limits, &too_deep);
    refuses(nested(10_000).as_bytes(), limits, &too_deep);
    refuses("|1\r\n".repeat(10_000).as_bytes(), limits, &too_deep);
    refuses("%1\r\n".repeat(10_000).as_bytes(), limits, &too_deep);
    // An empty one is a level too.
    refuses(["*1\r\n".repeat(64), "*0\r\n".to_owned()].concat().as_bytes(), limits, &too_deep);

    // More than the deepest isn't to be had, whatever is asked for.
    let endless = Limits { max_depth: usize::MAX, ..limits };
    let outcome = feed([nested(Limits::DEEPEST).as_bytes()], endless);
    assert_eq!((outcome.replies.len(), outcome.error), (1, None));
    let too_deep = ProtocolError::TooDeep { limit: Limits::DEEPEST };
    refuses(nested(10_000).as_bytes(), endless, &too_deep);
}

#[test]
fn lines_are_bounded() {
    let limits = Limits { max_line_bytes: 100, ..Limits::default() };
    let too_long = ProtocolError::LineTooLong { limit: 100 };
    for tag in ["+", "-", "(", ",", "#", "_"] {
        refuses([tag, &"1".repeat(101)].concat().as_bytes(), limits, &too_long);
        refuses([tag, &"1".repeat(101), "\r\n"].concat().as_bytes(), limits, &too_long);
        refuses([tag, &"1".repeat(100_000)].concat().as_bytes(), limits, &too_long);
    }
    let fits = ["+", &"1".repeat(100), "\r\n"].concat();
    assert_eq!(feed([fits.as_bytes()], limits).replies, [Reply::Simple("1".repeat(100).into())]);
    // A number needs no line bound: it can't be longer than 64 bits.
    refuses([":", &"1".repeat(100_000)].concat().as_bytes(), limits, &ProtocolError::BadInteger);
    refuses(["$", &"1".repeat(100_000)].concat().as_bytes(), limits, &ProtocolError::BadLength);
}

#[test]
fn attributes_can_not_go_on_for_ever() {
    let limits = Limits { max_elements: 1000, ..Limits::default() };
    let too_many = ProtocolError::TooManyElements { limit: 1000 };
    refuses("|0\r\n".repeat(2000).as_bytes(), limits, &too_many);
    refuses("|1\r\n+a\r\n+b\r\n".repeat(2000).as_bytes(), limits, &too_many);
    refuses(["*1\r\n", &"|0\r\n".repeat(2000)].concat().as_bytes(), limits, &too_many);
    let bomb = format!("|1\r\n+a\r\n{}:1\r\n:1\r\n", "*400\r\n".repeat(3));
    refuses(bomb.as_bytes(), limits, &too_many);
}

#[test]
fn what_stands_before_an_error_still_counts() {
    let outcome = whole(b"+OK\r\n:7\r\n$-2\r\n+never\r\n");
    assert_eq!(outcome.replies, [Reply::Simple("OK".into()), Reply::Int(7)]);
    assert_eq!(outcome.error, Some(ProtocolError::BadLength));
}
