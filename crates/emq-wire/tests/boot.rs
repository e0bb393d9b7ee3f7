//! The boot ladder: its order, on the first socket and on each later one, and what it survives.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use emq_testkit::{Fsync, Valkey};
use emq_wire::{
    BootLink, Connection, ConnectionState, Credentials, Handshake, HandshakeError, HandshakeFuture,
    Reconnect, ServerError, WireError,
};
use support::peer::Peer;
use support::{Test, cmd, config, quick, reconnected, soon, state_is, text, until};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A handshake made of a closure that says what to do at the n-th run.
struct Steps<F>(F, AtomicU32);

enum Do {
    Call(&'static str),
    Retry(&'static str),
    Panic,
    /// Begin a call and drop it.
    Forget(&'static str),
}

fn steps<F: Fn(u32) -> Do + Send + Sync + 'static>(f: F) -> Arc<Steps<F>> {
    Arc::new(Steps(f, AtomicU32::new(0)))
}

impl<F: Fn(u32) -> Do + Send + Sync + 'static> Handshake for Steps<F> {
    fn run<'a>(&'a self, link: &'a mut BootLink) -> HandshakeFuture<'a> {
        let run = self.1.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match (self.0)(run) {
                Do::Call(line) => {
                    let reply = link.call(cmd(line)).await?;
                    reply.into_result().map_err(HandshakeError::Retry)?;
                }
                Do::Retry(line) => {
                    let line = Bytes::from_static(line.as_bytes());
                    return Err(HandshakeError::Retry(ServerError::from_line(line)));
                }
                Do::Panic => panic!("a handshake may have faults"),
                Do::Forget(line) => {
                    let call = link.call(cmd(line));
                    let _ = tokio::time::timeout(Duration::from_millis(1), call).await;
                }
            }
            Ok(())
        })
    }
}

#[tokio::test]
async fn the_rungs_are_climbed_in_order_on_each_socket_and_the_user_comes_last() -> Test {
    let peer = Peer::listen().await;
    let config = peer
        .config()
        .credentials(Credentials::new("ann", "secret"))
        .database(3)
        .client_name("tester");
    let handshake = steps(|_| Do::Call("FENCE"));
    let climb = async {
        let mut link = peer.accept().await;
        for (rung, answer) in [
            ("AUTH ann secret", "+OK\r\n"),
            ("SELECT 3", "+OK\r\n"),
            ("CLIENT SETNAME tester", "+OK\r\n"),
        ] {
            link.expect(rung).await;
            link.send(answer).await;
        }
        link.ladder().await;
        link.expect("FENCE").await;
        link
    };
    let (connection, link) = tokio::join!(Connection::connect_with(config, handshake), async {
        let mut link = climb.await;
        link.send("+OK\r\n").await;
        link
    });
    let connection = connection?;
    drop(link);
    state_is(&connection, |s| matches!(s, ConnectionState::Reconnecting { .. })).await;
    // A caller waits for the second socket: nothing of it is written before the fence stands.
    let waiting = tokio::spawn({
        let connection = connection.clone();
        async move { connection.command(cmd("INCR n")).await }
    });
    let mut link = peer.accept().await;
    for rung in ["AUTH ann secret", "SELECT 3", "CLIENT SETNAME tester"] {
        link.expect(rung).await;
        link.send("+OK\r\n").await;
    }
    link.ladder().await;
    link.expect("FENCE").await;
    let early = tokio::time::timeout(Duration::from_millis(50), link.read()).await;
    assert!(early.is_err(), "{early:?} before the handshake passed");
    assert!(!connection.is_ready());
    link.send("+OK\r\n").await;
    link.expect("INCR n").await;
    link.send(":1\r\n").await;
    assert_eq!(waiting.await??.as_int(), Some(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_sees_the_ladder_again_after_a_kill() -> Test {
    let valkey = Valkey::builder().requirepass("secret").start()?;
    let mut monitor = BufReader::new(TcpStream::connect(("127.0.0.1", valkey.port())).await?);
    monitor.get_mut().write_all(b"AUTH secret\r\nMONITOR\r\n").await?;
    let mut line = String::new();
    for _ in 0..2 {
        monitor.read_line(&mut line).await?;
    }
    assert_eq!(line, "+OK\r\n+OK\r\n");
    let config = config(&valkey).database(2).client_name("tester");
    let handshake = steps(|_| Do::Call("SET fence up"));
    let connection = Connection::connect_with(config, handshake).await?;
    connection.command(cmd("INCR n")).await?;
    let id = support::client_id(&connection).await.to_string();
    assert_eq!(valkey.cli(&["CLIENT", "KILL", "ID", &id])?, "1");
    reconnected(&connection, 1).await;
    connection.command(cmd("INCR n")).await?;
    let mut seen = Vec::new();
    while seen.iter().filter(|words| words == &"INCR n").count() < 2 {
        line.clear();
        soon("a line of the monitor", monitor.read_line(&mut line)).await?;
        // `+<time> [<db> <address>] "word" "word"`
        let words: Vec<_> = line.split('"').skip(1).step_by(2).collect();
        let words = words.join(" ");
        if !words.contains("KILL") && !words.starts_with("AUTH") {
            seen.push(words);
        }
    }
    let ladder =
        ["select 2", "client setname tester", "client id", "ping", "set fence up", "incr n"];
    let lower = |words: &String| words.to_lowercase();
    let seen: Vec<_> = seen.iter().map(lower).collect();
    assert_eq!(seen[..6], ladder);
    assert_eq!(seen[6], "client id", "the test's own");
    assert_eq!(seen[7..], ladder);
    Ok(())
}

#[tokio::test]
async fn a_handshake_that_is_put_off_climbs_again_until_it_passes() -> Test {
    let valkey = Valkey::start()?;
    let handshake = steps(|run| match run {
        0 => Do::Retry("LOADING wait"),
        1 => Do::Retry("READONLY wait"),
        2 => Do::Call("LPUSH not-a-list x"), // WRONGTYPE, put off by the handshake
        _ => Do::Call("PING"),
    });
    valkey.cli(&["SET", "not-a-list", "x"])?;
    let connection = Connection::connect_with(config(&valkey), Arc::clone(&handshake) as _).await?;
    assert_eq!(handshake.1.load(Ordering::SeqCst), 4);
    assert_eq!(text(&connection.command(cmd("PING")).await?), "PONG");
    // Only connections after the first that served are reconnects.
    assert_eq!(connection.counters().reconnects, 0);
    Ok(())
}

#[tokio::test]
async fn who_is_put_off_for_ever_hears_why() -> Test {
    let valkey = Valkey::start()?;
    // As long as the machine needs for one attempt.
    for wait in [200, 2000, 20_000].map(Duration::from_millis) {
        let reconnect = Reconnect { initial_wait: wait, ..quick() };
        let config = config(&valkey).connect_timeout(wait).reconnect(reconnect);
        let handshake = steps(|_| Do::Retry("LOADING the dataset"));
        match Connection::connect_with(config, handshake).await {
            Err(WireError::Boot { step: "the handshake", source }) => {
                assert!(source.is("LOADING"));
                return Ok(());
            }
            Err(WireError::NotReady | WireError::Connect { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("no attempt came to its end");
}

#[tokio::test]
async fn a_server_that_loads_is_tried_again() -> Test {
    let peer = Peer::listen().await;
    let (connection, _link) = tokio::join!(Connection::connect(peer.config()), async {
        for busy in ["-LOADING in memory\r\n", "-BUSY a script\r\n", "-MASTERDOWN link\r\n"] {
            let mut link = peer.accept().await;
            link.expect("CLIENT ID").await;
            link.expect("PING").await;
            link.send(":7\r\n").await;
            link.send(busy).await;
            link.hung_up().await;
        }
        peer.serve().await
    });
    connection?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_served_by_a_real_server_that_loads() -> Test {
    let valkey = Valkey::builder()
        .append_only(Fsync::No)
        .config("aof-use-rdb-preamble no")
        .config("key-load-delay 50")
        .start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let sets = (0..10_000).map(|n| cmd(&format!("SET key:{n} some-value-of-some-length")));
    connection.pipeline(sets.collect()).await?;
    let restart = tokio::task::spawn_blocking(move || valkey.restart().map(|()| valkey));
    let mut served = 0;
    while served < 2 {
        match connection.command(cmd("GET key:9999")).await {
            Ok(reply) => {
                assert_eq!(text(&reply), "some-value-of-some-length");
                // Once at least after the restart.
                served += usize::from(restart.is_finished());
            }
            Err(WireError::Disconnected { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    restart.await??;
    Ok(())
}

#[tokio::test]
async fn a_call_dropped_by_the_handshake_misaligns_nobody() -> Test {
    let peer = Peer::listen().await;
    let handshake = steps(|run| if run == 0 { Do::Forget("GET slow") } else { Do::Call("PING") });
    let config = peer.config();
    let (connection, mut link) = tokio::join!(Connection::connect_with(config, handshake), async {
        let mut link = peer.serve().await;
        link.expect("GET slow").await;
        link.hung_up().await;
        let mut link = peer.serve().await;
        link.expect("PING").await;
        link.send("+PONG\r\n").await;
        link
    });
    let connection = connection?;
    let (reply, ()) = tokio::join!(connection.command(cmd("GET k")), async {
        link.expect("GET k").await;
        link.send("+v\r\n").await;
    });
    assert_eq!(text(&reply?), "v");
    Ok(())
}

#[tokio::test]
async fn a_reply_left_over_from_the_ladder_answers_nobody() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = tokio::join!(Connection::connect(peer.config()), async {
        let mut link = peer.accept().await;
        link.expect("CLIENT ID").await;
        link.expect("PING").await;
        link.send(":7\r\n+PONG\r\n+one too many\r\n").await;
        peer.serve().await
    });
    let connection = connection?;
    reconnected(&connection, 1).await;
    let (reply, ()) = tokio::join!(connection.command(cmd("GET k")), async {
        link.expect("GET k").await;
        link.send("+v\r\n").await;
    });
    assert_eq!(text(&reply?), "v");
    Ok(())
}

#[tokio::test]
async fn a_unix_socket_is_a_connection_like_any_other() -> Test {
    let valkey = Valkey::builder().unix_socket_only().start()?;
    let connection = Connection::connect(config(&valkey).database(1)).await?;
    assert_eq!(connection.command(cmd("INCR n")).await?.as_int(), Some(1));
    let id = support::client_id(&connection).await.to_string();
    valkey.cli(&["CLIENT", "KILL", "ID", &id])?;
    reconnected(&connection, 1).await;
    assert_eq!(connection.command(cmd("INCR n")).await?.as_int(), Some(2));
    Ok(())
}

#[tokio::test]
async fn a_unix_sockets_url_carries_a_password_as_an_option() -> Test {
    let valkey = Valkey::builder().unix_socket_only().requirepass("p@ss/w:rd?&").start()?;
    let connection = Connection::connect(valkey.url().parse()?).await?;
    assert_eq!(connection.command(cmd("INCR n")).await?.as_int(), Some(1));
    Ok(())
}

#[tokio::test]
async fn a_peer_that_answers_what_no_server_does_is_not_served_from() -> Test {
    let peer = Peer::listen().await;
    let (connection, _link) = tokio::join!(Connection::connect(peer.config()), async {
        // An echo, another kind of server, one of another language.
        for answers in [
            "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n*1\r\n$4\r\nPING\r\n",
            ":7\r\n+OK\r\n",
            "+7\r\n+PONG\r\n",
            "HTTP/1.1",
        ] {
            let mut link = peer.accept().await;
            link.expect("CLIENT ID").await;
            link.send(answers).await;
            link.hung_up().await;
        }
        peer.serve().await
    });
    assert!(connection?.is_ready());
    Ok(())
}

#[tokio::test]
async fn a_handshake_that_panics_leaves_nobody_waiting() -> Test {
    let valkey = Valkey::start()?;
    let outcome =
        soon("an end", Connection::connect_with(config(&valkey), steps(|_| Do::Panic))).await;
    assert!(matches!(outcome, Err(WireError::Closed)), "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn a_peer_that_accepts_and_says_nothing_is_given_up() -> Test {
    let peer = Peer::listen().await;
    let wait = Reconnect { initial_wait: Duration::from_millis(50), ..quick() };
    let config = peer.config().connect_timeout(Duration::from_millis(50)).reconnect(wait);
    let outcome = Connection::connect(config).await;
    assert!(
        matches!(&outcome, Err(WireError::Connect { .. } | WireError::NotReady)),
        "{outcome:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_house_lets_us_in_when_somebody_leaves() -> Test {
    let valkey = Valkey::builder().config("maxclients 2").start()?;
    let first = Connection::connect(config(&valkey)).await?;
    let other = TcpStream::connect(("127.0.0.1", valkey.port())).await?;
    let connecting = tokio::spawn(Connection::connect(config(&valkey)));
    until("a rejected client", async || {
        let info = first.command(cmd("INFO stats")).await.unwrap();
        !text(&info).contains("rejected_connections:0\r")
    })
    .await;
    assert!(!connecting.is_finished());
    drop(other);
    let second = soon("a place", connecting).await??;
    assert_eq!(text(&second.command(cmd("PING")).await?), "PONG");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_turned_replica_is_left_until_it_is_promoted() -> Test {
    let (valkey, primary) = (Valkey::start()?, Valkey::start()?);
    let handshake = steps(|_| Do::Call("SET fence up"));
    let connection = Connection::connect_with(config(&valkey), handshake).await?;
    connection.command(cmd("INCR n")).await?;
    let mut state = connection.state();
    state.mark_unchanged();
    valkey.cli(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()])?;
    let pair = [cmd("INCR n"), cmd("PING")].into_iter().collect();
    let replies = connection.pipeline(pair).await?;
    assert!(replies[0].as_error().is_some_and(|error| error.is("READONLY")), "{replies:?}");
    assert!(replies[1].as_error().is_none(), "what was in flight is answered");
    // The fence can't be written there: it is tried again and again.
    let second = |s: &ConnectionState| match s {
        ConnectionState::Reconnecting { attempt } => *attempt >= 3,
        _ => false,
    };
    soon("a third attempt", state.wait_for(second)).await?;
    valkey.cli(&["REPLICAOF", "NO", "ONE"])?;
    reconnected(&connection, 1).await;
    assert!(connection.command(cmd("INCR n")).await?.as_int().is_some());
    Ok(())
}
