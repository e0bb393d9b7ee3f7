//! One connection: a command out, its reply in. Blocking, without retries or reconnects, so that a
//! contract sees exactly what the server said.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::BytesMut;
use emq_wire::{Cmd, Decoder, Limits, Reply};
use url::Url;

use crate::Failure;

const DEFAULT_PORT: u16 = 6379;
/// How long a server may take for anything; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that can keep a record of what travelled.
#[derive(Debug)]
pub(crate) struct Link {
    socket: TcpStream,
    decoder: Decoder,
    received: BytesMut,
    tape: Option<Vec<Exchange>>,
}

/// What travelled for one command.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
}

impl Link {
    /// Connects, and signs in with what the URL says.
    pub(crate) fn open(url: &str) -> Result<Self, Failure> {
        let parsed = Url::parse(url).map_err(|e| Failure::Url(e.to_string()))?;
        if !matches!(parsed.scheme(), "valkey" | "redis") {
            return Err(Failure::Url(format!("{} is not valkey:// or redis://", parsed.scheme())));
        }
        let host = parsed.host_str().ok_or_else(|| Failure::Url("it has no host".to_owned()))?;
        let port = parsed.port().unwrap_or(DEFAULT_PORT);
        let socket = TcpStream::connect((host.trim_matches(['[', ']']), port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let decoder = Decoder::new(Limits::default());
        let mut link = Self { socket, decoder, received: BytesMut::new(), tape: None };
        if let Some(password) = parsed.password() {
            let user = if parsed.username().is_empty() { "default" } else { parsed.username() };
            link.must(&["AUTH", user, password])?;
        }
        let database = parsed.path().trim_start_matches('/');
        if !database.is_empty() {
            link.must(&["SELECT", database])?;
        }
        Ok(link)
    }

    /// Starts a record, or with `false` drops it.
    pub(crate) fn record(&mut self, yes: bool) {
        self.tape = yes.then(Vec::new);
    }

    /// What travelled since the record was started, or since this was last called.
    pub(crate) fn recorded(&mut self) -> Vec<Exchange> {
        self.tape.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sends a command and waits for its reply; a refusal is a reply.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Reply, Failure> {
        let (name, args) = words.split_first().ok_or_else(|| Failure::shape("no command"))?;
        let mut cmd = Cmd::new(&String::from_utf8_lossy(name.as_ref()));
        for arg in args {
            cmd.push(arg);
        }
        let sent = cmd.to_bytes();
        self.socket.write_all(&sent)?;
        let mut raw = Vec::new();
        let reply = self.read(&mut raw)?;
        if let Some(tape) = &mut self.tape {
            tape.push(Exchange { sent: sent.to_vec(), received: raw });
        }
        Ok(reply)
    }

    /// The same without a place in the record: for the driver's own questions.
    pub(crate) fn aside<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Reply, Failure> {
        let tape = self.tape.take();
        let reply = self.call(words);
        self.tape = tape;
        reply
    }

    /// Sends a command that no server may refuse.
    pub(crate) fn must<A: AsRef<[u8]>>(&mut self, words: &[A]) -> Result<Reply, Failure> {
        let reply = self.aside(words)?;
        match reply.as_error() {
            Some(error) => Err(Failure::shape(&error.message())),
            None => Ok(reply),
        }
    }

    /// The server's time in milliseconds.
    pub(crate) fn clock_ms(&mut self) -> Result<i64, Failure> {
        let reply = self.must(&["TIME"])?;
        let part = |n: usize| {
            let text = reply.as_array()?.get(n)?.as_bytes()?;
            std::str::from_utf8(text).ok()?.parse::<i64>().ok()
        };
        match (part(0), part(1)) {
            (Some(seconds), Some(micros)) => Ok(seconds * 1000 + micros / 1000),
            _ => Err(Failure::shape("TIME answered no time")),
        }
    }

    fn read(&mut self, raw: &mut Vec<u8>) -> Result<Reply, Failure> {
        let mut block = [0; 16 * 1024];
        loop {
            let n = self.socket.read(&mut block)?;
            if n == 0 {
                return Err(Failure::shape("the server closed the connection"));
            }
            raw.extend_from_slice(&block[..n]);
            self.received.extend_from_slice(&block[..n]);
            let decoded = self.decoder.decode(&mut self.received);
            if let Some(reply) = decoded.map_err(|e| Failure::shape(&e.to_string()))? {
                return Ok(reply);
            }
        }
    }
}
