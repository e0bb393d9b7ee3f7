//! A pool takes its connections in turn and leaves out those that aren't ready.

mod support;

use std::collections::HashMap;
use std::time::Duration;

use emq_testkit::Valkey;
use emq_wire::{Config, ConnectionState, Pool, Reconnect, WireError};
use support::peer::Peer;
use support::{Test, client_id, cmd, config, quick, reconnected, state_is, until};

#[tokio::test]
async fn connections_are_taken_in_turn() -> Test {
    let valkey = Valkey::start()?;
    let pool = Pool::connect(config(&valkey), 4).await?;
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(client_id(pool.pick()).await);
    }
    let mut round = ids[..4].to_vec();
    assert_eq!(ids, [&round[..], &round[..], &round[..]].concat());
    round.sort_unstable();
    round.dedup();
    assert_eq!(round.len(), 4);
    assert_eq!(Pool::connect(config(&valkey), 0).await?.connections().len(), 1);
    Ok(())
}

#[tokio::test]
async fn one_that_is_not_ready_is_left_out_until_it_is_back() -> Test {
    let peer = Peer::listen().await;
    let eager = Reconnect { call_wait: Duration::ZERO, ..quick() };
    let (pool, mut links) = tokio::join!(Pool::connect(peer.config().reconnect(eager), 3), async {
        vec![peer.serve().await, peer.serve().await, peer.serve().await]
    });
    let pool = pool?;
    drop(links.remove(1));
    let lost = &pool.connections()[1];
    state_is(lost, |s| matches!(s, ConnectionState::Reconnecting { .. })).await;
    let mut picks = HashMap::new();
    for _ in 0..30 {
        let picked = pool.pick();
        assert!(picked.is_ready());
        let at = pool.connections().iter().position(|c| std::ptr::eq(c, picked)).unwrap();
        *picks.entry(at).or_insert(0) += 1;
    }
    assert_eq!(picks.len(), 2, "{picks:?}");
    // None left: the call says what is the matter instead of hanging.
    links.clear();
    for connection in pool.connections() {
        state_is(connection, |s| matches!(s, ConnectionState::Reconnecting { .. })).await;
    }
    let outcome = pool.pick().command(cmd("GET k")).await;
    assert!(matches!(outcome, Err(WireError::NotReady)), "{outcome:?}");
    for _ in 0..3 {
        links.push(peer.serve().await);
    }
    for connection in pool.connections() {
        reconnected(connection, 1).await;
        assert!(pool.pick().is_ready());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_comes_up_as_a_whole_and_ends_as_a_whole() -> Test {
    let valkey = Valkey::builder().config("maxclients 3").start()?;
    let impatient: Config = config(&valkey)
        .connect_timeout(Duration::from_millis(500))
        .reconnect(Reconnect { initial_wait: Duration::from_millis(500), ..quick() });
    assert!(Pool::connect(impatient, 4).await.is_err());
    // The part that had come up is gone.
    let clients = async || match valkey.cli(&["CLIENT", "LIST"]) {
        Ok(list) => list.lines().count(),
        Err(_) => usize::MAX,
    };
    until("the end of the half pool", async || clients().await == 1).await;
    let pool = Pool::connect(config(&valkey).client_name("pool"), 2).await?;
    let clone = pool.clone();
    pool.close().await;
    let outcome = clone.pick().command(cmd("PING")).await;
    assert!(matches!(outcome, Err(WireError::Closed)), "{outcome:?}");
    until("the end of the pool", async || clients().await == 1).await;
    Ok(())
}
