//! Network latency of our own making: a TCP proxy that delivers every byte a fixed time later.
//!
//! Only time is added: what is read is queued with its hour of delivery, so that a connection has
//! as many bytes under way as its peers like, and throughput stays the loopback's. Each direction
//! has two threads of its own, because timers of tokio know whole milliseconds only.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How much one read takes at most.
const READ: usize = 128 * 1024;
/// How many reads may be under way in one direction: a bound, and no limit at any rate that a
/// loopback reaches within milliseconds.
const UNDER_WAY: usize = 1_024;

/// A proxy in front of one server. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    open: Arc<Open>,
}

/// What has to be closed in the end.
#[derive(Debug, Default)]
struct Open {
    over: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and delays each direction by `one_way`.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn start(server: SocketAddr, one_way: Duration) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let open = Arc::new(Open::default());
        let of_thread = Arc::clone(&open);
        thread::spawn(move || accept(&listener, server, one_way, &of_thread));
        Ok(Proxy { port, open })
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.open.over.store(true, Ordering::Release);
        // Wakes the thread that accepts, which then sees that it is over.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        self.open.close();
    }
}

impl Open {
    /// Keeps a handle of a socket; an error when all is over already.
    fn keep(&self, socket: &TcpStream) -> io::Result<()> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        if self.over.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        sockets.push(socket.try_clone()?);
        Ok(())
    }

    fn close(&self) {
        for socket in &*self.sockets.lock().unwrap_or_else(PoisonError::into_inner) {
            // One that is closed already is what is wanted.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, server: SocketAddr, one_way: Duration, open: &Open) {
    for client in listener.incoming() {
        if open.over.load(Ordering::Acquire) {
            return;
        }
        // A client whose server isn't there sees its connection closed, as it should.
        let _ = client.and_then(|client| join(client, server, one_way, open));
    }
}

fn join(client: TcpStream, to: SocketAddr, one_way: Duration, open: &Open) -> io::Result<()> {
    let server = TcpStream::connect(to)?;
    for socket in [&client, &server] {
        // What one end wrote in one go shall not wait for an acknowledgement at the other.
        socket.set_nodelay(true)?;
        open.keep(socket)?;
    }
    carry(client.try_clone()?, server.try_clone()?, one_way);
    carry(server, client, one_way);
    Ok(())
}

/// A block and when it arrives; an empty one is the end of the stream.
type Late = (Instant, Box<[u8]>);

/// Carries one direction to its end, and passes the end on, late as everything else.
fn carry(from: TcpStream, to: TcpStream, one_way: Duration) {
    let (send, arrive) = sync_channel(UNDER_WAY);
    thread::spawn(move || take(from, &send, one_way));
    thread::spawn(move || {
        if deliver(&arrive, &to).is_err() {
            // The receiver is gone, so the sender's other direction ends too.
            let _ = to.shutdown(Shutdown::Both);
        }
    });
}

fn take(mut from: TcpStream, under_way: &SyncSender<Late>, one_way: Duration) {
    let mut block = vec![0; READ];
    loop {
        // A connection that was reset ends for the other side too.
        let read = from.read(&mut block).unwrap_or(0);
        let late = (Instant::now() + one_way, Box::from(&block[..read]));
        if under_way.send(late).is_err() || read == 0 {
            return;
        }
    }
}

fn deliver(under_way: &Receiver<Late>, mut to: &TcpStream) -> io::Result<()> {
    while let Ok((due, block)) = under_way.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if block.is_empty() {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&block)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_WAY: Duration = Duration::from_millis(20);

    /// A server that sends back what it gets, and a client of it behind a proxy.
    fn echo() -> (Proxy, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut back = socket.try_clone().unwrap();
            io::copy(&mut socket, &mut back).unwrap();
        });
        let proxy = Proxy::start(server, ONE_WAY).unwrap();
        let client = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        client.set_nodelay(true).unwrap();
        (proxy, client)
    }

    #[test]
    fn each_direction_is_late_and_bytes_stay_as_they_are() {
        let (_proxy, mut client) = echo();
        let begun = Instant::now();
        client.write_all(b"ping").unwrap();
        let mut back = [0; 4];
        client.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"ping");
        assert!(begun.elapsed() >= 2 * ONE_WAY, "{:?}", begun.elapsed());
    }

    #[test]
    fn what_is_sent_later_does_not_wait_for_what_was_sent_before() {
        let (_proxy, mut client) = echo();
        let mut back = client.try_clone().unwrap();
        let rounds = 50;
        let begun = Instant::now();
        let read = thread::spawn(move || back.read_exact(&mut [0; 50]).unwrap());
        for _ in 0..rounds {
            client.write_all(b"x").unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        read.join().unwrap();
        // One after the other they would take fifty times the latency.
        assert!(begun.elapsed() < ONE_WAY * rounds / 2, "{:?}", begun.elapsed());
    }

    #[test]
    fn much_passes_at_once_and_the_end_is_passed_on() {
        let (_proxy, client) = echo();
        let mut writer = client.try_clone().unwrap();
        let sent: Vec<u8> = (0..8_000_000_u32).map(|i| (i % 251) as u8).collect();
        let expected = sent.clone();
        let write = thread::spawn(move || {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        (&client).read_to_end(&mut back).unwrap();
        write.join().unwrap();
        assert!(back == expected, "{} of {} bytes", back.len(), expected.len());
    }

    #[test]
    fn a_dropped_proxy_closes_its_connections() {
        let (proxy, mut client) = echo();
        client.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
        drop(proxy);
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    }
}
