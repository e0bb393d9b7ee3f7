//! The kinds of stream a connection may run over.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::config::{Address, Config};

/// Within what the kernel takes for the time before its first probe (32767 s at most).
const KEEPALIVE_SECONDS: std::ops::RangeInclusive<u64> = 1..=7200;

/// A connected stream.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Dials once. Small writes leave at once, and the kernel probes a silent peer.
    pub(crate) async fn dial(config: &Config) -> io::Result<Self> {
        match &config.address {
            Address::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                refuse_own_echo(&stream)?;
                stream.set_nodelay(true)?;
                let (least, most) = (*KEEPALIVE_SECONDS.start(), *KEEPALIVE_SECONDS.end());
                let quiet = config.heartbeat.as_secs().clamp(least, most);
                let keepalive = TcpKeepalive::new()
                    .with_time(Duration::from_secs(quiet))
                    .with_interval(Duration::from_secs(5));
                SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            Address::Tls { .. } => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "TLS is not built yet"))
            }
        }
    }
}

/// Where nobody listens, a dial from the very port that it aims at meets itself: it would read its
/// own commands as replies, and keep the port from the server that is to come back.
fn refuse_own_echo(stream: &TcpStream) -> io::Result<()> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "nobody listens there"));
    }
    Ok(())
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_socket_that_met_itself_is_no_connection() {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let own = socket.local_addr().unwrap();
        let stream = socket.connect(own).await.unwrap();
        let refusal = refuse_own_echo(&stream).unwrap_err();
        assert_eq!(refusal.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[tokio::test]
    async fn small_writes_leave_at_once_and_the_kernel_probes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("valkey://{}", listener.local_addr().unwrap());
        for beat in [Duration::from_millis(1), Duration::from_secs(10), Duration::MAX] {
            let config: Config = url.parse::<Config>().unwrap().heartbeat(beat, beat);
            let Socket::Tcp(stream) = Socket::dial(&config).await.unwrap() else { panic!("TCP") };
            assert!(stream.nodelay().unwrap());
            let socket = SockRef::from(&stream);
            assert!(socket.keepalive().unwrap());
            let quiet = socket.tcp_keepalive_time().unwrap().as_secs();
            assert_eq!(quiet, beat.as_secs().clamp(1, 7200));
        }
    }
}
