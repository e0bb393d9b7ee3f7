//! A socket before it is in service: one caller, one exchange after the other.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::boot::{HandshakeError, is_passing};
use super::core::PUSH_ROOM;
use super::socket::Socket;
use crate::codec::{Cmd, Decoder, Encoded, Limits, Pipeline, Reply};
use crate::error::WireError;
use crate::script::Script;

/// A connection on its way up: one caller, one command after the other.
#[derive(Debug)]
pub struct BootLink {
    pub(crate) socket: Socket,
    pub(crate) read: BytesMut,
    pub(crate) decoder: Decoder,
    pub(crate) client_id: Option<i64>,
    pub(crate) loads: usize,
    /// Push frames that came meanwhile.
    pub(crate) pushes: Vec<Reply>,
    /// Between the first byte written and the last reply.
    midway: bool,
    reconnect: bool,
}

impl BootLink {
    pub(crate) fn new(socket: Socket, limits: Limits, reconnect: bool) -> Self {
        Self {
            socket,
            read: BytesMut::with_capacity(16 * 1024),
            decoder: Decoder::new(limits),
            client_id: None,
            loads: 0,
            pushes: Vec::new(),
            midway: false,
            reconnect,
        }
    }

    /// Whether a call was begun and not ended: whose reply comes next is unknown.
    pub(crate) fn is_midway(&self) -> bool {
        self.midway
    }

    /// Whether this connection has been ready before.
    pub fn is_reconnect(&self) -> bool {
        self.reconnect
    }

    /// Sends one command and waits for its reply; a server error is a value.
    ///
    /// A call whose future is dropped before its reply came leaves the link unusable: the next
    /// one fails, and so does the handshake.
    ///
    /// # Errors
    /// [`HandshakeError::Link`] when the socket fails.
    pub async fn call(&mut self, cmd: Cmd) -> Result<Reply, HandshakeError> {
        self.exchange(cmd.encode()).await.map_err(HandshakeError::Link)?.pop().ok_or_else(|| {
            HandshakeError::Link(WireError::Unexpected { step: "boot", found: "nothing".into() })
        })
    }

    /// Sends several commands in one write and waits for all replies.
    ///
    /// # Errors
    /// [`HandshakeError::Link`] when the socket fails.
    pub async fn call_all(&mut self, pipeline: Pipeline) -> Result<Vec<Reply>, HandshakeError> {
        self.exchange(pipeline.encode()).await.map_err(HandshakeError::Link)
    }

    /// Loads scripts in one pipeline and checks that the server's digests equal ours.
    ///
    /// # Errors
    /// [`HandshakeError::Retry`] when the server can't load now, [`HandshakeError::Link`] when
    /// the socket fails or a digest differs.
    pub async fn load(&mut self, scripts: &[Script]) -> Result<(), HandshakeError> {
        let replies = self.call_all(scripts.iter().map(Script::load).collect()).await?;
        for (script, reply) in scripts.iter().zip(replies) {
            match script.check_loaded(reply) {
                Err(WireError::Server { source, .. }) if is_passing(&source) => {
                    return Err(HandshakeError::Retry(source));
                }
                outcome => outcome.map_err(HandshakeError::Link)?,
            }
            self.loads += 1;
        }
        Ok(())
    }

    /// Writes everything, then reads the replies.
    pub(crate) async fn exchange(&mut self, encoded: Encoded) -> Result<Vec<Reply>, WireError> {
        if self.midway {
            return Err(WireError::Disconnected { written: false });
        }
        self.midway = true;
        self.write(&encoded.bytes).await?;
        let mut replies = Vec::with_capacity(encoded.replies);
        while replies.len() < encoded.replies {
            match self.read_reply().await? {
                push @ Reply::Push(_) if self.pushes.len() < PUSH_ROOM => self.pushes.push(push),
                Reply::Push(_) => {}
                reply => replies.push(reply),
            }
        }
        self.midway = false;
        Ok(replies)
    }

    /// Looks, without waiting, whether a link that nobody reads from is still as it was left: a
    /// peer that hung up is found before a command is wasted on it.
    pub(crate) async fn check_idle(&mut self) -> Result<(), WireError> {
        let lost = WireError::Disconnected { written: false };
        if self.midway {
            return Err(lost);
        }
        let open = poll_fn(|cx| {
            loop {
                self.read.reserve(4096);
                match pin!(self.socket.read_buf(&mut self.read)).poll(cx) {
                    Poll::Pending => return Poll::Ready(true),
                    Poll::Ready(Ok(n)) if n > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(false),
                }
            }
        });
        if !open.await {
            return Err(lost);
        }
        while let Some(reply) = self.decoder.decode(&mut self.read)? {
            if !matches!(reply, Reply::Push(_)) {
                return Err(lost);
            }
        }
        Ok(())
    }

    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), WireError> {
        let mut written = false;
        while !bytes.is_empty() {
            match self.socket.write(bytes).await {
                Ok(n) if n > 0 => bytes = &bytes[n..],
                _ => return Err(WireError::Disconnected { written }),
            }
            written = true;
        }
        Ok(())
    }

    async fn read_reply(&mut self) -> Result<Reply, WireError> {
        loop {
            if let Some(reply) = self.decoder.decode(&mut self.read)? {
                return Ok(reply);
            }
            self.read.reserve(4096);
            match self.socket.read_buf(&mut self.read).await {
                Ok(n) if n > 0 => {}
                _ => return Err(WireError::Disconnected { written: true }),
            }
        }
    }
}
