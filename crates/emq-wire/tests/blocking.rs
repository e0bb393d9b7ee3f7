//! The lane to park on: elements are never lost, wake-ups neither, and a dead peer is left.

mod support;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use emq_testkit::Valkey;
use emq_wire::{BlockingLane, Cmd, Connection, WireError};
use support::peer::Peer;
use support::{PATIENCE, Test, begin, cmd, config, info, soon, text, until};

const MOMENT: Duration = Duration::from_millis(1);

async fn parked(valkey: &Valkey) {
    until("a parked client", async || info(valkey, "clients", "blocked_clients") == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_element_is_popped_at_once_or_when_it_comes_or_not_at_all() -> Test {
    let valkey = Valkey::start()?;
    let mut lane = BlockingLane::connect(config(&valkey)).await?;
    assert!(lane.client_id().is_some());
    assert_eq!(lane.blpop("l", MOMENT).await?, None);
    // Zero is for ever to a server; here it is the shortest bound.
    assert_eq!(lane.blpop("l", Duration::ZERO).await?, None);
    valkey.cli(&["RPUSH", "l", "a\r\nb", "c"])?;
    assert_eq!(lane.blpop("l", PATIENCE).await?.as_deref(), Some(&b"a\r\nb"[..]));
    assert_eq!(lane.blpop("l", PATIENCE).await?.as_deref(), Some(&b"c"[..]));
    let waiting = tokio::spawn(async move { lane.blpop("l", PATIENCE).await });
    parked(&valkey).await;
    valkey.cli(&["RPUSH", "l", "d"])?;
    assert_eq!(soon("the element", waiting).await??.as_deref(), Some(&b"d"[..]));
    Ok(())
}

#[tokio::test]
async fn errors_are_values_or_typed_and_the_lane_goes_on() -> Test {
    let valkey = Valkey::start()?;
    let mut lane = BlockingLane::connect(config(&valkey)).await?;
    valkey.cli(&["SET", "s", "no list"])?;
    let outcome = lane.blpop("s", MOMENT).await;
    assert!(
        matches!(&outcome, Err(WireError::Server { step: "BLPOP", source }) if source.is("WRONGTYPE")),
        "{outcome:?}"
    );
    let reply = lane.call(cmd("BLMOVE s d LEFT RIGHT 0.001"), MOMENT).await?;
    assert!(reply.as_error().is_some_and(|error| error.is("WRONGTYPE")));
    valkey.cli(&["ZADD", "z", "5", "m"])?;
    let popped = lane.call(cmd("BZPOPMIN z 0.001"), MOMENT).await?;
    assert_eq!(popped.as_array().map(|items| text(&items[1])).as_deref(), Some("m"));
    Ok(())
}

#[tokio::test]
async fn a_park_is_bounded_by_the_heartbeat_and_never_endless() -> Test {
    let peer = Peer::listen().await;
    let config = peer.config().heartbeat(Duration::from_millis(1500), PATIENCE);
    let (lane, mut link) = tokio::join!(BlockingLane::connect(config), peer.serve());
    let mut lane = lane?;
    for (bound, seconds) in [
        (Duration::from_secs(3600), "1.500"),
        (Duration::MAX, "1.500"),
        (Duration::ZERO, "0.001"),
        (Duration::from_nanos(1), "0.001"),
        (Duration::from_millis(20), "0.020"),
    ] {
        let (outcome, ()) = tokio::join!(lane.blpop("l", bound), async {
            link.expect(&format!("BLPOP l {seconds}")).await;
            link.send("*-1\r\n").await;
        });
        assert_eq!(outcome?, None);
    }
    let tiny = Duration::from_micros(100);
    let config = peer.config().heartbeat(tiny, PATIENCE);
    let (lane, mut link) = tokio::join!(BlockingLane::connect(config), peer.serve());
    let mut lane = lane?;
    let (outcome, ()) = tokio::join!(lane.blpop("l", MOMENT), async {
        link.expect("BLPOP l 0.001").await;
        link.send("*-1\r\n").await;
    });
    assert_eq!(outcome?, None);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_call_is_woken_and_one_not_yet_made_ends_at_once() -> Test {
    let valkey = Valkey::start()?;
    let shared = Connection::connect(config(&valkey)).await?;
    let mut lane = BlockingLane::connect(config(&valkey)).await?;
    let waker = lane.unblocker(&shared);
    for _ in 0..20 {
        let waiting = tokio::spawn(async move {
            let outcome = lane.blpop("l", PATIENCE).await;
            (lane, outcome)
        });
        parked(&valkey).await;
        soon("the wake", waker.wake()).await;
        let outcome;
        (lane, outcome) = soon("the end of the park", waiting).await?;
        assert_eq!(outcome?, None);
        // Before the call: it doesn't even leave.
        waker.wake().await;
        waker.wake().await;
        let sent = valkey.cli(&["INFO", "commandstats"])?;
        assert_eq!(soon("an end", lane.blpop("l", PATIENCE)).await?, None);
        let count =
            |info: &str| info.lines().find(|l| l.starts_with("cmdstat_blpop")).map(str::to_owned);
        assert_eq!(count(&sent), count(&valkey.cli(&["INFO", "commandstats"])?));
        // One wish, one call.
        valkey.cli(&["RPUSH", "l", "x"])?;
        assert_eq!(lane.blpop("l", PATIENCE).await?.as_deref(), Some(&b"x"[..]));
    }
    Ok(())
}

/// A wake ends the present call or the next one: it never gets lost between two.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_is_lost_between_two_calls() -> Test {
    let valkey = Valkey::start()?;
    let shared = Connection::connect(config(&valkey)).await?;
    // A lost wake would be noticed before its park ends.
    let long = PATIENCE * 2;
    let mut lane = BlockingLane::connect(config(&valkey).heartbeat(long, long)).await?;
    let waker = lane.unblocker(&shared);
    let rounds = Arc::new(AtomicU64::new(0));
    let (ended, mut ends) = tokio::sync::watch::channel(0_u64);
    let stop = Arc::new(AtomicBool::new(false));
    let consumer = tokio::spawn({
        let (rounds, stop) = (Arc::clone(&rounds), Arc::clone(&stop));
        async move {
            while !stop.load(Ordering::SeqCst) {
                // Every other call ends by itself, as near to a wake as can be.
                let bound = if rounds.load(Ordering::SeqCst) % 2 == 0 { long } else { MOMENT };
                lane.blpop("l", bound).await.unwrap();
                rounds.fetch_add(1, Ordering::SeqCst);
                ended.send_modify(|n| *n += 1);
            }
        }
    });
    for _ in 0..1000 {
        let before = *ends.borrow_and_update();
        waker.wake().await;
        // The call that was under way, or one begun later, has ended since.
        soon("the end of a call", ends.wait_for(|now| *now > before)).await?;
    }
    stop.store(true, Ordering::SeqCst);
    let end = async {
        while !consumer.is_finished() {
            waker.wake().await;
            tokio::task::yield_now().await;
        }
    };
    soon("the consumer's end", end).await;
    consumer.await?;
    Ok(())
}

/// Pushes and wakes at the same instant: each element arrives exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_element_popped_in_the_instant_of_a_wake_is_not_lost() -> Test {
    const ELEMENTS: usize = 1500;
    let valkey = Valkey::start()?;
    let shared = Connection::connect(config(&valkey)).await?;
    let pushes = Connection::connect(config(&valkey)).await?;
    let mut lane = BlockingLane::connect(config(&valkey)).await?;
    let waker = lane.unblocker(&shared);
    let (arrived, mut arrivals) = tokio::sync::watch::channel(0_usize);
    let consumer = tokio::spawn(async move {
        let mut seen = HashSet::new();
        let mut woken = 0;
        while seen.len() < ELEMENTS {
            match lane.blpop("l", PATIENCE).await.unwrap() {
                Some(element) => {
                    assert!(seen.insert(element), "twice");
                    arrived.send_replace(seen.len());
                }
                None => woken += 1,
            }
        }
        woken
    });
    for n in 0..ELEMENTS {
        let push = pushes.command(Cmd::new("RPUSH").arg("l").arg(n.to_string()));
        // Now the one first, now the other; sometimes when the last one has arrived.
        let (pushed, ()) = if n % 2 == 0 {
            tokio::join!(push, waker.wake())
        } else {
            tokio::join!(biased; push, waker.wake())
        };
        pushed?;
        if n % 3 == 0 {
            soon("the element", arrivals.wait_for(|count| *count > n)).await?;
        }
    }
    let woken = soon("all elements", consumer).await?;
    assert!(woken > 0, "no wake met a park");
    assert_eq!(valkey.cli(&["EXISTS", "l"])?, "0");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_dials_again_after_a_kill_and_after_a_crash() -> Test {
    let valkey = Valkey::start()?;
    let mut lane = BlockingLane::connect(config(&valkey)).await?;
    let first = lane.client_id().unwrap();
    let waiting = tokio::spawn(async move {
        let outcome = lane.blpop("l", PATIENCE).await;
        (lane, outcome)
    });
    parked(&valkey).await;
    valkey.cli(&["CLIENT", "KILL", "ID", &first.to_string()])?;
    let (mut lane, outcome) = soon("an end", waiting).await?;
    assert!(matches!(outcome, Err(WireError::Disconnected { written: true })), "{outcome:?}");
    assert_eq!(lane.client_id(), None);
    valkey.cli(&["RPUSH", "l", "x"])?;
    assert_eq!(lane.blpop("l", PATIENCE).await?.as_deref(), Some(&b"x"[..]));
    assert_ne!(lane.client_id(), Some(first));
    // A crash while nobody is parked.
    valkey.kill9()?;
    assert!(lane.blpop("l", MOMENT).await.is_err());
    assert!(matches!(lane.blpop("l", MOMENT).await, Err(WireError::Connect { .. })));
    valkey.start_again()?;
    valkey.cli(&["RPUSH", "l", "y"])?;
    assert_eq!(lane.blpop("l", PATIENCE).await?.as_deref(), Some(&b"y"[..]));
    Ok(())
}

#[tokio::test]
async fn a_socket_that_was_closed_while_idle_costs_no_call() -> Test {
    let peer = Peer::listen().await;
    let (lane, link) = tokio::join!(BlockingLane::connect(peer.config()), peer.serve());
    let mut lane = lane?;
    drop(link);
    // The end of the stream reaches us by the kernel, without a signal: a few turns at most.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let (outcome, ()) = tokio::join!(lane.blpop("l", MOMENT), async {
        let mut link = peer.serve().await;
        link.expect("BLPOP l 0.001").await;
        link.send("*2\r\n$1\r\nl\r\n$1\r\nx\r\n").await;
    });
    assert_eq!(outcome?.as_deref(), Some(&b"x"[..]));
    Ok(())
}

#[tokio::test]
async fn a_late_reply_means_a_dead_peer_and_the_next_call_dials() -> Test {
    let peer = Peer::listen().await;
    let (lane, mut link) = tokio::join!(BlockingLane::connect(peer.config()), peer.serve());
    let mut lane = lane?;
    let (outcome, ()) = tokio::join!(lane.blpop("l", MOMENT), async {
        link.expect("BLPOP l 0.001").await;
        link.hung_up().await;
    });
    assert!(matches!(outcome, Err(WireError::Disconnected { written: true })), "{outcome:?}");
    let (outcome, ()) = tokio::join!(lane.blpop("l", MOMENT), async {
        let mut link = peer.serve().await;
        link.expect("BLPOP l 0.001").await;
        link.send("*2\r\n$1\r\nl\r\n$1\r\nx\r\n").await;
    });
    assert_eq!(outcome?.as_deref(), Some(&b"x"[..]));
    Ok(())
}

#[tokio::test]
async fn what_nobody_asked_for_answers_no_later_call() -> Test {
    let peer = Peer::listen().await;
    let (lane, mut link) = tokio::join!(BlockingLane::connect(peer.config()), peer.serve());
    let mut lane = lane?;
    for surplus in ["*2\r\n$1\r\nl\r\n$1\r\n?\r\n", "garbage\r\n"] {
        let (outcome, ()) = tokio::join!(lane.blpop("l", MOMENT), async {
            link.next().await;
            link.send(format!("*-1\r\n{surplus}")).await;
        });
        assert_eq!(outcome?, None);
        let (outcome, next) = tokio::join!(lane.blpop("l", MOMENT), async {
            let mut link = peer.serve().await;
            link.next().await;
            link.send("*2\r\n$1\r\nl\r\n$1\r\nx\r\n").await;
            link
        });
        assert_eq!(outcome?.as_deref(), Some(&b"x"[..]));
        link = next;
    }
    // A reply that is none is typed, and costs the socket.
    let (outcome, ()) = tokio::join!(lane.blpop("l", MOMENT), async {
        link.next().await;
        link.send("?\r\n").await;
    });
    assert!(matches!(outcome, Err(WireError::Protocol(_))), "{outcome:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_leaves_a_lane_that_works_and_no_socket() -> Test {
    let valkey = Valkey::start()?;
    let mut lane = BlockingLane::connect(config(&valkey).client_name("lane")).await?;
    for round in 0..5 {
        let mut calls = [Box::pin(lane.blpop("l", PATIENCE))];
        begin(&mut calls).await;
        if round % 2 == 0 {
            parked(&valkey).await;
        }
        drop(calls);
        let names = async || valkey.cli(&["CLIENT", "LIST"]).unwrap().matches("name=lane").count();
        until("the socket's end", async || names().await == 0).await;
        valkey.cli(&["RPUSH", "l", "x"])?;
        assert_eq!(lane.blpop("l", PATIENCE).await?.as_deref(), Some(&b"x"[..]));
        assert_eq!(names().await, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_primary_that_turned_replica_is_left() -> Test {
    let peer = Peer::listen().await;
    let (lane, mut link) = tokio::join!(BlockingLane::connect(peer.config()), peer.serve());
    let mut lane = lane?;
    for moved in ["-READONLY replica\r\n", "-UNBLOCKED force unblock, state changed\r\n"] {
        let (outcome, ()) = tokio::join!(lane.blpop("l", MOMENT), async {
            link.next().await;
            link.send(moved).await;
        });
        assert!(matches!(outcome, Err(WireError::Server { .. })), "{outcome:?}");
        let next;
        (next, link) = tokio::join!(lane.blpop("l", MOMENT), async {
            let mut link = peer.serve().await;
            link.next().await;
            link.send("*-1\r\n").await;
            link
        });
        assert_eq!(next?, None);
    }
    Ok(())
}

#[tokio::test]
async fn when_the_server_cannot_be_asked_the_socket_is_given_up() -> Test {
    let peer = Peer::listen().await;
    let (shared, _link) = tokio::join!(Connection::connect(peer.config()), peer.serve());
    let shared = shared?;
    let (lane, mut link) = tokio::join!(BlockingLane::connect(peer.config()), peer.serve());
    let mut lane = lane?;
    let waker = lane.unblocker(&shared);
    shared.close().await;
    let (outcome, ()) = tokio::join!(lane.blpop("l", PATIENCE), async {
        link.next().await;
        soon("the wake", waker.wake()).await;
        link.hung_up().await;
    });
    assert!(matches!(outcome, Err(WireError::Disconnected { written: true })), "{outcome:?}");
    // That wish was granted: the next call goes its way.
    let (outcome, ()) = tokio::join!(lane.blpop("l", MOMENT), async {
        let mut link = peer.serve().await;
        link.next().await;
        link.send("*2\r\n$1\r\nl\r\n$1\r\nx\r\n").await;
    });
    assert_eq!(outcome?.as_deref(), Some(&b"x"[..]));
    Ok(())
}
