//! Network latency of our own making: a TCP proxy that delivers every byte a fixed time later.
//!
//! Only time is added: what is read is queued with its hour of delivery, so that a connection has
//! as many bytes under way as its peers like, and throughput stays the loopback's.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// How much one read takes at most.
const READ: usize = 256 * 1024;
/// How many reads may be under way in one direction: over a gigabyte a second at half a
/// millisecond, and still a bound.
const UNDER_WAY: usize = 1_024;

/// A proxy in front of one server. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and delays each direction by `one_way`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(server: SocketAddr, one_way: Duration) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        Ok(Proxy { port, accepting: tokio::spawn(accept(listener, server, one_way)) })
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, one_way: Duration) {
    // Dropped with this task, and all connections with it.
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    open.spawn(async move {
                        // An end that fails ends the other too: both halves are dropped here.
                        let _ = join(client, server, one_way).await;
                    });
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = open.join_next() => {}
        }
    }
}

async fn join(client: TcpStream, server: SocketAddr, one_way: Duration) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    // What one end wrote in one go shall not wait for an acknowledgement at the other.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::try_join!(
        carry(from_client, to_server, one_way),
        carry(from_server, to_client, one_way)
    )?;
    Ok(())
}

/// Carries one direction to its end, and passes the end on, late as everything else.
async fn carry(from: OwnedReadHalf, to: OwnedWriteHalf, one_way: Duration) -> io::Result<()> {
    let (send, arrive) = mpsc::channel(UNDER_WAY);
    tokio::try_join!(take(from, send, one_way), deliver(arrive, to))?;
    Ok(())
}

async fn take(
    mut from: OwnedReadHalf,
    under_way: mpsc::Sender<(Instant, Bytes)>,
    one_way: Duration,
) -> io::Result<()> {
    let mut block = BytesMut::new();
    loop {
        block.reserve(READ);
        let read = from.read_buf(&mut block).await?;
        // An empty block is the end of the stream.
        let due = (Instant::now() + one_way, block.split().freeze());
        if under_way.send(due).await.is_err() || read == 0 {
            return Ok(());
        }
    }
}

async fn deliver(
    mut under_way: mpsc::Receiver<(Instant, Bytes)>,
    mut to: OwnedWriteHalf,
) -> io::Result<()> {
    while let Some((due, block)) = under_way.recv().await {
        sleep_until(due).await;
        if block.is_empty() {
            return to.shutdown().await;
        }
        to.write_all(&block).await?;
    }
    Ok(())
}
