//! What a real server sends, type by type, read one byte at a time.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{Bytes, BytesMut};
use emq_testkit::Valkey;
use emq_wire::{Cmd, Decoder, Limits, Reply};

struct Raw {
    stream: TcpStream,
    decoder: Decoder,
    buf: BytesMut,
}

impl Raw {
    fn connect(valkey: &Valkey) -> Result<Self, Box<dyn Error>> {
        let stream = TcpStream::connect(("127.0.0.1", valkey.port()))?;
        Ok(Self { stream, decoder: Decoder::new(Limits::default()), buf: BytesMut::new() })
    }

    /// The next reply. One byte for each attempt: every frame is met at every cut.
    fn reply(&mut self) -> Result<Reply, Box<dyn Error>> {
        loop {
            if let Some(reply) = self.decoder.decode(&mut self.buf)? {
                assert!(self.buf.is_empty() && self.decoder.is_between_replies());
                return Ok(reply);
            }
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            self.buf.extend_from_slice(&byte);
        }
    }

    fn call(&mut self, line: &str) -> Result<Reply, Box<dyn Error>> {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        self.send(&words.fold(Cmd::new(name), Cmd::arg))
    }

    fn send(&mut self, cmd: &Cmd) -> Result<Reply, Box<dyn Error>> {
        self.stream.write_all(&cmd.to_bytes())?;
        self.reply()
    }
}

fn bulk(text: &'static str) -> Reply {
    Reply::Bulk(Bytes::from_static(text.as_bytes()))
}

fn ints(values: std::ops::Range<i64>) -> Vec<Reply> {
    values.map(Reply::Int).collect()
}

#[test]
fn every_type_as_a_server_sends_it() -> Result<(), Box<dyn Error>> {
    let valkey = Valkey::builder().config("enable-debug-command yes").start()?;
    let mut raw = Raw::connect(&valkey)?;

    assert_eq!(raw.call("DEBUG PROTOCOL string")?, bulk("Hello World"));
    assert_eq!(raw.call("DEBUG PROTOCOL integer")?, Reply::Int(12345));
    assert_eq!(raw.call("DEBUG PROTOCOL null")?, Reply::Nil);
    assert_eq!(raw.call("DEBUG PROTOCOL array")?, Reply::Array(ints(0..3)));
    assert_eq!(raw.call("DEBUG PROTOCOL double")?, bulk("3.141"));

    let Reply::Map(greeting) = raw.call("HELLO 3")? else { panic!("HELLO 3 answers a map") };
    assert!(greeting.contains(&(bulk("proto"), Reply::Int(3))));

    assert_eq!(raw.call("DEBUG PROTOCOL string")?, bulk("Hello World"));
    assert_eq!(raw.call("DEBUG PROTOCOL integer")?, Reply::Int(12345));
    assert_eq!(raw.call("DEBUG PROTOCOL double")?, Reply::Double("3.141".parse()?));
    assert_eq!(raw.call("DEBUG PROTOCOL null")?, Reply::Nil);
    assert_eq!(raw.call("DEBUG PROTOCOL array")?, Reply::Array(ints(0..3)));
    assert_eq!(raw.call("DEBUG PROTOCOL set")?, Reply::Set(ints(0..3)));
    let map = [(0, false), (1, true), (2, false)].map(|(n, b)| (Reply::Int(n), Reply::Bool(b)));
    assert_eq!(raw.call("DEBUG PROTOCOL map")?, Reply::Map(map.to_vec()));
    let verbatim = Reply::Verbatim {
        format: *b"txt",
        text: Bytes::from_static(b"This is a verbatim\nstring"),
    };
    assert_eq!(raw.call("DEBUG PROTOCOL verbatim")?, verbatim);
    assert_eq!(raw.call("DEBUG PROTOCOL true")?, Reply::Bool(true));
    assert_eq!(raw.call("DEBUG PROTOCOL false")?, Reply::Bool(false));
    let digits = Bytes::from_static(b"1234567999999999999999999999999999999");
    assert_eq!(raw.call("DEBUG PROTOCOL bignum")?, Reply::BigNumber(digits));
    // The attribute before it is dropped.
    let after_attribute = raw.call("DEBUG PROTOCOL attrib")?;
    assert_eq!(after_attribute, bulk("Some real reply following the attribute"));
    // Which of the two comes first depends on the engine's version.
    let both = [raw.call("DEBUG PROTOCOL push")?, raw.reply()?];
    assert!(both.contains(&Reply::Push(vec![bulk("server-cpu-usage"), Reply::Int(42)])));
    assert!(both.contains(&bulk("Some real reply following the push reply")));
    Ok(())
}

#[test]
fn values_and_errors_as_a_server_sends_them() -> Result<(), Box<dyn Error>> {
    let valkey = Valkey::start()?;
    let mut raw = Raw::connect(&valkey)?;
    let value: Vec<u8> = (0..=255).chain(*b"\r\n$-1\r\n\0").collect();
    let set = raw.send(&Cmd::new("SET").arg(b"k\r\n\0").arg(&value))?;
    assert_eq!(set, Reply::Simple(Bytes::from_static(b"OK")));
    assert_eq!(raw.send(&Cmd::new("GET").arg(b"k\r\n\0"))?, Reply::Bulk(value.into()));
    assert_eq!(raw.send(&Cmd::new("SET").arg("n").int(i64::MIN))?.as_bytes().unwrap(), "OK");
    let Reply::Error(error) = raw.call("DECR n")? else { panic!("it underflows") };
    assert_eq!(error.class(), "ERR");
    let Reply::Error(error) = raw.call("EVALSHA ffffffffffffffffffffffffffffffffffffffff 0")?
    else {
        panic!("nobody loaded that")
    };
    assert!(error.is("NOSCRIPT"));
    assert_eq!(raw.call("INCRBY m 9223372036854775807")?, Reply::Int(i64::MAX));
    let nested =
        Cmd::new("EVAL").arg("return {1, {2, {}, false, {err = 'EMQX a b'}}, ''}").arg("0");
    let Reply::Array(items) = raw.send(&nested)? else { panic!("a table is an array") };
    assert_eq!((&items[0], &items[2]), (&Reply::Int(1), &bulk("")));
    let inner = items[1].as_array().unwrap();
    assert_eq!(inner[..3], [Reply::Int(2), Reply::Array(vec![]), Reply::Nil]);
    assert!(inner[3].as_error().is_some_and(|error| error.is("EMQX")));
    Ok(())
}
