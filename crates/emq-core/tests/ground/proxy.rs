//! A TCP proxy in front of a real server, to lose replies and connections at a chosen moment.

use std::net::SocketAddr;
use std::sync::Arc;

use emq_testkit::Valkey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to the server's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replies {
    Pass,
    /// Read from the server and thrown away.
    Swallow,
    /// What the server says to TIME is so many seconds later.
    Ahead(i64),
}

/// Forwards connections to a server.
pub(crate) struct Proxy {
    address: SocketAddr,
    replies: watch::Sender<Replies>,
    /// Counts up at each cut: connections of an earlier count end.
    cuts: watch::Sender<u64>,
    /// Bytes of replies thrown away so far.
    swallowed: Arc<watch::Sender<usize>>,
}

impl Proxy {
    pub(crate) async fn before(valkey: &Valkey) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            replies: watch::Sender::new(Replies::Pass),
            cuts: watch::Sender::new(0),
            swallowed: Arc::new(watch::Sender::new(0)),
        };
        let (replies, cuts) = (proxy.replies.subscribe(), proxy.cuts.subscribe());
        let swallowed = Arc::clone(&proxy.swallowed);
        let port = valkey.port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { continue };
                let forward = forward(client, server, replies.clone(), Arc::clone(&swallowed));
                let mut cuts = cuts.clone();
                cuts.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        () = forward => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("valkey://{}", self.address)
    }

    /// From now on the server's replies are thrown away.
    pub(crate) fn swallow_replies(&self) {
        self.replies.send_replace(Replies::Swallow);
    }

    /// From now on the server's clock is ahead by so many seconds, as far as can be seen from here.
    pub(crate) fn clock_ahead(&self, seconds: i64) {
        self.replies.send_replace(Replies::Ahead(seconds));
    }

    /// Waits until a reply was thrown away.
    pub(crate) async fn swallowed(&self) {
        let mut swallowed = self.swallowed.subscribe();
        super::soon("a reply", swallowed.wait_for(|bytes| *bytes > 0)).await.unwrap();
    }

    /// Ends all connections, and lets the replies of new ones pass.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
        self.replies.send_replace(Replies::Pass);
    }
}

async fn forward(
    client: TcpStream,
    server: TcpStream,
    replies: watch::Receiver<Replies>,
    swallowed: Arc<watch::Sender<usize>>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let there = tokio::io::copy(&mut from_client, &mut to_server);
    let back = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let n = from_server.read(&mut buffer).await.unwrap_or(0);
            if n == 0 {
                return;
            }
            let replies = *replies.borrow();
            if let Replies::Ahead(seconds) = replies {
                put_ahead(&mut buffer[..n], seconds);
            }
            if replies == Replies::Swallow {
                swallowed.send_modify(|bytes| *bytes += n);
            } else if to_client.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = there => {}
        () = back => {}
    }
}

/// Rewrites the reply to a TIME: the seconds since 1970 and the microseconds of the second.
fn put_ahead(bytes: &mut [u8], seconds: i64) {
    const HEAD: &[u8] = b"*2\r\n$10\r\n";
    const DIGITS: usize = 10;
    let heads = bytes.windows(HEAD.len()).position(|window| window == HEAD);
    let Some(at) = heads.map(|at| at + HEAD.len()) else { return };
    let Some(digits) = bytes.get_mut(at..at + DIGITS) else { return };
    let Some(now) = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<i64>().ok())
    else {
        return;
    };
    digits.copy_from_slice((now + seconds).to_string().as_bytes());
}
