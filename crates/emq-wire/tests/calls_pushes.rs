//! Out-of-band frames never answer anybody.

mod support;

use std::sync::Arc;

use emq_testkit::Valkey;
use emq_wire::{
    BootLink, Connection, Handshake, HandshakeError, HandshakeFuture, Pipeline, Protocol, Reply,
};
use support::peer::Peer;
use support::{Test, cmd, config, soon, text};

/// Turns on the invalidation messages of the server for a key.
struct Tracking;

impl Handshake for Tracking {
    fn run<'a>(&'a self, link: &'a mut BootLink) -> HandshakeFuture<'a> {
        Box::pin(async move {
            for line in ["CLIENT TRACKING ON BCAST PREFIX watched", "SET watched:0 x"] {
                let reply = link.call(cmd(line)).await?;
                reply.into_result().map_err(HandshakeError::Retry)?;
            }
            Ok(())
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalidations_of_a_real_server_come_beside_the_replies() -> Test {
    let valkey = Valkey::start()?;
    let config = config(&valkey).protocol(Protocol::Resp3);
    let connection = Connection::connect_with(config, Arc::new(Tracking)).await?;
    let mut pushes = connection.pushes().expect("nobody has taken it");
    assert!(connection.pushes().is_none());
    for n in 1..=50 {
        let key = format!("watched:{n}");
        let replies = connection
            .pipeline(Pipeline::from_iter([
                cmd("INCR n"),
                cmd(&format!("SET {key} v")),
                cmd(&format!("GET {key}")),
            ]))
            .await?;
        assert_eq!(replies[0].as_int(), Some(n));
        assert_eq!((text(&replies[1]), text(&replies[2])), ("OK".into(), "v".into()));
    }
    // One for each key, that of the handshake included.
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 51 {
        let push = soon("a push", pushes.recv()).await.expect("the connection lives");
        let Reply::Push(items) = &push else { panic!("{push:?}") };
        assert_eq!(text(&items[0]), "invalidate");
        seen.extend(items[1].as_array().unwrap().iter().map(text));
    }
    assert!(seen.contains("watched:0") && seen.contains("watched:50"));
    let counters = connection.counters();
    assert!(counters.pushes > 0);
    assert_eq!((counters.replies, counters.commands), (150, 150));
    Ok(())
}

#[tokio::test]
async fn pushes_stand_anywhere_between_replies_and_are_counted_without_end() -> Test {
    let peer = Peer::listen().await;
    let config = peer.config().protocol(Protocol::Resp3);
    let push = ">2\r\n+note\r\n:1\r\n";
    let (connection, mut link) = tokio::join!(Connection::connect(config), async {
        let mut link = peer.accept().await;
        link.expect("HELLO 3").await;
        link.send(format!("{push}%1\r\n+proto\r\n:3\r\n{push}")).await;
        link.expect("CLIENT ID").await;
        link.expect("PING").await;
        link.send(format!(":7\r\n{push}+PONG\r\n{push}>2\r\n+no")).await;
        link
    });
    let connection = connection?;
    let three = Pipeline::from_iter([cmd("GET a"), cmd("GET b"), cmd("GET c")]);
    let (replies, ()) = tokio::join!(connection.pipeline(three), async {
        for _ in 0..3 {
            link.next().await;
        }
        link.send(format!("te\r\n:1\r\n+a\r\n{push}{push}*2\r\n:1\r\n:2\r\n{push}+c\r\n")).await;
    });
    let replies = replies?;
    assert_eq!((text(&replies[0]), text(&replies[2])), ("a".into(), "c".into()));
    assert_eq!(replies[1].as_array().map(<[_]>::len), Some(2));
    assert_eq!(connection.counters().pushes, 8);
    // Nobody reads: what doesn't fit is counted and dropped.
    let (reply, ()) = tokio::join!(connection.command(cmd("GET d")), async {
        link.next().await;
        link.send(push.repeat(5000)).await;
        link.send("+d\r\n").await;
    });
    assert_eq!(text(&reply?), "d");
    assert_eq!(connection.counters().pushes, 5008);
    let mut pushes = connection.pushes().expect("nobody has taken it");
    let mut kept = 0;
    while pushes.try_recv().is_ok() {
        kept += 1;
    }
    assert!((1..5008).contains(&kept), "{kept}");
    assert_eq!((connection.in_flight(), connection.counters().replies), (0, 4));
    Ok(())
}
