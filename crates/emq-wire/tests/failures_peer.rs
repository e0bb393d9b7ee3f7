//! A peer that goes silent, hangs up in the middle, or sends what is no reply.

mod support;

use std::time::Duration;

use emq_testkit::Valkey;
use emq_wire::{
    Cmd, Config, Connection, ConnectionState, Limits, Pipeline, ProtocolError, WireError,
};
use support::peer::{Link, Peer};
use support::{Test, begin, cmd, config, reconnected, soon, state_is, text};

async fn connected(config: Config, peer: &Peer) -> (Connection, Link) {
    let (connection, link) = tokio::join!(Connection::connect(config), peer.serve());
    (connection.unwrap(), link)
}

/// A connection that serves again on the next socket.
async fn serves_again(connection: &Connection, peer: &Peer, times: u64) {
    let mut link = peer.serve().await;
    reconnected(connection, times).await;
    let (reply, ()) = tokio::join!(connection.command(cmd("GET again")), async {
        link.expect("GET again").await;
        link.send("+yes\r\n").await;
    });
    assert_eq!(text(&reply.unwrap()), "yes");
    assert_eq!(connection.in_flight(), 0);
}

#[tokio::test]
async fn a_frame_that_is_none_is_typed_for_its_caller_and_the_socket_is_dropped() -> Test {
    let limits = Limits {
        max_bulk_bytes: 100,
        max_reply_bytes: 150,
        max_depth: 4,
        max_elements: 10,
        max_line_bytes: 50,
    };
    let long = format!("*2\r\n$100\r\n{}\r\n$51\r\n", "x".repeat(100));
    for (frame, error) in [
        (long.as_str(), ProtocolError::ReplyTooLong { limit: 150 }),
        ("?\r\n", ProtocolError::UnknownType(b'?')),
        ("HTTP/1.1 400 Bad Request\r\n", ProtocolError::UnknownType(b'H')),
        (":12x\r\n", ProtocolError::BadInteger),
        (":99999999999999999999\r\n", ProtocolError::BadInteger),
        ("$-2\r\n", ProtocolError::BadLength),
        ("$3\r\nabcd\r\n", ProtocolError::MissingCrlf),
        ("+O\nK\r\n", ProtocolError::MissingCrlf),
        ("$101\r\n", ProtocolError::BulkTooLong { announced: 101, limit: 100 }),
        (
            "$9223372036854775807\r\n",
            ProtocolError::BulkTooLong { announced: i64::MAX as u64, limit: 100 },
        ),
        ("*11\r\n", ProtocolError::TooManyElements { limit: 10 }),
        ("*1000000000\r\n", ProtocolError::TooManyElements { limit: 10 }),
        ("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", ProtocolError::TooDeep { limit: 4 }),
        ("*1\r\n>1\r\n", ProtocolError::NestedPush),
        ("#x\r\n", ProtocolError::BadBool),
    ] {
        let peer = Peer::listen().await;
        let (connection, mut link) = connected(peer.config().limits(limits), &peer).await;
        let mut calls: Vec<_> =
            (0..3).map(|_| Box::pin(connection.command(cmd("GET k")))).collect();
        begin(&mut calls).await;
        let pair = Pipeline::from_iter([cmd("GET k"), cmd("GET k")]);
        let mut pairs = vec![Box::pin(connection.pipeline(pair))];
        begin(&mut pairs).await;
        for _ in 0..5 {
            link.next().await;
        }
        link.send(format!("+good\r\n{frame}")).await;
        link.hung_up().await;
        let mut calls = calls.into_iter();
        assert_eq!(text(&calls.next().unwrap().await?), "good");
        let outcome = calls.next().unwrap().await;
        assert!(
            matches!(&outcome, Err(WireError::Protocol(found)) if *found == error),
            "{frame:?}: {outcome:?}"
        );
        let lost = |error: &WireError| matches!(error, WireError::Disconnected { written: true });
        assert!(lost(&calls.next().unwrap().await.unwrap_err()));
        assert!(lost(&pairs.remove(0).await.unwrap_err()));
        assert_eq!((connection.in_flight(), connection.counters().wire_errors), (0, 1));
        serves_again(&connection, &peer, 1).await;
    }
    Ok(())
}

/// However the answers are portioned, what came before the end reaches its callers.
#[tokio::test]
async fn many_replies_before_the_end_are_all_delivered() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = connected(peer.config(), &peer).await;
    for (round, last_words) in ["", "?\r\n", "+one more\r\n*1\r\n"].iter().enumerate() {
        let more = usize::from(last_words.starts_with('+'));
        let mut calls: Vec<_> =
            (0..500).map(|_| Box::pin(connection.command(cmd("GET k")))).collect();
        begin(&mut calls).await;
        for _ in 0..500 {
            link.next().await;
        }
        let replies: String = (0..333).map(|n| format!("+{n}\r\n")).collect();
        link.send(replies + last_words).await;
        let mut calls = calls.into_iter();
        for n in 0..333 + more {
            let reply = soon("a reply", calls.next().unwrap()).await?;
            assert!(n >= 333 || text(&reply) == n.to_string());
        }
        drop(link);
        let mut lost = Vec::new();
        for call in calls {
            lost.push(soon("an answer", call).await.unwrap_err());
        }
        let typed = matches!(lost[0], WireError::Protocol(_));
        assert_eq!(typed, last_words.starts_with('?'), "{:?}", lost[0]);
        for error in &lost[usize::from(typed)..] {
            assert!(matches!(error, WireError::Disconnected { written: true }), "{error:?}");
        }
        assert_eq!(connection.in_flight(), 0);
        link = peer.serve().await;
        reconnected(&connection, round as u64 + 1).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_reply_that_came_before_a_write_failed_is_delivered() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = connected(peer.config(), &peer).await;
    let mut first = vec![Box::pin(connection.command(cmd("GET k")))];
    begin(&mut first).await;
    link.expect("GET k").await;
    // More than the kernel takes: the writer stands.
    let large = Cmd::new("SET").arg(vec![b'x'; 64 << 20]);
    let mut second = vec![Box::pin(connection.command(large))];
    begin(&mut second).await;
    let (mut seen, mut still) = (0, 0);
    while still < 100 {
        tokio::task::yield_now().await;
        let now = connection.counters().bytes_out;
        still = if now == seen { still + 1 } else { 0 };
        seen = now;
    }
    link.send("+v\r\n").await;
    drop(link);
    assert_eq!(text(&soon("a reply", first.remove(0)).await?), "v");
    let outcome = soon("an answer", second.remove(0)).await;
    assert!(matches!(outcome, Err(WireError::Disconnected { written: true })), "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn an_endless_line_ends() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = connected(peer.config(), &peer).await;
    let call = connection.command(cmd("GET k"));
    let (outcome, ()) = tokio::join!(call, async {
        link.next().await;
        link.send([b"+", &[b'x'; 70_000][..]].concat()).await;
        link.hung_up().await;
    });
    let error = outcome.unwrap_err();
    assert!(matches!(error, WireError::Protocol(ProtocolError::LineTooLong { .. })), "{error:?}");
    serves_again(&connection, &peer, 1).await;
    Ok(())
}

#[tokio::test]
async fn a_reply_that_nobody_asked_for_answers_nobody() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = connected(peer.config(), &peer).await;
    link.send("+surprise\r\n").await;
    link.hung_up().await;
    serves_again(&connection, &peer, 1).await;
    Ok(())
}

#[tokio::test]
async fn garbage_before_anything_was_asked_costs_no_caller() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = connected(peer.config(), &peer).await;
    link.send("garbage\r\n").await;
    link.hung_up().await;
    serves_again(&connection, &peer, 1).await;
    Ok(())
}

#[tokio::test]
async fn a_peer_that_hangs_up_within_a_reply_leaves_nobody_waiting() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = connected(peer.config(), &peer).await;
    for (round, half) in ["$10\r\nhal", "*3\r\n+a\r\n", "+no end", ":1", "$"].iter().enumerate() {
        let (outcome, ()) = tokio::join!(connection.command(cmd("GET k")), async {
            link.next().await;
            link.send(half).await;
            drop(link);
        });
        let outcome = outcome.map(|reply| format!("{reply:?}"));
        assert!(matches!(outcome, Err(WireError::Disconnected { written: true })), "{outcome:?}");
        link = peer.serve().await;
        reconnected(&connection, round as u64 + 1).await;
        assert_eq!(connection.in_flight(), 0);
    }
    Ok(())
}

const BEAT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_silent_peer_is_probed_then_dropped_and_its_callers_fail() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = connected(peer.config().heartbeat(BEAT, BEAT), &peer).await;
    // Nobody asks anything.
    link.expect("PING").await;
    link.hung_up().await;
    let mut link = peer.serve().await;
    reconnected(&connection, 1).await;
    // Somebody asks and hears nothing.
    let (outcome, pings) = tokio::join!(connection.command(cmd("GET k")), async {
        let mut pings = 0;
        while let Some(command) = soon("a hang-up", link.read()).await {
            pings += usize::from(command == "PING");
        }
        pings
    });
    assert!(matches!(outcome, Err(WireError::Disconnected { written: true })), "{outcome:?}");
    assert!(pings >= 1);
    assert_eq!((connection.in_flight(), connection.counters().replies), (0, 0));
    // The redial of it all, with a peer that answers its probes for a while.
    let mut link = peer.serve().await;
    for _ in 0..5 {
        link.expect("PING").await;
        link.send("+PONG\r\n").await;
    }
    Ok(())
}

#[tokio::test]
async fn a_slow_command_is_waited_for_while_the_probe_has_time() -> Test {
    let peer = Peer::listen().await;
    let config = peer.config().heartbeat(BEAT, Duration::from_secs(60));
    let (connection, mut link) = connected(config, &peer).await;
    let (reply, ()) = tokio::join!(connection.command(cmd("GET slow")), async {
        link.expect("GET slow").await;
        link.expect("PING").await;
        // Several heartbeats later, still within the bound of the answer.
        tokio::time::sleep(BEAT * 5).await;
        link.send("+slow\r\n+PONG\r\n").await;
    });
    assert_eq!(text(&reply?), "slow");
    assert_eq!((connection.counters().reconnects, connection.in_flight()), (0, 0));
    // Bytes of any kind prove that the peer lives.
    let (reply, ()) = tokio::join!(connection.command(cmd("GET drop")), async {
        while link.next().await == "PING" {
            link.send("+PONG\r\n").await;
        }
        link.send("$4\r\n").await;
        link.expect("PING").await;
        for byte in "by b\r\n".bytes() {
            link.send([byte]).await;
        }
        link.send("+PONG\r\n").await;
    });
    assert_eq!(text(&reply?), "by b");
    assert_eq!(connection.counters().reconnects, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_is_dropped_and_found_again() -> Test {
    let valkey = Valkey::start()?;
    let beat = Duration::from_millis(300);
    let connection = Connection::connect(config(&valkey).heartbeat(beat, beat)).await?;
    connection.command(cmd("INCR n")).await?;
    valkey.pause()?;
    let outcome = soon("an answer", connection.command(cmd("INCR n"))).await;
    assert!(matches!(outcome, Err(WireError::Disconnected { written: true })), "{outcome:?}");
    state_is(&connection, |s| matches!(s, ConnectionState::Reconnecting { .. })).await;
    assert_eq!(connection.in_flight(), 0);
    valkey.resume()?;
    reconnected(&connection, 1).await;
    // The one that was written may have run after all; this one does for certain.
    let n = loop {
        match connection.command(cmd("INCR n")).await {
            Ok(reply) => break reply.as_int().unwrap(),
            Err(WireError::Disconnected { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert!(n >= 2);
    Ok(())
}
