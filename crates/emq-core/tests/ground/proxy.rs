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
            if *replies.borrow() == Replies::Swallow {
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
