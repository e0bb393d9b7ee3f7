//! The bounds of a connection are exact, and what is in flight always comes back to nothing.

mod support;

use emq_testkit::Valkey;
use emq_wire::{Cmd, Connection, Overload, Pipeline, Script, WireError};
use support::peer::{Link, Peer};
use support::{Test, begin, cmd, config, reconnected, soon, text};
use tokio::task::JoinSet;

fn overloaded<T: std::fmt::Debug>(outcome: &Result<T, WireError>, what: &str) -> bool {
    matches!(outcome, Err(WireError::Overloaded { what: found, .. }) if *found == what)
}

async fn silent(peer: &Peer, limit: usize, overload: Overload) -> (Connection, Link) {
    let config = peer.config().max_in_flight(limit).overload(overload);
    let (connection, link) = tokio::join!(Connection::connect(config), peer.serve());
    (connection.unwrap(), link)
}

#[tokio::test]
async fn the_excess_caller_is_refused_at_once_and_the_rest_are_served() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = silent(&peer, 4, Overload::Refuse).await;
    let mut calls: Vec<_> = (0..3).map(|_| Box::pin(connection.command(cmd("GET k")))).collect();
    begin(&mut calls).await;
    let pair = || Pipeline::from_iter([cmd("GET k"), cmd("GET k")]);
    assert!(overloaded(&connection.pipeline(pair()).await, "commands"));
    calls.push(Box::pin(connection.command(cmd("GET k"))));
    begin(&mut calls[3..]).await;
    assert!(overloaded(&connection.command(cmd("GET k")).await, "commands"));
    assert_eq!((connection.in_flight(), connection.counters().overloads), (4, 2));
    for _ in 0..4 {
        link.next().await;
    }
    // Two answers make room for two, exactly.
    link.send("+0\r\n+1\r\n").await;
    for (n, call) in calls.drain(..2).enumerate() {
        assert_eq!(text(&call.await?), n.to_string());
    }
    assert_eq!(connection.in_flight(), 2);
    let mut pairs = vec![Box::pin(connection.pipeline(pair()))];
    begin(&mut pairs).await;
    assert!(overloaded(&connection.command(cmd("GET k")).await, "commands"));
    link.send("+2\r\n+3\r\n+4\r\n+5\r\n").await;
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(text(&call.await?), (n + 2).to_string());
    }
    assert_eq!(pairs.remove(0).await?.iter().map(text).collect::<Vec<_>>(), ["4", "5"]);
    assert_eq!((connection.in_flight(), connection.counters().commands), (0, 6));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_has_its_reply_has_its_room_too() -> Test {
    let valkey = Valkey::start()?;
    for limit in [1, 3] {
        let connection = Connection::connect(config(&valkey).max_in_flight(limit)).await?;
        let mut tasks = JoinSet::new();
        for _ in 0..limit {
            let connection = connection.clone();
            tasks.spawn(async move {
                for _ in 0..3000 {
                    connection.command(cmd("PING")).await.expect("no more than the bound call");
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done?;
        }
        assert_eq!(connection.in_flight(), 0);
    }
    Ok(())
}

#[tokio::test]
async fn who_waits_for_room_is_served_in_turn_and_may_leave() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = silent(&peer, 2, Overload::Wait).await;
    let call = |key: &str| Box::pin(connection.command(cmd(&format!("GET {key}"))));
    let mut first = vec![call("a"), call("b")];
    begin(&mut first).await;
    let pair = Pipeline::from_iter([cmd("GET c1"), cmd("GET c2")]);
    let mut pair = vec![Box::pin(connection.pipeline(pair))];
    begin(&mut pair).await;
    let mut late = vec![call("left"), call("d"), call("e")];
    begin(&mut late).await;
    drop(late.remove(0));
    let three = Pipeline::from_iter([cmd("GET x"), cmd("GET x"), cmd("GET x")]);
    assert!(overloaded(&connection.pipeline(three).await, "commands"), "would wait for ever");
    for key in ["a", "b"] {
        link.expect(&format!("GET {key}")).await;
    }
    link.send("+a\r\n").await;
    assert_eq!(text(&first.remove(0).await?), "a");
    // One place is free, but the pair was first and needs two.
    begin(&mut pair).await;
    begin(&mut late).await;
    assert_eq!(connection.in_flight(), 1);
    link.send("+b\r\n").await;
    let peer = async {
        for key in ["c1", "c2"] {
            link.expect(&format!("GET {key}")).await;
        }
        link.send("+c1\r\n+c2\r\n").await;
        for key in ["d", "e"] {
            link.expect(&format!("GET {key}")).await;
        }
        link.send("+d\r\n+e\r\n").await;
    };
    let (e, d) = (late.pop().unwrap(), late.pop().unwrap());
    let all = async { tokio::join!(peer, pair.remove(0), d, e, first.remove(0)) };
    let ((), pair, d, e, b) = soon("everybody's turn", all).await;
    assert_eq!(pair?.iter().map(text).collect::<Vec<_>>(), ["c1", "c2"]);
    assert_eq!([text(&d?), text(&e?), text(&b?)], ["d", "e", "b"]);
    assert_eq!((connection.in_flight(), connection.counters().commands), (0, 6));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_over_the_bound_waits_and_all_are_served() -> Test {
    let valkey = Valkey::start()?;
    let config = config(&valkey).max_in_flight(5).overload(Overload::Wait).max_queued_bytes(400);
    let connection = Connection::connect(config).await?;
    let mut tasks = JoinSet::new();
    for task in 0..40_usize {
        let connection = connection.clone();
        tasks.spawn(async move {
            for n in 1..=50 {
                let cmds = (0..1 + task % 5).map(|_| cmd("INCR n"));
                let replies = connection.pipeline(cmds.collect()).await.unwrap();
                assert_eq!(replies.len(), 1 + task % 5);
                assert!(connection.in_flight() <= 5);
                if n % 10 == 0 {
                    // A waiter that gives up.
                    tokio::select! {
                        biased;
                        _ = connection.command(cmd("PING")) => {}
                        () = tokio::task::yield_now() => {}
                    }
                }
            }
        });
    }
    let all = async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    };
    soon("the crowd's end", all).await;
    connection.command(cmd("PING")).await?;
    assert_eq!((connection.in_flight(), connection.counters().overloads), (0, 0));
    assert_eq!(valkey.cli(&["GET", "n"])?, (40 / 5 * 50 * 15).to_string());
    Ok(())
}

const BLOB: usize = 64 * 1024;
const QUEUE: usize = 32 * BLOB;

fn blob(key: usize) -> Cmd {
    Cmd::new("SET").arg(format!("k{key}")).arg(vec![b'x'; BLOB])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_queued_for_a_server_that_stands_still_are_bounded() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey).max_queued_bytes(QUEUE)).await?;
    valkey.pause()?;
    let mut accepted = Vec::new();
    // The kernel takes some megabytes at most; then the bound is met.
    let refused = loop {
        let mut call = Box::pin(connection.command(blob(accepted.len())));
        let outcome = tokio::select! {
            biased;
            outcome = &mut call => outcome,
            () = tokio::task::yield_now() => {
                accepted.push(call);
                assert!(accepted.len() * BLOB < 1 << 30, "no bound in sight");
                continue;
            }
        };
        // The writer may have found room in the kernel just now: met twice, it is the bound.
        break outcome;
    };
    assert!(overloaded(&refused, "queued bytes"), "{refused:?}");
    assert_eq!(connection.in_flight(), accepted.len());
    valkey.resume()?;
    let count = accepted.len();
    for call in accepted {
        assert_eq!(text(&soon("a reply", call).await?), "OK");
    }
    assert_eq!(connection.in_flight(), 0);
    assert_eq!(valkey.cli(&["DBSIZE"])?, count.to_string());
    // All of the room is back.
    let full = Cmd::new("SET").arg("k").arg(vec![b'x'; QUEUE - 64]);
    assert_eq!(text(&connection.command(full).await?), "OK");
    let over = Cmd::new("SET").arg("k").arg(vec![b'x'; QUEUE]);
    assert!(overloaded(&connection.command(over).await, "queued bytes"));
    Ok(())
}

#[tokio::test]
async fn who_leaves_while_waiting_for_bytes_takes_no_room_along() -> Test {
    let valkey = Valkey::start()?;
    let config = config(&valkey).max_queued_bytes(QUEUE).overload(Overload::Wait);
    let connection = Connection::connect(config).await?;
    valkey.pause()?;
    let mut calls = Vec::new();
    let mut stuck = 0;
    while stuck < 8 {
        let mut call = Box::pin(connection.command(blob(calls.len())));
        begin(std::slice::from_mut(&mut call)).await;
        calls.push(call);
        // The writer has its turns; when nothing moves any more, the last ones wait for room.
        let sent = connection.counters().bytes_out;
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        let moved = connection.counters().bytes_out > sent;
        let queued = calls.len() * BLOB > usize::try_from(sent)? + QUEUE + BLOB;
        stuck = if moved || !queued { 0 } else { stuck + 1 };
    }
    // The last of them waits for bytes, or in the line behind one that does.
    for call in calls.drain(calls.len() - 4..) {
        drop(call);
    }
    valkey.resume()?;
    for call in calls {
        assert_eq!(text(&soon("a reply", call).await?), "OK");
    }
    assert_eq!(connection.in_flight(), 0, "commands of callers that left");
    let full = Cmd::new("SET").arg("k").arg(vec![b'x'; QUEUE - 64]);
    assert_eq!(text(&soon("room", connection.command(full)).await?), "OK");
    Ok(())
}

/// What is in flight comes back to nothing after each way in which a connection fails.
#[tokio::test]
async fn nothing_stays_in_flight_whatever_fails() -> Test {
    let peer = Peer::listen().await;
    // A peer is as slow as its busy machine: nothing here waits for a bound that matters.
    let config = peer.config().max_in_flight(10).max_queued_bytes(600);
    let (connection, link) = tokio::join!(Connection::connect(config), peer.serve());
    let (connection, mut link) = (connection?, link);
    let ten = "+1\r\n+2\r\n+3\r\n+4\r\n+5\r\n+6\r\n+7\r\n+8\r\n+9\r\n";
    let surplus = format!("{ten}+10\r\n+too many\r\n");
    let moved = format!("-READONLY not here\r\n{ten}");
    for (round, (last_words, hang_up)) in [
        ("", true),
        ("+1\r\n", true),
        ("+1\r\n+2\r\n*2\r\n+half\r\n", true),
        ("+1\r\n?what\r\n", false),
        ("+1\r\n+2\r\n$3\r\nabcd\r\n", false),
        ("+1\r\n:+1\r\n", false),
        (moved.as_str(), false),
        (surplus.as_str(), false),
    ]
    .into_iter()
    .enumerate()
    {
        let mut calls: Vec<_> =
            (0..5).map(|_| Box::pin(connection.command(cmd("GET k")))).collect();
        begin(&mut calls).await;
        let pipeline = (0..5).map(|_| cmd("GET k")).collect();
        let mut pipelines = vec![Box::pin(connection.pipeline(pipeline))];
        begin(&mut pipelines).await;
        drop(calls.pop());
        assert_eq!(connection.in_flight(), 10);
        for _ in 0..10 {
            link.next().await;
        }
        link.send(last_words).await;
        if hang_up {
            drop(link);
        } else {
            link.hung_up().await;
        }
        for call in calls {
            let _ = soon("an answer", call).await;
        }
        let _ = soon("an answer", pipelines.remove(0)).await;
        link = peer.serve().await;
        reconnected(&connection, round as u64 + 1).await;
        assert_eq!(connection.in_flight(), 0, "after {last_words:?}");
        // Queued bytes came back too: the whole bound fits.
        let mut full = vec![Box::pin(connection.command(Cmd::new("SET").arg(vec![b'x'; 560])))];
        begin(&mut full).await;
        link.next().await;
        link.send("+OK\r\n").await;
        assert_eq!(text(&full.remove(0).await?), "OK");
    }
    assert_eq!(connection.counters().wire_errors, 8);
    Ok(())
}

/// What was admitted once and ran in part must not be refused by the bound in the middle.
#[tokio::test]
async fn a_reload_is_not_refused_when_others_have_taken_the_room() -> Test {
    let peer = Peer::listen().await;
    let config = peer.config().max_in_flight(2).max_queued_bytes(200);
    let (connection, link) = tokio::join!(Connection::connect(config), peer.serve());
    let (connection, mut link) = (connection?, link);
    let in_flight = async |n| {
        while connection.in_flight() != n {
            tokio::task::yield_now().await;
        }
    };
    let other = || Box::pin(connection.command(cmd("GET k")));
    // Longer than all that may be queued.
    let script = Script::new("long", format!("--{}", "x".repeat(1000)));
    let call = Pipeline::from_iter([cmd("INCR n"), script.call(0, 0)]);
    let mut pair = [Box::pin(connection.pipeline(call))];
    begin(&mut pair).await;
    link.expect("INCR n").await;
    link.next().await;
    link.send(":1\r\n-NOSCRIPT none\r\n").await;
    in_flight(0).await;
    let mut others = [other(), other()];
    begin(&mut others).await;
    begin(&mut pair).await;
    link.expect("GET k").await;
    link.expect("GET k").await;
    assert!(link.next().await.starts_with("SCRIPT LOAD --x"));
    link.send("+a\r\n+b\r\n").await;
    for other in others {
        other.await?;
    }
    // Again, before the repetition: the load itself has a place, so there is one for another.
    let mut second = [other()];
    begin(&mut second).await;
    link.send(format!("$40\r\n{}\r\n", script.sha1())).await;
    in_flight(1).await;
    let mut third = [other()];
    begin(&mut third).await;
    begin(&mut pair).await;
    assert_eq!(connection.in_flight(), 2, "the repetition waits");
    link.expect("GET k").await;
    link.expect("GET k").await;
    link.send("+c\r\n+d\r\n").await;
    let [pair] = pair;
    let (replies, ()) = tokio::join!(pair, async {
        assert!(link.next().await.starts_with("EVALSHA"));
        link.send(":5\r\n").await;
    });
    let replies = replies?;
    assert_eq!((replies[0].as_int(), replies[1].as_int()), (Some(1), Some(5)));
    for other in second.into_iter().chain(third) {
        other.await?;
    }
    assert_eq!((connection.in_flight(), connection.counters().overloads), (0, 0));
    Ok(())
}
