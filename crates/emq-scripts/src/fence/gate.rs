//! The handshake that runs on every new socket of a fenced connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use emq_keys::RESERVE_VERSION;
use emq_wire::{
    BootLink, Cmd, Handshake, HandshakeError, HandshakeFuture, Refusal, Reply, ServerError,
    WireError,
};
use tokio::sync::broadcast;

use super::engine::Engine;
use super::error::FenceError;
use super::{FenceEvent, WIRE_VERSION};
use crate::bundle::Bundle;
use crate::read;
use crate::refusal::is_passing;

/// How often the version is read; between two reads it is claimed.
const VERSION_READS: u32 = 4;
/// How many events wait for a slow receiver before it misses the oldest.
const EVENTS: usize = 16;
/// The longest foreign version that an error shows.
const FOUND_MAX_CHARS: usize = 64;

/// The fence of one deployment, as every connection to it shares it.
pub(crate) struct Fence {
    bundle: Arc<Bundle>,
    allow_compatible: bool,
    /// A connection was let through before: a version that is gone now was wiped.
    passed: AtomicBool,
    seen: RwLock<Option<Seen>>,
    events: broadcast::Sender<FenceEvent>,
}

/// What the last passage found out.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) engine: Engine,
    /// The server's clock minus ours.
    pub(crate) clock_skew_ms: i64,
}

/// A connection's way through the [`Fence`].
pub(crate) enum Duty {
    /// The shared connection: it loads the bundle.
    Shared(Arc<Fence>),
    /// A lane beside it, on the same server: the bundle is there already.
    Lane(Arc<Fence>),
}

/// Whether the version stood there, and if not, who claimed it.
enum Version {
    Stood,
    Claimed { by_us: bool },
}

impl Handshake for Duty {
    fn run<'a>(&'a self, link: &'a mut BootLink) -> HandshakeFuture<'a> {
        Box::pin(async move {
            match self {
                Self::Shared(fence) => fence.pass(link, true).await,
                Self::Lane(fence) => fence.pass(link, false).await,
            }
        })
    }
}

impl Fence {
    pub(crate) fn new(bundle: Arc<Bundle>, allow_compatible: bool) -> Arc<Fence> {
        Arc::new(Fence {
            bundle,
            allow_compatible,
            passed: AtomicBool::new(false),
            seen: RwLock::new(None),
            events: broadcast::channel(EVENTS).0,
        })
    }

    pub(crate) fn bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    pub(crate) fn seen(&self) -> Option<Seen> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<FenceEvent> {
        self.events.subscribe()
    }

    async fn pass(&self, link: &mut BootLink, load: bool) -> Result<(), HandshakeError> {
        let version = self.version(link).await?;
        if let Version::Claimed { by_us } = version
            && self.passed.load(Ordering::Acquire)
        {
            tracing::warn!("the keyspace was wiped since the last connection; claimed again");
            // Nobody may be listening: then the warning above is all there is.
            let _ = self.events.send(FenceEvent::KeyspaceReset { claimed: by_us });
        }
        let engine = self.engine(link).await?;
        let clock_skew_ms = clock_skew_ms(link).await?;
        if load {
            link.load(self.bundle.scripts()).await.map_err(load_refused)?;
        }
        tracing::debug!(%engine, clock_skew_ms, load, "the fence was passed");
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Seen { engine, clock_skew_ms });
        self.passed.store(true, Ordering::Release);
        Ok(())
    }

    /// Reads the version, and claims it where there is none.
    async fn version(&self, link: &mut BootLink) -> Result<Version, HandshakeError> {
        let mut version = Version::Stood;
        let mut full = None;
        for _ in 0..VERSION_READS {
            match read_version(link).await? {
                Some(found) if found == WIRE_VERSION => return Ok(version),
                Some(found) => {
                    let found = String::from_utf8_lossy(&found);
                    let found = found.chars().take(FOUND_MAX_CHARS).collect();
                    return Err(refused(FenceError::Version { expected: WIRE_VERSION, found }));
                }
                None => {
                    // A full server answers OOM even when another connection was faster: the next
                    // read tells.
                    let set = claim_version(link).await?;
                    let by_us = matches!(set, Claim::Ours);
                    version = Version::Claimed { by_us };
                    full = if let Claim::Full(error) = set { Some(error) } else { None };
                }
            }
        }
        match full {
            // Memory may come back: a connection that served before waits for that.
            Some(source) if self.passed.load(Ordering::Acquire) => {
                Err(HandshakeError::Retry(source))
            }
            Some(source) => Err(refused(FenceError::Full { source })),
            None => {
                let line = "TRYAGAIN the version vanished as often as it was claimed";
                Err(HandshakeError::Retry(ServerError::from_line(Bytes::from_static(
                    line.as_bytes(),
                ))))
            }
        }
    }

    async fn engine(&self, link: &mut BootLink) -> Result<Engine, HandshakeError> {
        const INFO: &str = "INFO server";
        let reply = answered(INFO, link.call(Cmd::new("INFO").arg("server")).await?)?;
        let Some(info) = reply.as_bytes() else { return Err(misshaped(INFO, &reply)) };
        let info = String::from_utf8_lossy(info);
        Engine::admit(&info, self.allow_compatible).map_err(refused)
    }
}

/// What a try to claim the version came to.
enum Claim {
    Ours,
    Theirs,
    Full(ServerError),
}

async fn read_version(link: &mut BootLink) -> Result<Option<Bytes>, HandshakeError> {
    const GET: &str = "GET {emq}:version";
    match link.call(Cmd::new("GET").arg(RESERVE_VERSION)).await? {
        Reply::Nil => Ok(None),
        Reply::Bulk(found) => Ok(Some(found)),
        Reply::Error(source) if source.is("WRONGTYPE") => {
            Err(refused(FenceError::VersionType { source }))
        }
        other => Err(misshaped(GET, &answered(GET, other)?)),
    }
}

async fn claim_version(link: &mut BootLink) -> Result<Claim, HandshakeError> {
    const SET: &str = "SET {emq}:version NX";
    let cmd = Cmd::new("SET").arg(RESERVE_VERSION).arg(WIRE_VERSION).arg("NX");
    match link.call(cmd).await? {
        Reply::Simple(_) => Ok(Claim::Ours),
        Reply::Nil => Ok(Claim::Theirs),
        Reply::Error(source) if source.is("OOM") => Ok(Claim::Full(source)),
        other => Err(misshaped(SET, &answered(SET, other)?)),
    }
}

/// The server's clock minus ours, taken at the middle of the round trip.
async fn clock_skew_ms(link: &mut BootLink) -> Result<i64, HandshakeError> {
    const TIME: &str = "TIME";
    let before = unix_ms();
    let reply = answered(TIME, link.call(Cmd::new("TIME")).await?)?;
    let middle = i64::midpoint(before, unix_ms());
    server_ms(&reply).map(|server| server - middle).ok_or_else(|| misshaped(TIME, &reply))
}

fn server_ms(reply: &Reply) -> Option<i64> {
    let [seconds, micros] = reply.as_array()? else { return None };
    let number = |reply: &Reply| std::str::from_utf8(reply.as_bytes()?).ok()?.parse::<i64>().ok();
    number(seconds)?.checked_mul(1000)?.checked_add(number(micros)? / 1000)
}

fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The reply, unless it is an error.
fn answered(command: &'static str, reply: Reply) -> Result<Reply, HandshakeError> {
    reply.into_result().map_err(|source| sort(command, source))
}

/// Whether a server's error passes or is for good.
fn sort(command: &'static str, source: ServerError) -> HandshakeError {
    match source.class() {
        // A node of a cluster may answer so before it was asked what it is.
        "MOVED" | "ASK" | "CLUSTERDOWN" => refused(FenceError::Cluster),
        "NOPERM" | "NOAUTH" => refused(FenceError::Denied { command, source }),
        _ if is_passing(&source) => HandshakeError::Retry(source),
        _ => refused(FenceError::Server { command, source }),
    }
}

/// A server that doesn't let us load scripts is refused; a digest that differs stays as it is.
fn load_refused(error: HandshakeError) -> HandshakeError {
    match error {
        HandshakeError::Link(WireError::Server { source, .. }) => sort("SCRIPT LOAD", source),
        other => other,
    }
}

fn misshaped(command: &'static str, reply: &Reply) -> HandshakeError {
    refused(FenceError::Shape { command, found: read::describe(reply) })
}

fn refused(error: FenceError) -> HandshakeError {
    HandshakeError::Refused(Refusal::new(error))
}
