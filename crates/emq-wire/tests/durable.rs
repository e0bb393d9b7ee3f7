//! Acknowledged writes: shared waits, honest acknowledgements, and failures that say so.

mod support;

use std::time::Duration;

use emq_testkit::{Fsync, Valkey};
use emq_wire::{
    Acknowledged, Connection, Durable, DurableLane, DurableWait, Overload, Pipeline, Script,
    WireError,
};
use support::peer::Peer;
use support::{PATIENCE, Test, begin, cmd, config, info, reconnected, runs, soon, text, until};

const FSYNCED: DurableWait = DurableWait::Fsynced { timeout: PATIENCE };

fn replicated(replicas: u32, timeout: Duration) -> DurableWait {
    DurableWait::Replicated { replicas, timeout }
}

fn incr(key: &str) -> Pipeline {
    Pipeline::from_iter([cmd(&format!("INCR {key}"))])
}

fn local(durable: &Durable) -> i64 {
    durable.acknowledged.as_ref().unwrap().local
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_write_survives_a_crash() -> Test {
    let valkey = Valkey::builder().append_only(Fsync::EverySec).start()?;
    let lane = DurableLane::connect(config(&valkey)).await?;
    for n in 1..=3 {
        let calls = Pipeline::from_iter([cmd("INCR n"), cmd("LPUSH n x"), cmd("GET n")]);
        let durable = lane.call(calls, FSYNCED).await?;
        assert_eq!(local(&durable), 1);
        assert_eq!(durable.replies[0].as_int(), Some(n));
        assert!(durable.replies[1].as_error().is_some_and(|error| error.is("WRONGTYPE")));
        assert_eq!(text(&durable.replies[2]), n.to_string());
        assert_eq!(durable.replies.len(), 3);
        valkey.kill9()?;
        valkey.start_again()?;
        assert_eq!(valkey.cli(&["GET", "n"])?, n.to_string());
        reconnected(lane.connection(), n.unsigned_abs()).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_queue_up_share_one_wait() -> Test {
    let valkey = Valkey::builder().append_only(Fsync::Always).start()?;
    let lane = DurableLane::connect(config(&valkey)).await?;
    valkey.pause()?;
    let mut calls: Vec<_> = (0..500)
        .map(|n| {
            let calls = (0..1 + n % 3).map(|i| cmd(&format!("INCR {n}:{i}"))).collect();
            Box::pin(lane.call(calls, FSYNCED))
        })
        .collect();
    begin(&mut calls).await;
    valkey.resume()?;
    for (n, call) in calls.into_iter().enumerate() {
        let durable = soon("an acknowledgement", call).await?;
        assert_eq!(local(&durable), 1);
        let ones: Vec<_> = durable.replies.iter().map(emq_wire::Reply::as_int).collect();
        assert_eq!(ones, vec![Some(1); 1 + n % 3]);
    }
    let waits = runs(&valkey, "waitaof");
    assert!(waits <= 3, "{waits} waits for 500 calls");
    assert_eq!(valkey.cli(&["DBSIZE"])?, "999");
    Ok(())
}

#[tokio::test]
async fn a_server_that_keeps_no_file_says_so() -> Test {
    let valkey = Valkey::start()?;
    let lane = DurableLane::connect(config(&valkey)).await?;
    let durable = lane.call(incr("n"), FSYNCED).await?;
    assert_eq!(durable.replies[0].as_int(), Some(1));
    let refusal = durable.acknowledged.unwrap_err();
    assert!(refusal.is("ERR"), "{refusal}");
    // Nothing to do but to wait: the wait alone.
    let nothing = lane.call(Pipeline::new(), replicated(0, PATIENCE)).await?;
    assert!(nothing.replies.is_empty());
    assert_eq!(nothing.acknowledged.unwrap(), Acknowledged::default());
    let hazard = lane.call(Pipeline::from_iter([cmd("BLPOP l 0")]), FSYNCED).await;
    assert!(matches!(hazard, Err(WireError::NotShareable { .. })), "{hazard:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_acknowledge_or_the_bound_passes() -> Test {
    let valkey = Valkey::builder().config("repl-diskless-sync-delay 0").start()?;
    let replica =
        Valkey::builder().config(format!("replicaof 127.0.0.1 {}", valkey.port())).start()?;
    let up = async || replica.cli(&["INFO", "replication"]).unwrap().contains("link_status:up");
    until("a replica", up).await;
    let lane = DurableLane::connect(config(&valkey)).await?;
    let moment = Duration::from_millis(20);
    let replicas = async |wait| {
        let durable = lane.call(incr("n"), wait).await.unwrap();
        durable.acknowledged.unwrap()
    };
    assert_eq!(replicas(replicated(1, PATIENCE)).await, Acknowledged { local: 0, replicas: 1 });
    assert_eq!(replica.cli(&["GET", "n"])?, "1");
    // Fewer than asked for: not confirmed within the bound, and no error.
    assert_eq!(replicas(replicated(2, moment)).await.replicas, 1);
    replica.pause()?;
    assert_eq!(replicas(replicated(1, moment)).await.replicas, 0);
    assert_eq!(replicas(replicated(1, Duration::ZERO)).await.replicas, 0, "zero isn't for ever");
    replica.resume()?;
    assert_eq!(replicas(replicated(1, PATIENCE)).await.replicas, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_in_the_middle_of_a_wait_fails_the_whole_group() -> Test {
    let valkey = Valkey::start()?;
    let lane = DurableLane::connect(config(&valkey)).await?;
    // The first keeps the others waiting, so that they go out together; for a replica that will
    // never come.
    valkey.pause()?;
    let mut first = vec![Box::pin(lane.call(incr("n"), replicated(0, PATIENCE)))];
    begin(&mut first).await;
    let mut group: Vec<_> =
        (0..3).map(|_| Box::pin(lane.call(incr("n"), replicated(1, PATIENCE)))).collect();
    begin(&mut group).await;
    valkey.resume()?;
    soon("the first", first.remove(0)).await?;
    until("a parked lane", async || info(&valkey, "clients", "blocked_clients") == 1).await;
    assert_eq!(valkey.cli(&["GET", "n"])?, "4");
    valkey.kill9()?;
    for call in group {
        let outcome = soon("an answer", call).await;
        let lost = matches!(outcome, Err(WireError::Disconnected { written: true }));
        assert!(lost, "{outcome:?}");
    }
    valkey.start_again()?;
    reconnected(lane.connection(), 1).await;
    let durable = soon("service", lane.call(incr("m"), replicated(0, PATIENCE))).await?;
    assert_eq!(durable.replies[0].as_int(), Some(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_loaded_and_its_repetition_waited_for() -> Test {
    let valkey = Valkey::builder().append_only(Fsync::Always).start()?;
    let lane = DurableLane::connect(config(&valkey)).await?;
    let script = Script::new("count", "return redis.call('INCR', KEYS[1])");
    let call = || Pipeline::from_iter([cmd("INCR plain"), script.call(1, 8).arg("n")]);
    for n in 1..=3 {
        let durable = lane.call(call(), FSYNCED).await?;
        assert_eq!((durable.replies[0].as_int(), durable.replies[1].as_int()), (Some(n), Some(n)));
        assert_eq!(local(&durable), 1);
        valkey.cli(&["SCRIPT", "FLUSH"])?;
    }
    // Each time the wait once behind the miss and once behind the repetition.
    assert_eq!(runs(&valkey, "waitaof"), 6);
    Ok(())
}

#[tokio::test]
async fn a_repetition_is_followed_by_its_own_wait_and_the_least_counts() -> Test {
    let peer = Peer::listen().await;
    let (lane, mut link) = tokio::join!(DurableLane::connect(peer.config()), peer.serve());
    let lane = lane?;
    let script = Script::new("one", "return 1");
    let wait = DurableWait::Fsynced { timeout: Duration::from_secs(2) };
    for (first, second, least) in
        [("1", "1", Some(1)), ("0", "1", Some(0)), ("1", "0", Some(0)), ("1", "", None)]
    {
        let calls = Pipeline::from_iter([cmd("INCR n"), script.call(0, 0)]);
        let (durable, ()) = tokio::join!(lane.call(calls, wait), async {
            link.expect("INCR n").await;
            assert!(link.next().await.starts_with("EVALSHA"));
            link.expect("WAITAOF 1 0 2000").await;
            link.send(format!(":1\r\n-NOSCRIPT x\r\n*2\r\n:{first}\r\n:0\r\n")).await;
            link.expect("SCRIPT LOAD return 1").await;
            link.send(format!("$40\r\n{}\r\n", script.sha1())).await;
            assert!(link.next().await.starts_with("EVALSHA"));
            link.expect("WAITAOF 1 0 2000").await;
            match second {
                "" => link.send(":5\r\n-ERR no file any more\r\n").await,
                _ => link.send(format!(":5\r\n*2\r\n:{second}\r\n:0\r\n")).await,
            }
        });
        let durable = durable?;
        assert_eq!((durable.replies[0].as_int(), durable.replies[1].as_int()), (Some(1), Some(5)));
        assert_eq!(durable.acknowledged.ok().map(|acknowledged| acknowledged.local), least);
    }
    Ok(())
}

#[tokio::test]
async fn waits_of_different_kinds_are_not_mixed_and_odd_replies_are_typed() -> Test {
    let peer = Peer::listen().await;
    let (lane, mut link) = tokio::join!(DurableLane::connect(peer.config()), peer.serve());
    let lane = lane?;
    let second = Duration::from_secs(1);
    let long = DurableWait::Fsynced { timeout: second * 3 };
    let short = DurableWait::Fsynced { timeout: second };
    let waits = [short, replicated(1, second), replicated(1, second * 2), replicated(2, second)];
    let mut calls: Vec<_> = waits.iter().map(|w| Box::pin(lane.call(incr("n"), *w))).collect();
    calls.push(Box::pin(lane.call(incr("n"), short)));
    calls.push(Box::pin(lane.call(incr("n"), long)));
    begin(&mut calls).await;
    let served = async {
        link.expect("INCR n").await;
        link.expect("WAITAOF 1 0 1000").await;
        link.send(":1\r\n*2\r\n:1\r\n:0\r\n").await;
        link.expect("INCR n").await;
        link.expect("INCR n").await;
        link.expect("WAIT 1 2000").await;
        link.send(":2\r\n:3\r\n:1\r\n").await;
        link.expect("INCR n").await;
        link.expect("WAIT 2 1000").await;
        link.send(":4\r\n:1\r\n").await;
        link.expect("INCR n").await;
        link.expect("INCR n").await;
        // The longest bound of those who share it.
        link.expect("WAITAOF 1 0 3000").await;
        link.send(":5\r\n:6\r\n+what\r\n").await;
    };
    let answers = async {
        let mut answers = Vec::new();
        for call in calls {
            answers.push(soon("an answer", call).await);
        }
        answers
    };
    let ((), answers) = tokio::join!(served, answers);
    for (n, answer) in answers.into_iter().enumerate() {
        match (n, answer) {
            (0..4, Ok(durable)) => assert_eq!(durable.replies[0].as_int(), Some(n as i64 + 1)),
            (4.., Err(WireError::Unexpected { .. })) => {}
            (_, other) => panic!("{n}: {other:?}"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_park_as_long_as_the_heartbeat_is_not_taken_for_a_dead_peer() -> Test {
    let peer = Peer::listen().await;
    let beat = Duration::from_secs(2);
    let config = peer.config().heartbeat(beat, Duration::from_millis(1));
    let config = config.response_timeout(Some(Duration::from_millis(1)));
    let (lane, mut link) = tokio::join!(DurableLane::connect(config), peer.serve());
    let lane = lane?;
    let (durable, ()) = tokio::join!(lane.call(incr("n"), FSYNCED), async {
        link.expect("INCR n").await;
        // No longer than the heartbeat is ever parked for.
        link.expect("WAITAOF 1 0 2000").await;
        link.send(":1\r\n").await;
        // Behind the park stands the probe, and has to wait for it.
        link.expect("PING").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        link.send("*2\r\n:1\r\n:0\r\n+PONG\r\n").await;
    });
    assert_eq!(local(&durable?), 1);
    assert_eq!(lane.connection().counters().reconnects, 0);
    Ok(())
}

#[tokio::test]
async fn the_bounds_hold_for_calls_that_are_still_queued() -> Test {
    let peer = Peer::listen().await;
    for overload in [Overload::Refuse, Overload::Wait] {
        let config = peer.config().max_in_flight(8).max_queued_bytes(1000).overload(overload);
        let (lane, mut link) = tokio::join!(DurableLane::connect(config), peer.serve());
        let lane = lane?;
        let mut calls: Vec<_> = (0..8).map(|_| Box::pin(lane.call(incr("n"), FSYNCED))).collect();
        begin(&mut calls).await;
        let nine = lane.call((0..9).map(|_| cmd("PING")).collect(), FSYNCED).await;
        assert!(matches!(nine, Err(WireError::Overloaded { limit: 8, .. })), "{nine:?}");
        let large = Pipeline::from_iter([emq_wire::Cmd::new("SET").arg(vec![b'x'; 1000])]);
        let mut ninth = vec![Box::pin(lane.call(incr("n"), FSYNCED))];
        if overload == Overload::Refuse {
            let refused = ninth.remove(0).await;
            assert!(matches!(refused, Err(WireError::Overloaded { limit: 8, .. })), "{refused:?}");
            assert_eq!(lane.connection().counters().overloads, 2);
        } else {
            begin(&mut ninth).await;
        }
        // Whatever the groups are, each fits in flight together with its wait.
        let mut left = 8 + ninth.len();
        let mut group = 0;
        let serve = async {
            while left > 0 {
                if link.next().await == "INCR n" {
                    group += 1;
                    continue;
                }
                let answers = ":1\r\n".repeat(group) + "*2\r\n:1\r\n:0\r\n";
                left -= std::mem::take(&mut group);
                link.send(answers).await;
            }
        };
        let answers = async {
            for call in calls.into_iter().chain(ninth) {
                assert_eq!(local(&soon("an answer", call).await.unwrap()), 1);
            }
        };
        tokio::join!(serve, answers);
        let refused = lane.call(large, FSYNCED).await;
        assert!(
            matches!(refused, Err(WireError::Overloaded { what: "queued bytes", .. })),
            "{refused:?}"
        );
        // All the room is back.
        let (durable, ()) =
            tokio::join!(lane.call((0..8).map(|_| cmd("PING")).collect(), FSYNCED), async {
                for _ in 0..9 {
                    link.next().await;
                }
                link.send("+PONG\r\n".repeat(8) + "*2\r\n:1\r\n:0\r\n").await;
            });
        assert_eq!(durable?.replies.len(), 8);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_ends_with_its_last_handle_and_answers_when_closed() -> Test {
    let valkey = Valkey::start()?;
    let names = async || valkey.cli(&["CLIENT", "LIST"]).unwrap().matches("name=lane").count();
    let lane = DurableLane::connect(config(&valkey).client_name("lane")).await?;
    let clone = lane.clone();
    drop(lane);
    clone.call(incr("n"), replicated(0, PATIENCE)).await?;
    assert_eq!(names().await, 1);
    drop(clone);
    until("the socket's end", async || names().await == 0).await;
    let lane = DurableLane::connect(config(&valkey)).await?;
    let connection: Connection = lane.connection().clone();
    soon("the end", connection.close()).await;
    let outcome = soon("an answer", lane.call(incr("n"), FSYNCED)).await;
    assert!(matches!(outcome, Err(WireError::Closed)), "{outcome:?}");
    Ok(())
}
