//! What the tests of the connector share: configurations that are patient with a busy machine,
//! waits for signals, and a peer that misbehaves to order.

#![allow(dead_code, unreachable_pub)] // Each test binary uses its own part.

pub mod peer;

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use emq_testkit::Valkey;
use emq_wire::{Cmd, Config, Connection, ConnectionState, Reconnect, Reply};

pub type Test = Result<(), Box<dyn Error>>;

/// Longer than anything takes that isn't stuck.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// For a real server: quick to redial, patient with callers, quiet.
pub fn config(valkey: &Valkey) -> Config {
    patient(valkey.url().parse().unwrap())
}

pub fn patient(config: Config) -> Config {
    config.heartbeat(PATIENCE, PATIENCE).connect_timeout(PATIENCE).reconnect(quick())
}

pub fn quick() -> Reconnect {
    Reconnect {
        base: Duration::from_millis(1),
        cap: Duration::from_millis(20),
        call_wait: PATIENCE,
        initial_wait: PATIENCE,
    }
}

/// A test that hangs says so instead of going on for ever.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not happen"),
    }
}

/// Asks again and again; for states of the server that no signal tells. The pause decides nothing:
/// it spares the machine thousands of connections a second.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a connection has been made again `times` times and is in service.
pub async fn reconnected(connection: &Connection, times: u64) {
    let mut state = connection.state();
    let back = async {
        loop {
            let ready = matches!(*state.borrow_and_update(), ConnectionState::Ready);
            if ready && connection.counters().reconnects >= times {
                return;
            }
            state.changed().await.expect("the connection lives");
        }
    };
    soon("a reconnect", back).await;
}

/// Waits for a state.
pub async fn state_is(connection: &Connection, wanted: impl FnMut(&ConnectionState) -> bool) {
    let mut state = connection.state();
    soon("a state", state.wait_for(wanted)).await.expect("the connection lives");
}

/// Starts futures without waiting for them: each is polled once, in order.
pub async fn begin<F: Future + Unpin>(futures: &mut [F]) {
    poll_fn(|cx| {
        for future in futures.iter_mut() {
            assert!(Pin::new(future).poll(cx).is_pending(), "nothing can have answered yet");
        }
        Poll::Ready(())
    })
    .await;
}

/// Looks at a future once, whatever comes of it.
pub async fn touch<F: Future + Unpin>(future: &mut F) {
    poll_fn(|cx| {
        let _ = Pin::new(&mut *future).poll(cx);
        Poll::Ready(())
    })
    .await;
}

/// One figure of `INFO`.
pub fn info(valkey: &Valkey, section: &str, field: &str) -> i64 {
    let info = valkey.cli(&["INFO", section]).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

/// How often the server ran a command, by its name in `INFO commandstats`.
pub fn runs(valkey: &Valkey, command: &str) -> u64 {
    let info = valkey.cli(&["INFO", "commandstats"]).unwrap();
    let line = info.lines().find_map(|l| l.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|rest| rest.split(',').next()).map_or(0, |calls| calls.parse().unwrap())
}

pub fn cmd(line: &str) -> Cmd {
    let mut words = line.split(' ');
    words.by_ref().next().map(Cmd::new).map(|cmd| words.fold(cmd, Cmd::arg)).unwrap()
}

pub fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.as_bytes().unwrap_or_else(|| panic!("{reply:?}"))).into_owned()
}

/// The server's number for a connection.
pub async fn client_id(connection: &Connection) -> i64 {
    connection.command(cmd("CLIENT ID")).await.unwrap().as_int().unwrap()
}
