//! Between a client and the server: it can lose a connection at the worst moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// When the connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Cut {
    /// Not at all.
    Never = 0,
    /// Before the server is told to commit.
    BeforeCommit = 1,
    /// Once the server has said that it committed; the client isn't told.
    AfterCommit = 2,
}

/// A proxy, as long as its runtime.
pub(crate) struct Proxy {
    port: u16,
    cut: Arc<AtomicU8>,
}

impl Proxy {
    /// In front of a server's port.
    pub(crate) async fn before(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(AtomicU8::new(Cut::Never as u8));
        let shared = Arc::clone(&cut);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, Arc::clone(&shared)));
            }
        });
        Proxy { port, cut }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The next commit is lost in this way, and everything behind it goes through again.
    pub(crate) fn arm(&self, cut: Cut) {
        self.cut.store(cut as u8, Ordering::SeqCst);
    }
}

async fn carry(mut client: TcpStream, server: u16, cut: Arc<AtomicU8>) {
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let (mut asked, mut told) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(length @ 1..) = read else { return };
                let bytes = &asked[..length];
                if has(bytes, b"COMMIT\0") && taken(&cut, Cut::BeforeCommit) {
                    return;
                }
                if server.write_all(bytes).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut told) => {
                let Ok(length @ 1..) = read else { return };
                let bytes = &told[..length];
                // The tag with which the server confirms a commit.
                if has(bytes, b"COMMIT\0") && taken(&cut, Cut::AfterCommit) {
                    return;
                }
                if client.write_all(bytes).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn taken(cut: &AtomicU8, at: Cut) -> bool {
    let never = Cut::Never as u8;
    cut.compare_exchange(at as u8, never, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|part| part == word)
}
