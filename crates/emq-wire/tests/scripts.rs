//! Scripts by digest: loaded once, resent alone, refused alike whether cold or warm.

mod support;

use emq_testkit::Valkey;
use emq_wire::{Connection, Pipeline, Reconnect, Reply, Script, WireError};
use support::peer::{Link, Peer};
use support::{Test, cmd, config, quick, runs, soon, text};
use tokio::task::JoinSet;

const NOSCRIPT: &str = "-NOSCRIPT No matching script. Please use EVAL.\r\n";

fn class(reply: &Reply) -> &str {
    reply.as_error().unwrap_or_else(|| panic!("{reply:?}")).class()
}

#[tokio::test]
async fn a_first_call_loads_and_later_ones_do_not() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let script = Script::new("pair", "return {KEYS[1], ARGV[1]}");
    for n in 0..5 {
        let arg = format!("\r\n\0{n}");
        let reply = connection.eval(&script, &["k"], &[&arg]).await?;
        assert_eq!(reply, Reply::Array(vec![Reply::Bulk("k".into()), Reply::Bulk(arg.into())]));
    }
    let counters = connection.counters();
    assert_eq!((counters.script_loads, counters.evalsha_calls), (1, 6));
    assert_eq!((runs(&valkey, "script|load"), runs(&valkey, "eval")), (1, 0));
    // Another connection finds it there.
    let other = Connection::connect(config(&valkey)).await?;
    other.eval(&script, &["k"], &["a"]).await?;
    assert_eq!(other.counters().script_loads, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_first_calls_at_once_load_once() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let script = Script::new("count", "return redis.call('INCR', KEYS[1])");
    for round in 1..=10 {
        let gate = std::sync::Arc::new(tokio::sync::Barrier::new(64));
        let mut tasks = JoinSet::new();
        for task in 0..64 {
            let (connection, script) = (connection.clone(), script.clone());
            let gate = std::sync::Arc::clone(&gate);
            tasks.spawn(async move {
                gate.wait().await;
                let key = format!("k{}", task % 8);
                if task % 2 == 0 {
                    connection.eval::<_, &str>(&script, &[key], &[]).await.unwrap()
                } else {
                    let calls = Pipeline::from_iter([cmd("PING"), script.call(1, 8).arg(key)]);
                    connection.pipeline(calls).await.unwrap().remove(1)
                }
            });
        }
        while let Some(reply) = soon("a reply", tasks.join_next()).await {
            assert!(reply?.as_int().is_some());
        }
        assert_eq!(connection.counters().script_loads, round);
        assert_eq!(runs(&valkey, "script|load"), round);
        valkey.cli(&["SCRIPT", "FLUSH"])?;
    }
    for key in 0..8 {
        // Each call ran once, whether it was sent once or twice.
        assert_eq!(valkey.cli(&["GET", &format!("k{key}")])?, (8 * 10).to_string());
    }
    Ok(())
}

#[tokio::test]
async fn a_flush_in_the_middle_of_a_pipeline_resends_only_what_missed() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let count = Script::new("count", "return redis.call('INCR', KEYS[1])");
    let refuse = Script::new("refuse", "return redis.error_reply('EMQSTALE not the holder')");
    let other = Script::new("other", "return ARGV[1]");
    connection.eval::<_, &str>(&count, &["warm"], &[]).await?;
    connection.eval::<&str, &str>(&refuse, &[], &[]).await?;
    let replies = connection
        .pipeline(Pipeline::from_iter([
            cmd("INCR plain"),
            count.call(1, 8).arg("a"),
            cmd("SCRIPT FLUSH"),
            count.call(1, 8).arg("b"),
            cmd("LPUSH plain x"),
            refuse.call(0, 0),
            other.call(0, 8).arg("v"),
            count.call(1, 8).arg("b"),
            cmd("INCR plain"),
            refuse.call(0, 0),
        ]))
        .await?;
    assert_eq!(replies[0].as_int(), Some(1));
    assert_eq!(replies[1].as_int(), Some(1));
    assert_eq!(text(&replies[2]), "OK");
    assert_eq!(replies[3].as_int(), Some(1));
    assert_eq!(class(&replies[4]), "WRONGTYPE");
    assert_eq!(class(&replies[5]), "EMQSTALE");
    assert_eq!(text(&replies[6]), "v");
    assert_eq!(replies[7].as_int(), Some(2));
    assert_eq!(replies[8].as_int(), Some(2), "a command that ran is not sent again");
    assert_eq!(class(&replies[9]), "EMQSTALE");
    assert_eq!(replies.len(), 10);
    let counters = connection.counters();
    // Two warm-ups of two calls each; then six calls, of which five missed.
    assert_eq!((counters.script_loads, counters.evalsha_calls), (5, 4 + 6 + 5));
    for (key, count) in [("plain", "2"), ("a", "1"), ("b", "2"), ("warm", "1")] {
        assert_eq!(valkey.cli(&["GET", key])?, count, "{key}");
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_the_same_cold_and_warm() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    for (name, source) in [
        ("class", "return redis.error_reply('EMQSTALE not the holder')"),
        ("call", "return redis.call('LPUSH', KEYS[1], 'x')"),
        ("fault", "error('broken')"),
    ] {
        valkey.cli(&["SET", "k", "a string"])?;
        let script = Script::new(name, source);
        let cold = connection.eval::<_, &str>(&script, &["k"], &[]).await?;
        let warm = connection.eval::<_, &str>(&script, &["k"], &[]).await?;
        assert!(cold.as_error().is_some(), "{name}: {cold:?}");
        assert_eq!(cold, warm);
        valkey.cli(&["SCRIPT", "FLUSH"])?;
        let pair = Pipeline::from_iter([cmd("PING"), script.call(1, 8).arg("k")]);
        assert_eq!(connection.pipeline(pair).await?[1], warm);
    }
    Ok(())
}

#[tokio::test]
async fn a_script_that_may_not_be_loaded_is_refused_in_its_place() -> Test {
    let valkey = Valkey::builder().acl_user("ann", "on >pw ~* +@all -script|load").start()?;
    let connection =
        Connection::connect(support::patient(valkey.url_as("ann", "pw").parse()?)).await?;
    let script = Script::new("one", "return 1");
    let reply = connection.eval::<&str, &str>(&script, &[], &[]).await?;
    assert_eq!(class(&reply), "NOPERM");
    let calls = Pipeline::from_iter([cmd("INCR n"), script.call(0, 0), cmd("INCR n")]);
    let replies = connection.pipeline(calls).await?;
    assert_eq!(class(&replies[1]), "NOPERM");
    assert_eq!((replies[0].as_int(), replies[2].as_int()), (Some(1), Some(2)));
    assert_eq!(connection.counters().script_loads, 0);
    // Source that is no Lua is the server's refusal too.
    let whole = Connection::connect(config(&valkey)).await?;
    let broken = Script::new("broken", "this is no Lua");
    assert_eq!(class(&whole.eval::<&str, &str>(&broken, &[], &[]).await?), "ERR");
    Ok(())
}

async fn peer_of(peer: &Peer) -> (Connection, Link) {
    let (connection, link) = tokio::join!(Connection::connect(peer.config()), peer.serve());
    (connection.unwrap(), link)
}

#[tokio::test]
async fn a_cache_that_forgets_at_once_is_given_up_after_two_loads() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = peer_of(&peer).await;
    let script = Script::new("lost", "return 1");
    let forgetful = async {
        let mut loads = 0;
        let mut calls = 0;
        loop {
            let command = link.next().await;
            if command.starts_with("SCRIPT LOAD") {
                loads += 1;
                link.send(format!("${}\r\n{}\r\n", 40, script.sha1())).await;
            } else if command.starts_with("EVALSHA") {
                calls += 1;
                link.send(NOSCRIPT).await;
            } else {
                link.send("+PONG\r\n").await;
            }
            if (loads, calls) == (4, 6) {
                return;
            }
        }
    };
    let calls = async {
        let single = connection.eval::<&str, &str>(&script, &[], &[]).await;
        let pair = Pipeline::from_iter([cmd("PING"), script.call(0, 0)]);
        (single, connection.pipeline(pair).await)
    };
    let ((single, pair), ()) = soon("an end", async { tokio::join!(calls, forgetful) }).await;
    assert!(matches!(&single, Err(WireError::ScriptLost { name }) if name == "lost"), "{single:?}");
    // A pipeline keeps its other replies; the call keeps the server's own words.
    let pair = pair?;
    assert_eq!((text(&pair[0]).as_str(), class(&pair[1])), ("PONG", "NOSCRIPT"));
    assert_eq!((connection.counters().script_loads, connection.in_flight()), (4, 0));
    Ok(())
}

#[tokio::test]
async fn a_server_that_computes_another_digest_is_not_trusted() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = peer_of(&peer).await;
    let script = Script::new("ours", "return 1");
    for (n, answer) in ["$4\r\nabcd\r\n", ":5\r\n", "*0\r\n", "$-1\r\n"].iter().enumerate() {
        let (outcome, ()) = tokio::join!(connection.eval::<&str, &str>(&script, &[], &[]), async {
            assert!(link.next().await.starts_with("EVALSHA"));
            link.send(NOSCRIPT).await;
            link.expect("SCRIPT LOAD return 1").await;
            link.send(answer).await;
        });
        let Err(WireError::ScriptDigest { name, expected, found }) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!((name.as_str(), expected.as_str()), ("ours", script.sha1()));
        assert_eq!(found, if n == 0 { "abcd" } else { "" });
    }
    assert_eq!((connection.counters().script_loads, connection.in_flight()), (0, 0));
    Ok(())
}

#[tokio::test]
async fn a_loss_between_an_answer_and_its_repetition_is_no_unsent_pipeline() -> Test {
    let peer = Peer::listen().await;
    let eager = Reconnect { call_wait: std::time::Duration::ZERO, ..quick() };
    let config = peer.config().reconnect(eager);
    let (connection, mut link) = tokio::join!(Connection::connect(config), peer.serve());
    let connection = connection?;
    let script = Script::new("one", "return 1");
    for round in 1..=20 {
        let pair = Pipeline::from_iter([cmd("INCR n"), script.call(0, 0)]);
        let (outcome, ()) = tokio::join!(connection.pipeline(pair), async {
            link.expect("INCR n").await;
            link.next().await;
            link.send(format!(":1\r\n{NOSCRIPT}")).await;
            drop(link);
        });
        // The increment ran: whatever became of the load, it must not sound as if it hadn't.
        assert!(matches!(outcome, Err(WireError::Disconnected { written: true })), "{outcome:?}");
        link = peer.serve().await;
        support::reconnected(&connection, round).await;
        assert_eq!(connection.in_flight(), 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_forgets_scripts_and_nobody_notices() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let script = Script::new("one", "return 1");
    for round in 1..=3 {
        assert_eq!(connection.eval::<&str, &str>(&script, &[], &[]).await?.as_int(), Some(1));
        assert_eq!(connection.counters().script_loads, round);
        valkey.kill9()?;
        valkey.start_again()?;
        support::reconnected(&connection, round).await;
    }
    Ok(())
}
