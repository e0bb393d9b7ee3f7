//! Calls made before the clock starts, over a socket of one's own: what a script itself allows.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use emq_testkit::Valkey;
use emq_wire::{Cmd, Decoder, Limits, Reply, Script};

use crate::{Failure, require};

/// Bytes that are read at once.
const READ: usize = 64 * 1024;

/// Commands that leave in one write.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    replies: usize,
}

impl Batch {
    pub(crate) fn push(&mut self, cmd: &Cmd) {
        self.bytes.extend_from_slice(&cmd.to_bytes());
        self.replies += 1;
    }

    /// Commands cut into batches of `size`.
    pub(crate) fn cut(cmds: &[Cmd], size: usize) -> Vec<Batch> {
        let batch = |cmds: &[Cmd]| {
            let mut batch = Batch::default();
            cmds.iter().for_each(|cmd| batch.push(cmd));
            batch
        };
        cmds.chunks(size).map(batch).collect()
    }
}

/// The socket.
pub(crate) struct Raw {
    stream: TcpStream,
    decoder: Decoder,
    buf: BytesMut,
    piece: Box<[u8]>,
}

impl Raw {
    pub(crate) fn connect(valkey: &Valkey) -> Result<Raw, Failure> {
        let stream = TcpStream::connect(("127.0.0.1", valkey.port()))?;
        stream.set_nodelay(true)?;
        Ok(Raw {
            stream,
            decoder: Decoder::new(Limits::default()),
            buf: BytesMut::new(),
            piece: vec![0; READ].into_boxed_slice(),
        })
    }

    /// Makes sure that the server knows a script.
    pub(crate) fn load(&mut self, script: &Script) -> Result<(), Failure> {
        let mut load = Batch::default();
        load.push(&Cmd::new("SCRIPT").arg("LOAD").arg(script.source()));
        self.run(&[load], 1)?;
        Ok(())
    }

    /// Sends the batches, at most `window` of them unanswered, and answers how long it took until
    /// the last reply. A reply that is an error ends the run.
    pub(crate) fn run(&mut self, batches: &[Batch], window: usize) -> Result<Duration, Failure> {
        let mut waiting = VecDeque::with_capacity(window);
        let begun = Instant::now();
        for batch in batches {
            if waiting.len() == window {
                self.take(waiting.pop_front().unwrap_or(0))?;
            }
            self.stream.write_all(&batch.bytes)?;
            waiting.push_back(batch.replies);
        }
        for replies in waiting {
            self.take(replies)?;
        }
        let took = begun.elapsed();
        require(self.buf.is_empty(), || "more replies came than commands left".to_owned())?;
        Ok(took)
    }

    /// Sends one batch and waits for nothing.
    pub(crate) fn send(&mut self, batch: &Batch) -> Result<(), Failure> {
        Ok(self.stream.write_all(&batch.bytes)?)
    }

    /// Waits for so many replies; one that is an error ends the run.
    pub(crate) fn take(&mut self, mut replies: usize) -> Result<(), Failure> {
        while replies > 0 {
            match self.decoder.decode(&mut self.buf)? {
                Some(Reply::Error(error)) => return Err(error.to_string().into()),
                Some(_) => replies -= 1,
                None => self.read()?,
            }
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Failure> {
        let read = self.stream.read(&mut self.piece)?;
        require(read > 0, || "the server closed the socket".to_owned())?;
        self.buf.extend_from_slice(&self.piece[..read]);
        Ok(())
    }
}
