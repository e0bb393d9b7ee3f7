//! Fail, never replay: what a lost connection does to the calls in flight and to later ones.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emq_testkit::{Fsync, Valkey};
use emq_wire::{Cmd, Connection, ConnectionState, Pipeline, Reconnect, Reply, Script, WireError};
use support::peer::Peer;
use support::{Test, begin, client_id, cmd, config, quick, reconnected, soon, state_is, text};
use tokio::task::JoinSet;

/// What became of a call that increments a key of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Answered,
    /// May have run.
    Lost,
    /// Can't have run.
    Unsent,
}

fn fates(outcome: Result<Vec<Reply>, WireError>, count: usize) -> Vec<Fate> {
    let fate = |reply: &Reply| match reply {
        Reply::Int(_) => Fate::Answered,
        // Forgotten again after its load, by yet another crash: it did not run.
        Reply::Error(error) if error.is("NOSCRIPT") => Fate::Unsent,
        other => panic!("{other:?}"),
    };
    match outcome {
        Ok(replies) => replies.iter().map(fate).collect(),
        Err(WireError::Disconnected { written: true }) => vec![Fate::Lost; count],
        Err(WireError::Disconnected { written: false } | WireError::ScriptLost { .. }) => {
            vec![Fate::Unsent; count]
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// Tasks that increment a fresh key with each call until told to stop: singly and in pipelines, by
/// a command and by a script.
struct Load {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Vec<(String, Fate)>>,
}

impl Load {
    fn start(connection: &Connection) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        let script = Script::new("count", "return redis.call('INCR', KEYS[1])");
        for task in 0..16 {
            let (connection, stop) = (connection.clone(), Arc::clone(&stop));
            let script = script.clone();
            tasks.spawn(async move {
                let mut all = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let keys: Vec<_> =
                        (0..1 + task % 4).map(|i| format!("{task}:{}:{i}", all.len())).collect();
                    let incr = |(i, key): (usize, &String)| match (task + i) % 3 {
                        0 => script.call(1, 32).arg(key),
                        _ => Cmd::new("INCR").arg(key),
                    };
                    let mut cmds = keys.iter().enumerate().map(incr);
                    let outcome = match keys.len() {
                        1 => connection.command(cmds.next().unwrap()).await.map(|one| vec![one]),
                        _ => connection.pipeline(cmds.collect()).await,
                    };
                    let fates = fates(outcome, keys.len());
                    all.extend(keys.into_iter().zip(fates));
                }
                all
            });
        }
        Self { stop, tasks }
    }

    async fn stop(mut self) -> Vec<(String, Fate)> {
        self.stop.store(true, Ordering::SeqCst);
        let mut fates = Vec::new();
        while let Some(done) = soon("the load's end", self.tasks.join_next()).await {
            fates.extend(done.unwrap());
        }
        fates
    }
}

/// No key was incremented twice, none without being sent, and each answered one once.
async fn nothing_was_sent_twice(connection: &Connection, fates: &[(String, Fate)]) {
    for chunk in fates.chunks(1000) {
        let gets = chunk.iter().map(|(key, _)| Cmd::new("GET").arg(key)).collect();
        for ((key, fate), reply) in chunk.iter().zip(connection.pipeline(gets).await.unwrap()) {
            let count = if reply.is_nil() { 0 } else { text(&reply).parse().unwrap() };
            match fate {
                Fate::Answered => assert_eq!(count, 1, "{key} was answered"),
                Fate::Lost => assert!(count <= 1, "{key} ran {count} times"),
                Fate::Unsent => assert_eq!(count, 0, "{key} was said not to have been written"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_fails_what_is_in_flight_and_repeats_nothing() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let load = Load::start(&connection);
    for round in 1..=20 {
        let id = client_id_of(&connection).await.to_string();
        valkey.cli(&["SCRIPT", "FLUSH"])?;
        valkey.cli(&["CLIENT", "KILL", "ID", &id])?;
        reconnected(&connection, round).await;
    }
    let fates = load.stop().await;
    assert!(fates.iter().any(|(_, fate)| *fate == Fate::Answered));
    assert!(fates.iter().any(|(_, fate)| *fate != Fate::Answered), "nothing was in flight");
    assert_eq!(connection.in_flight(), 0);
    assert_eq!((connection.counters().reconnects, connection.counters().wire_errors), (20, 20));
    nothing_was_sent_twice(&connection, &fates).await;
    Ok(())
}

/// The number, also when the question itself meets a loss.
async fn client_id_of(connection: &Connection) -> i64 {
    loop {
        match connection.command(cmd("CLIENT ID")).await {
            Ok(reply) => return reply.as_int().unwrap(),
            Err(WireError::Disconnected { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashed_and_a_restarted_server_meet_no_repetition_either() -> Test {
    // What was answered is on the disk, so the counts survive.
    let valkey = Arc::new(Valkey::builder().append_only(Fsync::Always).start()?);
    let connection = Connection::connect(config(&valkey)).await?;
    let load = Load::start(&connection);
    for round in 1..=3 {
        let server = Arc::clone(&valkey);
        let down = move || {
            if round % 2 == 1 {
                server.kill9().unwrap();
                server.start_again().unwrap();
            } else {
                server.restart().unwrap();
            }
        };
        tokio::task::spawn_blocking(down).await?;
        reconnected(&connection, round).await;
        connection.command(cmd("PING")).await?;
    }
    let fates = load.stop().await;
    assert!(fates.iter().any(|(_, fate)| *fate == Fate::Answered));
    assert!(fates.iter().any(|(_, fate)| *fate != Fate::Answered), "nothing was in flight");
    assert_eq!(connection.in_flight(), 0);
    nothing_was_sent_twice(&connection, &fates).await;
    Ok(())
}

#[tokio::test]
async fn each_caller_hears_whether_its_own_bytes_had_begun_to_leave() -> Test {
    let peer = Peer::listen().await;
    let config = peer.config().max_queued_bytes(64 << 20);
    let (connection, link) = tokio::join!(Connection::connect(config), peer.serve());
    let (connection, mut link) = (connection?, link);
    // More than the kernel takes from a peer that doesn't read: some leave whole, one in part,
    // some stand ready, and the rest isn't even in line.
    let before = connection.counters().bytes_out;
    let call = |n: usize| Cmd::new("SET").arg(n.to_string()).arg(vec![b'x'; 100_000]);
    let mut calls: Vec<_> = (0..400).map(|n| Box::pin(connection.command(call(n)))).collect();
    begin(&mut calls).await;
    let mut still = 0;
    let mut seen = before;
    while still < 100 {
        tokio::task::yield_now().await;
        let now = connection.counters().bytes_out;
        still = if now == seen { still + 1 } else { 0 };
        seen = now;
    }
    link.expect(&format!("SET 0 {}", "x".repeat(100_000))).await;
    drop(link);
    let mut fates = Vec::new();
    for call in calls {
        match soon("an answer", call).await {
            Err(WireError::Disconnected { written }) => fates.push(written),
            other => panic!("{other:?}"),
        }
    }
    let written = connection.counters().bytes_out - before;
    let mut start = 0;
    for (n, fate) in fates.into_iter().enumerate() {
        assert_eq!(fate, start < written, "call {n} starts at {start}, {written} were written");
        start += call(n).to_bytes().len() as u64;
    }
    assert!(written < start, "the kernel took it all");
    assert_eq!(connection.in_flight(), 0);
    // All of the room for bytes is back, too: this takes it to the last hundred.
    let _link = peer.serve().await;
    reconnected(&connection, 1).await;
    let whole = Cmd::new("SET").arg(vec![b'x'; (64 << 20) - 100]);
    begin(&mut [Box::pin(connection.command(whole))]).await;
    Ok(())
}

#[tokio::test]
async fn calls_made_meanwhile_fail_at_once_or_wait_as_configured() -> Test {
    let valkey = Valkey::start()?;
    let eager = config(&valkey).reconnect(Reconnect { call_wait: Duration::ZERO, ..quick() });
    let brief = Reconnect { call_wait: Duration::from_millis(50), ..quick() };
    let brief = Connection::connect(config(&valkey).reconnect(brief)).await?;
    let eager = Connection::connect(eager).await?;
    let patient = Connection::connect(config(&valkey)).await?;
    valkey.kill9()?;
    for connection in [&eager, &brief, &patient] {
        state_is(connection, |s| matches!(s, ConnectionState::Reconnecting { .. })).await;
    }
    for connection in [&eager, &brief] {
        let outcome = connection.command(cmd("INCR n")).await;
        assert!(matches!(outcome, Err(WireError::NotReady)), "{outcome:?}");
        let outcome = connection.pipeline(Pipeline::from_iter([cmd("INCR n")])).await;
        assert!(matches!(outcome, Err(WireError::NotReady)), "{outcome:?}");
        assert_eq!(connection.in_flight(), 0);
    }
    let mut waiting = vec![Box::pin(patient.command(cmd("INCR n")))];
    begin(&mut waiting).await;
    valkey.start_again()?;
    assert_eq!(soon("service", waiting.remove(0)).await?.as_int(), Some(1));
    for connection in [&eager, &brief] {
        reconnected(connection, 1).await;
        assert!(connection.command(cmd("INCR n")).await?.as_int().is_some());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_states_follow_each_other_and_attempts_are_counted() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let mut state = connection.state();
    assert!(matches!(*state.borrow_and_update(), ConnectionState::Ready));
    assert!(connection.is_ready());
    valkey.kill9()?;
    let mut last = 0;
    while last < 5 {
        soon("an attempt", state.changed()).await?;
        match &*state.borrow_and_update() {
            ConnectionState::Reconnecting { attempt } => {
                assert!(*attempt >= last, "{attempt} after {last}");
                last = *attempt;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!connection.is_ready());
    valkey.start_again()?;
    reconnected(&connection, 1).await;
    assert!(connection.is_ready());
    assert_eq!(connection.counters().reconnects, 1);
    connection.close().await;
    assert!(matches!(*state.borrow_and_update(), ConnectionState::Closed));
    Ok(())
}

#[tokio::test]
async fn no_duration_is_too_long() -> Test {
    let valkey = Valkey::start()?;
    let (ever, peer) = (Duration::MAX, Peer::listen().await);
    let reconnect = Reconnect {
        base: Duration::from_millis(1),
        cap: ever,
        call_wait: ever,
        initial_wait: ever,
    };
    let config = config(&valkey)
        .heartbeat(ever, ever)
        .connect_timeout(ever)
        .response_timeout(Some(ever))
        .reconnect(reconnect);
    let connection = Connection::connect(config.clone()).await?;
    let id = client_id(&connection).await.to_string();
    valkey.cli(&["CLIENT", "KILL", "ID", &id])?;
    state_is(&connection, |s| !matches!(s, ConnectionState::Ready)).await;
    assert_eq!(text(&soon("service", connection.command(cmd("PING"))).await?), "PONG");
    let mut lane = emq_wire::BlockingLane::connect(config).await?;
    valkey.cli(&["RPUSH", "l", "x"])?;
    assert_eq!(lane.blpop("l", ever).await?.as_deref(), Some(&b"x"[..]));
    assert!(lane.call(cmd("PING"), ever).await?.as_bytes().is_some());
    // A timer that has to be set again while the connection lives.
    let config = peer.config().heartbeat(Duration::from_millis(20), ever);
    let (connection, mut link) = tokio::join!(Connection::connect(config), peer.serve());
    let connection = connection?;
    link.expect("PING").await;
    link.send("+PONG\r\n").await;
    let (reply, ()) = tokio::join!(connection.command(cmd("GET k")), async {
        while link.next().await == "PING" {
            link.send("+PONG\r\n").await;
        }
        link.send("+v\r\n").await;
    });
    assert_eq!(text(&reply?), "v");
    Ok(())
}
