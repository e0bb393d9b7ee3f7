//! The boot ladder: everything that happens on a socket before the first command of a user.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::socket::Socket;
use crate::codec::{Cmd, Decoder, Encoded, Pipeline, Reply, ServerError};
use crate::config::{Config, Protocol};
use crate::error::{Refusal, WireError};
use crate::script::Script;

/// What the layer above runs on every new connection, reconnects included, before any command
/// of a user is written.
pub trait Handshake: Send + Sync + 'static {
    /// Talks to the server over `link` and decides whether this connection may serve.
    ///
    /// # Errors
    /// [`HandshakeError`] says whether to try again or never.
    fn run<'a>(&'a self, link: &'a mut BootLink) -> HandshakeFuture<'a>;
}

/// The future of a handshake.
pub type HandshakeFuture<'a> =
    Pin<Box<dyn Future<Output = Result<(), HandshakeError>> + Send + 'a>>;

/// How a handshake ends when it does not pass.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HandshakeError {
    /// This server is refused for good: the connection turns terminal.
    #[error("refused")]
    Refused(#[source] Refusal),
    /// The server can't serve now (`LOADING`, `READONLY`, ...): the ladder runs again later.
    #[error("the server is not ready")]
    Retry(#[source] ServerError),
    /// The socket failed under the handshake.
    #[error("the connection failed during the handshake")]
    Link(#[source] WireError),
}

/// No handshake: a plain connection.
pub(crate) struct NoHandshake;

impl Handshake for NoHandshake {
    fn run<'a>(&'a self, _link: &'a mut BootLink) -> HandshakeFuture<'a> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A connection on its way up: one caller, one command after the other.
#[derive(Debug)]
pub struct BootLink {
    pub(crate) socket: Socket,
    pub(crate) read: BytesMut,
    pub(crate) decoder: Decoder,
    pub(crate) client_id: Option<i64>,
    pub(crate) loads: usize,
    reconnect: bool,
}

impl BootLink {
    /// Whether this connection has been ready before.
    pub fn is_reconnect(&self) -> bool {
        self.reconnect
    }

    /// Sends one command and waits for its reply; a server error is a value.
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

    /// Writes everything, then reads the replies. Push frames are left out.
    pub(crate) async fn exchange(&mut self, encoded: Encoded) -> Result<Vec<Reply>, WireError> {
        self.write(&encoded.bytes).await?;
        let mut replies = Vec::with_capacity(encoded.replies);
        while replies.len() < encoded.replies {
            match self.read_reply().await? {
                Reply::Push(_) => {}
                reply => replies.push(reply),
            }
        }
        Ok(replies)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.socket.write_all(bytes).await.map_err(lost)
    }

    pub(crate) async fn read_reply(&mut self) -> Result<Reply, WireError> {
        loop {
            if let Some(reply) = self.decoder.decode(&mut self.read)? {
                return Ok(reply);
            }
            self.read.reserve(4096);
            if self.socket.read_buf(&mut self.read).await.map_err(lost)? == 0 {
                return Err(WireError::Disconnected { written: true });
            }
        }
    }
}

fn lost(_error: io::Error) -> WireError {
    WireError::Disconnected { written: true }
}

/// Why an attempt to come up failed.
#[derive(Debug)]
pub(crate) enum BootError {
    /// Try again later.
    Passing(WireError),
    /// Never try again.
    Fatal(WireError),
}

/// Runs the whole ladder once, within the configured bound.
pub(crate) async fn boot(
    config: &Config,
    handshake: &dyn Handshake,
    reconnect: bool,
) -> Result<BootLink, BootError> {
    let climb = async {
        let socket = Socket::dial(config).await.map_err(|source| {
            BootError::Passing(WireError::Connect {
                address: config.address.to_string(),
                source: Arc::new(source),
            })
        })?;
        let mut link = BootLink {
            socket,
            read: BytesMut::with_capacity(16 * 1024),
            decoder: Decoder::new(config.limits),
            client_id: None,
            loads: 0,
            reconnect,
        };
        greet(&mut link, config).await?;
        handshake.run(&mut link).await.map_err(|error| match error {
            HandshakeError::Refused(refusal) => BootError::Fatal(WireError::Refused(refusal)),
            HandshakeError::Retry(source) => {
                BootError::Passing(WireError::Boot { step: "the handshake", source })
            }
            HandshakeError::Link(error @ WireError::ScriptDigest { .. }) => BootError::Fatal(error),
            HandshakeError::Link(error) => BootError::Passing(error),
        })?;
        Ok(link)
    };
    match tokio::time::timeout(config.connect_timeout, climb).await {
        Ok(outcome) => outcome,
        Err(_) => Err(BootError::Passing(WireError::Connect {
            address: config.address.to_string(),
            source: Arc::new(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        })),
    }
}

/// The rungs that this layer owns: HELLO or AUTH, SELECT, CLIENT SETNAME, CLIENT ID.
async fn greet(link: &mut BootLink, config: &Config) -> Result<(), BootError> {
    let mut authenticated = false;
    if config.protocol != Protocol::Resp2 {
        let mut hello = Cmd::new("HELLO").int(3);
        if let Some(credentials) = &config.credentials {
            let user = credentials.user.as_deref().unwrap_or("default");
            hello = hello.arg("AUTH").arg(user).arg(&credentials.password);
        }
        match step(link, "HELLO", hello).await {
            Ok(_) => authenticated = true,
            Err(BootError::Fatal(WireError::Boot { source, .. }))
                if config.protocol == Protocol::Auto && lacks_hello(&source) => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(credentials) = config.credentials.as_ref().filter(|_| !authenticated) {
        let mut auth = Cmd::new("AUTH");
        if let Some(user) = &credentials.user {
            auth.push(user);
        }
        step(link, "AUTH", auth.arg(&credentials.password)).await?;
    }
    if config.database != 0 {
        step(link, "SELECT", Cmd::new("SELECT").int(i64::from(config.database))).await?;
    }
    if let Some(name) = &config.client_name {
        step(link, "CLIENT SETNAME", Cmd::new("CLIENT").arg("SETNAME").arg(name)).await?;
    }
    link.client_id = step(link, "CLIENT ID", Cmd::new("CLIENT").arg("ID")).await?.as_int();
    Ok(())
}

/// A server from before RESP3 says that it doesn't know the command or the version.
fn lacks_hello(error: &ServerError) -> bool {
    error.is("NOPROTO") || (error.is("ERR") && error.message().contains("unknown command"))
}

async fn step(link: &mut BootLink, step: &'static str, cmd: Cmd) -> Result<Reply, BootError> {
    let mut replies = link.exchange(cmd.encode()).await.map_err(BootError::Passing)?;
    match replies.pop() {
        Some(Reply::Error(source)) => {
            let passing = is_passing(&source);
            let error = WireError::Boot { step, source };
            Err(if passing { BootError::Passing(error) } else { BootError::Fatal(error) })
        }
        Some(reply) => Ok(reply),
        None => Err(BootError::Passing(WireError::Unexpected { step, found: "nothing".into() })),
    }
}

/// Whether a server that answers this may answer otherwise in a while.
pub(crate) fn is_passing(error: &ServerError) -> bool {
    matches!(error.class(), "LOADING" | "BUSY" | "READONLY" | "MASTERDOWN" | "CLUSTERDOWN")
        || (error.is("ERR") && error.message().contains("max number of clients"))
}
