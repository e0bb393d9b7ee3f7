//! A TCP peer that is no server: it answers what the test tells it to, when the test tells it to.
//! It stands for what no honest server does; whatever a server does is tested on a real one.

use emq_wire::Config;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{patient, soon};

pub struct Peer {
    listener: TcpListener,
}

impl Peer {
    pub async fn listen() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub fn url(&self) -> String {
        format!("valkey://{}", self.listener.local_addr().unwrap())
    }

    pub fn config(&self) -> Config {
        patient(self.url().parse().unwrap())
    }

    /// The next connection, before its ladder.
    pub async fn accept(&self) -> Link {
        let (stream, _) = soon("a dial", self.listener.accept()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Link { stream: BufReader::new(stream) }
    }

    /// The next connection, at the top of a plain ladder.
    pub async fn serve(&self) -> Link {
        let mut link = self.accept().await;
        link.ladder().await;
        link
    }
}

pub struct Link {
    stream: BufReader<TcpStream>,
}

impl Link {
    /// Answers the rungs that every connection has.
    pub async fn ladder(&mut self) {
        self.expect("CLIENT ID").await;
        self.expect("PING").await;
        self.send(":7\r\n+PONG\r\n").await;
    }

    pub async fn expect(&mut self, command: &str) {
        assert_eq!(self.next().await, command);
    }

    /// The next command, its words joined by spaces.
    pub async fn next(&mut self) -> String {
        soon("a command", self.read()).await.expect("the client hung up")
    }

    /// The next command, or `None` when the client hung up.
    pub async fn read(&mut self) -> Option<String> {
        let count: usize = self.header('*').await?;
        let mut words = Vec::new();
        for _ in 0..count {
            let length = self.header('$').await?;
            let mut word = vec![0; length + 2];
            self.stream.read_exact(&mut word).await.ok()?;
            word.truncate(length);
            words.push(String::from_utf8_lossy(&word).into_owned());
        }
        Some(words.join(" "))
    }

    async fn header(&mut self, tag: char) -> Option<usize> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.ok()?;
        line.strip_prefix(tag)?.trim_end().parse().ok()
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).await.unwrap();
    }

    /// Waits until the client has hung up.
    pub async fn hung_up(&mut self) {
        while soon("a hang-up", self.read()).await.is_some() {}
    }
}
