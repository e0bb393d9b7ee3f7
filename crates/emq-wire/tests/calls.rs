//! Calls on a shared connection: each caller gets its own replies, in order, whatever others do.

mod support;

use emq_testkit::Valkey;
use emq_wire::{Cmd, Connection, Pipeline, Reply, Script, WireError};
use support::peer::Peer;
use support::{Test, begin, cmd, config, runs, soon, text, touch};
use tokio::task::JoinSet;

fn counts(key: &str, n: usize) -> Pipeline {
    (0..n).map(|_| Cmd::new("INCR").arg(key)).collect()
}

fn ints(replies: &[Reply]) -> Vec<i64> {
    replies.iter().map(|reply| reply.as_int().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_commands_answer_in_order_with_others_between() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut others = JoinSet::new();
    for task in 0..4 {
        let (connection, stopped) = (connection.clone(), stopped.clone());
        others.spawn(async move {
            let mut n = 0;
            while !*stopped.borrow() {
                n += 1;
                let mine = format!("{task}-{n}");
                let echo = connection.command(Cmd::new("ECHO").arg(&mine)).await.unwrap();
                assert_eq!(text(&echo), mine);
                let pair = connection.pipeline(counts(&format!("k{task}"), 2)).await.unwrap();
                assert_eq!(ints(&pair), [2 * n - 1, 2 * n]);
            }
            n
        });
    }
    for round in 0..3 {
        let replies = connection.pipeline(counts("n", 10_000)).await?;
        let first = round * 10_000 + 1;
        assert_eq!(ints(&replies), (first..first + 10_000).collect::<Vec<_>>());
    }
    stop.send(true)?;
    while let Some(calls) = others.join_next().await {
        assert!(calls? > 0);
    }
    assert_eq!(valkey.cli(&["GET", "n"])?, "30000");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_many_tasks_submit_at_once_leaves_together() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let connection = connection.clone();
        tasks.spawn(async move {
            for n in 1..=200 {
                let reply = connection.command(cmd(&format!("INCR k{task}"))).await.unwrap();
                assert_eq!(reply.as_int(), Some(n));
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?;
    }
    let counters = connection.counters();
    assert_eq!(counters.commands, 64 * 200);
    assert!(counters.writes * 4 < counters.commands, "{counters:?}");
    Ok(())
}

#[tokio::test]
async fn a_call_that_leaves_at_once_or_is_lonely_waits_for_no_other() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let crowd = async || {
        let (one, two) = (connection.command(cmd("PING")), connection.command(cmd("PING")));
        tokio::try_join!(one, two)
    };
    // The second is queued when the writer has seen the first and given way.
    let both = async |first: Cmd| {
        let before = connection.counters().writes;
        let (one, two) = (connection.clone(), connection.clone());
        let one = tokio::spawn(async move { one.command(first).await });
        let two = tokio::spawn(async move {
            behind_the_writer().await;
            two.command(cmd("PING")).await
        });
        assert!(one.await.unwrap().is_ok() && two.await.unwrap().is_ok());
        connection.counters().writes - before
    };
    crowd().await?;
    assert_eq!(both(cmd("PING")).await, 1, "others were there: it gives way");
    assert_eq!(both(cmd("PING").at_once()).await, 2);
    assert_eq!(both(cmd("PING")).await, 2, "the last write carried one: it is lonely");
    crowd().await?;
    assert_eq!(both(cmd("PING")).await, 1, "and no longer");
    Ok(())
}

/// Goes to the end of the line of tasks that are ready, where the writer is already.
async fn behind_the_writer() {
    let mut stepped = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut stepped, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[tokio::test]
async fn what_is_queued_while_the_writer_is_busy_is_one_write() -> Test {
    let peer = Peer::listen().await;
    let (connection, link) = tokio::join!(Connection::connect(peer.config()), peer.serve());
    let (connection, mut link) = (connection?, link);
    let mut calls: Vec<_> =
        (0..100).map(|n| Box::pin(connection.command(cmd(&format!("GET k{n}"))))).collect();
    begin(&mut calls).await;
    for n in 0..100 {
        link.expect(&format!("GET k{n}")).await;
    }
    assert_eq!(connection.counters().writes, 1);
    link.send(":1\r\n".repeat(100)).await;
    for call in calls {
        assert_eq!(call.await?.as_int(), Some(1));
    }
    Ok(())
}

#[tokio::test]
async fn callers_that_time_out_or_leave_take_their_replies_along() -> Test {
    let peer = Peer::listen().await;
    let bound = std::time::Duration::from_secs(2);
    let config = peer.config().response_timeout(Some(bound));
    let (connection, link) = tokio::join!(Connection::connect(config), peer.serve());
    let (connection, mut link) = (connection?, link);
    let mut gone = vec![Box::pin(connection.command(cmd("GET dropped")))];
    begin(&mut gone).await;
    drop(gone);
    let pair = [cmd("GET dropped1"), cmd("GET dropped2")].into_iter().collect();
    let mut gone = vec![Box::pin(connection.pipeline(pair))];
    begin(&mut gone).await;
    let late = connection.command(cmd("GET late")).await;
    assert!(matches!(late, Err(WireError::Timeout { after }) if after == bound), "{late:?}");
    drop(gone);
    assert_eq!(connection.in_flight(), 4, "their slots stay");
    let mut next: Vec<_> =
        (0..5).map(|n| Box::pin(connection.command(cmd(&format!("GET {n}"))))).collect();
    begin(&mut next).await;
    for _ in 0..4 {
        link.next().await;
    }
    for n in 0..5 {
        link.expect(&format!("GET {n}")).await;
    }
    link.send("+dropped\r\n+dropped1\r\n+dropped2\r\n+late\r\n").await;
    link.send("+0\r\n+1\r\n+2\r\n+3\r\n+4\r\n").await;
    for (n, call) in next.into_iter().enumerate() {
        assert_eq!(text(&call.await?), n.to_string());
    }
    assert_eq!(connection.in_flight(), 0);
    assert_eq!(connection.counters().replies, 9);
    Ok(())
}

#[tokio::test]
async fn replies_may_come_a_byte_at_a_time_or_a_thousand_at_once() -> Test {
    let peer = Peer::listen().await;
    let (connection, link) = tokio::join!(Connection::connect(peer.config()), peer.serve());
    let (connection, mut link) = (connection?, link);
    let call = connection.pipeline(counts("n", 1000));
    let answer = async {
        for _ in 0..1000 {
            link.next().await;
        }
        for byte in "*2\r\n$5\r\na\r\nb\0\r\n:-5\r\n".bytes() {
            link.send([byte]).await;
            tokio::task::yield_now().await;
        }
        link.send((1..1000).map(|n| format!(":{n}\r\n")).collect::<String>()).await;
    };
    let (replies, ()) = tokio::join!(call, answer);
    let replies = replies?;
    assert_eq!(replies[0], Reply::Array(vec![Reply::Bulk("a\r\nb\0".into()), Reply::Int(-5)]));
    assert_eq!(ints(&replies[1..]), (1..1000).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn an_error_is_a_value_in_its_place_and_any_byte_is_payload() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let replies = connection
        .pipeline(Pipeline::from_iter([
            Cmd::new("SET").arg("k\r\n\0").arg(&bytes),
            cmd("LPUSH l x"),
            cmd("INCR l"),
            cmd("NOSUCH command"),
            Cmd::new("GET").arg("k\r\n\0"),
        ]))
        .await?;
    assert_eq!(replies[0], Reply::Simple("OK".into()));
    assert_eq!(replies[1].as_int(), Some(1));
    assert!(replies[2].as_error().is_some_and(|error| error.is("WRONGTYPE")));
    assert!(replies[3].as_error().is_some_and(|error| error.is("ERR")));
    assert_eq!(replies[4].as_bytes().map(|b| b.to_vec()), Some(bytes));
    assert!(connection.pipeline(Pipeline::new()).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn what_would_break_a_shared_connection_never_leaves() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    for line in ["BLPOP l 0", "bzpopmin z 0", "WAIT 1 0", "SELECT 1", "MONITOR", "MULTI"] {
        let outcome = connection.command(cmd(line)).await;
        assert!(matches!(outcome, Err(WireError::NotShareable { .. })), "{line}: {outcome:?}");
    }
    let mixed = Pipeline::from_iter([cmd("INCR n"), cmd("BLMOVE a b LEFT LEFT 0")]);
    let outcome = connection.pipeline(mixed).await;
    assert!(matches!(outcome, Err(WireError::NotShareable { command: "BLMOVE", .. })));
    assert_eq!(valkey.cli(&["EXISTS", "n"])?, "0");
    assert_eq!((connection.counters().commands, connection.in_flight()), (0, 0));
    // A whole transaction is harmless.
    let whole = Pipeline::from_iter([cmd("MULTI"), cmd("INCR n"), cmd("EXEC")]);
    let replies = connection.pipeline(whole).await?;
    assert_eq!(replies[2], Reply::Array(vec![Reply::Int(1)]));
    Ok(())
}

#[tokio::test]
async fn each_counter_is_exact() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey).max_in_flight(100)).await?;
    let before = connection.counters();
    assert_eq!((before.commands, before.replies, before.reconnects), (0, 0, 0));
    for _ in 0..3 {
        connection.command(cmd("INCR n")).await?;
    }
    connection.pipeline(counts("n", 10)).await?;
    connection.pipeline(counts("n", 1)).await?;
    let script = Script::new("one", "return 1");
    for _ in 0..2 {
        connection.eval(&script, &["k"], &["a"]).await?;
    }
    let refused = connection.pipeline(counts("n", 101)).await;
    assert!(matches!(refused, Err(WireError::Overloaded { limit: 100, .. })));
    let counters = connection.counters();
    // The first call of the script is sent twice, with its load between.
    assert_eq!(counters.commands, 3 + 10 + 1 + 4);
    assert_eq!(counters.replies, counters.commands);
    assert_eq!((counters.pipelines, counters.overloads), (1, 1));
    assert_eq!((counters.script_loads, counters.evalsha_calls), (1, 3));
    assert_eq!((counters.pushes, counters.reconnects, counters.wire_errors), (0, 0, 0));
    let incr = Cmd::new("INCR").arg("n").to_bytes().len();
    let script_bytes =
        "*5\r\n$7\r\nEVALSHA\r\n$40\r\n\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\na\r\n".len() + 40;
    let load = Cmd::new("SCRIPT").arg("LOAD").arg("return 1").to_bytes().len();
    assert_eq!(counters.bytes_out, (14 * incr + 3 * script_bytes + load) as u64);
    assert!(counters.bytes_in > 0 && counters.writes <= counters.commands);
    assert_eq!(runs(&valkey, "incr"), 14);
    Ok(())
}

/// Everything at once, from more threads than there are cores.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_crowd_of_all_kinds_of_callers_stays_aligned() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let script = Script::new("echo", "return {KEYS[1], ARGV[1]}");
    let mut tasks = JoinSet::new();
    for task in 0..32_usize {
        let (connection, script) = (connection.clone(), script.clone());
        tasks.spawn(async move {
            for n in 0..120_usize {
                let mine = format!("{task}:{n}:{}", "x".repeat((task * 37 + n * 101) % 3000));
                match (task + n) % 5 {
                    0 => {
                        let reply = connection.command(Cmd::new("ECHO").arg(&mine)).await.unwrap();
                        assert_eq!(text(&reply), mine);
                    }
                    1 => {
                        let echoes = (0..7).map(|i| Cmd::new("ECHO").arg(format!("{mine}{i}")));
                        let replies = connection.pipeline(echoes.collect()).await.unwrap();
                        for (i, reply) in replies.iter().enumerate() {
                            assert_eq!(text(reply), format!("{mine}{i}"));
                        }
                    }
                    2 => {
                        let reply = connection.eval(&script, &[&mine], &[n.to_string()]).await;
                        let reply = reply.unwrap();
                        let pair = reply.as_array().unwrap();
                        assert_eq!((text(&pair[0]), text(&pair[1])), (mine, n.to_string()));
                    }
                    3 => {
                        // Begun and left: its slot swallows the reply.
                        touch(&mut Box::pin(connection.command(Cmd::new("ECHO").arg(&mine)))).await;
                    }
                    _ => {
                        if n == 60 && task % 8 == 0 {
                            connection.command(cmd("SCRIPT FLUSH")).await.unwrap();
                        }
                        let reply = connection.command(cmd("NOSUCH x")).await.unwrap();
                        assert!(reply.as_error().is_some());
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
    // Answered behind all that was sent before it.
    connection.command(cmd("PING")).await?;
    let counters = connection.counters();
    assert_eq!(connection.in_flight(), 0);
    assert_eq!(counters.replies, counters.commands);
    assert_eq!((counters.wire_errors, counters.reconnects), (0, 0));
    Ok(())
}
