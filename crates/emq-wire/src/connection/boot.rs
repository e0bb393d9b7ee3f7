//! The boot ladder: everything that happens on a socket before the first command of a user.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use super::link::BootLink;
use super::socket::Socket;
use crate::codec::{Cmd, Pipeline, Reply, ServerError};
use crate::config::{Config, Protocol};
use crate::error::{Refusal, WireError};

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
        let mut link = BootLink::new(socket, config.limits, reconnect);
        greet(&mut link, config).await?;
        handshake.run(&mut link).await.map_err(judge)?;
        if link.is_midway() {
            return Err(BootError::Passing(WireError::Disconnected { written: true }));
        }
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

/// Whether a handshake that didn't pass may pass later.
fn judge(error: HandshakeError) -> BootError {
    match error {
        HandshakeError::Refused(refusal) => BootError::Fatal(WireError::Refused(refusal)),
        HandshakeError::Retry(source) => {
            BootError::Passing(WireError::Boot { step: "the handshake", source })
        }
        HandshakeError::Link(error) => match &error {
            WireError::ScriptDigest { .. } => BootError::Fatal(error),
            WireError::Server { source, .. } if !is_passing(source) => BootError::Fatal(error),
            _ => BootError::Passing(error),
        },
    }
}

/// The rungs that this layer owns: HELLO or AUTH, SELECT, CLIENT SETNAME; then the number of the
/// socket, and whether the server serves at all: one that loads its data answers the rest happily.
async fn greet(link: &mut BootLink, config: &Config) -> Result<(), BootError> {
    if !say_hello(link, config).await? {
        authenticate(link, config).await?;
    }
    if config.database != 0 {
        step(link, "SELECT", Cmd::new("SELECT").int(i64::from(config.database))).await?;
    }
    if let Some(name) = &config.client_name {
        step(link, "CLIENT SETNAME", Cmd::new("CLIENT").arg("SETNAME").arg(name)).await?;
    }
    let last = [Cmd::new("CLIENT").arg("ID"), Cmd::new("PING")].into_iter().collect::<Pipeline>();
    let mut replies = link.exchange(last.encode()).await.map_err(BootError::Passing)?.into_iter();
    let id = accepted("CLIENT ID", replies.next())?;
    link.client_id = id.as_int();
    if link.client_id.is_none() {
        return Err(no_server("CLIENT ID", &id));
    }
    match accepted("PING", replies.next()) {
        Ok(pong) if pong.as_bytes().is_some_and(|text| *text == b"PONG"[..]) => Ok(()),
        Ok(other) => Err(no_server("PING", &other)),
        // A user without PING: the probes of a quiet connection are answered all the same.
        Err(BootError::Fatal(WireError::Boot { source, .. })) if source.is("NOPERM") => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whoever answers like this isn't what we speak to.
fn no_server(step: &'static str, reply: &Reply) -> BootError {
    let found = format!("{reply:?}").chars().take(200).collect();
    BootError::Passing(WireError::Unexpected { step, found })
}

/// Asks for RESP3 where the configuration wants it; answers whether that authenticated too.
async fn say_hello(link: &mut BootLink, config: &Config) -> Result<bool, BootError> {
    if config.protocol == Protocol::Resp2 {
        return Ok(false);
    }
    let mut hello = Cmd::new("HELLO").int(3);
    if let Some(credentials) = &config.credentials {
        let user = credentials.user.as_deref().unwrap_or("default");
        hello = hello.arg("AUTH").arg(user).arg(&credentials.password);
    }
    match step(link, "HELLO", hello).await {
        Ok(_) => Ok(true),
        Err(BootError::Fatal(WireError::Boot { source, .. }))
            if config.protocol == Protocol::Auto && lacks_hello(&source, config) =>
        {
            Ok(false)
        }
        Err(error) => Err(conceal(error, config)),
    }
}

async fn authenticate(link: &mut BootLink, config: &Config) -> Result<(), BootError> {
    let Some(credentials) = &config.credentials else { return Ok(()) };
    let mut auth = Cmd::new("AUTH");
    if let Some(user) = &credentials.user {
        auth.push(user);
    }
    let outcome = step(link, "AUTH", auth.arg(&credentials.password)).await;
    outcome.map(drop).map_err(|error| conceal(error, config))
}

/// A server that doesn't know a command repeats its arguments, the password among them: the
/// error keeps what stands before them.
fn conceal(error: BootError, config: &Config) -> BootError {
    let Some(credentials) = &config.credentials else { return error };
    let hide = |error: WireError| match error {
        WireError::Boot { step, source } => {
            let line = String::from_utf8_lossy(source.line()).into_owned();
            let line = line.split(", with args").next().unwrap_or_default();
            let line = match credentials.password.as_str() {
                "" => line.to_owned(),
                password => line.replace(password, "***"),
            };
            WireError::Boot { step, source: ServerError::from_line(line.into()) }
        }
        other => other,
    };
    match error {
        BootError::Passing(error) => BootError::Passing(hide(error)),
        BootError::Fatal(error) => BootError::Fatal(hide(error)),
    }
}

/// A server from before RESP3 says that it doesn't know the command or the version; or, while
/// nobody is authenticated, nothing but that, even to a command that carries the credentials.
fn lacks_hello(error: &ServerError, config: &Config) -> bool {
    error.is("NOPROTO")
        || (error.is("ERR") && error.message().contains("unknown command"))
        || (error.is("NOAUTH") && config.credentials.is_some())
}

async fn step(link: &mut BootLink, step: &'static str, cmd: Cmd) -> Result<Reply, BootError> {
    let mut replies = link.exchange(cmd.encode()).await.map_err(BootError::Passing)?;
    accepted(step, replies.pop())
}

fn accepted(step: &'static str, reply: Option<Reply>) -> Result<Reply, BootError> {
    match reply {
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
