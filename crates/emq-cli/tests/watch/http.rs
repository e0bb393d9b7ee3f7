//! `emq serve` as a process, and plain HTTP towards it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, mpsc};

use emq_testkit::Valkey;

use super::{PATIENCE, until};

/// A server that ends when this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    lines: Mutex<mpsc::Receiver<String>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (header, value) = line.split_once(':')?;
            header.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The value of a sample, such as `emq_queue_dead{queue="mail"}`.
    pub(crate) fn sample(&self, series: &str) -> Option<f64> {
        let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        self.body.lines().find_map(value)
    }
}

impl Server {
    /// One that has found its bus.
    pub(crate) async fn on(valkey: &Valkey, args: &[&str]) -> Server {
        let server = Server::without_bus(valkey, args);
        until("the bus is found", async || server.get("/readyz").status == 200).await;
        server
    }

    /// One that may not have found its bus so far.
    pub(crate) fn without_bus(valkey: &Valkey, args: &[&str]) -> Server {
        Server::start(&[&["--url", &valkey.url()], args].concat())
    }

    /// Starts it on a free port of the loopback interface, and waits until it listens.
    pub(crate) fn start(args: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_emq"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args);
        Server::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Server {
        let mut child = command.stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (tell, lines) = mpsc::channel();
        let (found, address) = mpsc::channel();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let url = line.split_once("http://").map(|(_, rest)| rest);
                if let Some(url) = url.and_then(|rest| rest.split(['/', ' ']).next()) {
                    let _ = found.send(url.parse().unwrap());
                }
                let _ = tell.send(line);
            }
        });
        let Ok(address) = address.recv_timeout(PATIENCE) else {
            let _ = child.kill();
            let said: Vec<String> = lines.try_iter().collect();
            panic!("it didn't listen: {said:?}");
        };
        Server { child, address, lines: Mutex::new(lines) }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &format!("Host: {}\r\n", self.address))
    }

    /// Asks, and says whether nobody is there any more.
    pub(crate) fn asks_in_vain(&self, path: &str) -> bool {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let Ok(mut stream) = TcpStream::connect(self.address) else { return true };
        // It may go in the middle of that.
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read(&mut [0; 1024]);
        false
    }

    /// Scrapes until the metrics are as wanted, and answers them.
    pub(crate) async fn scrape_until(&self, what: &str, holds: impl Fn(&Answer) -> bool) -> Answer {
        let mut last = None;
        until(what, async || {
            let answer = self.get("/metrics");
            let found = holds(&answer);
            last = Some(answer);
            found
        })
        .await;
        last.unwrap()
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let request = format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
        self.raw(request.as_bytes())
    }

    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8(bytes).expect("every page is UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let kill = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// All that it said on standard error, once it has ended.
    pub(crate) fn said(&self) -> Vec<String> {
        self.lines.lock().unwrap().iter().collect()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
