//! The end of a connection: everybody is answered, what was accepted leaves, nothing stays.

mod support;

use std::time::Duration;

use emq_testkit::Valkey;
use emq_wire::{Connection, ConnectionState, Pipeline, WireError};
use support::peer::Peer;
use support::{Test, begin, cmd, config, soon, state_is, text, touch, until};

fn is_closed<T: std::fmt::Debug>(outcome: Result<T, WireError>) -> bool {
    match outcome {
        Err(WireError::Closed) => true,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_was_accepted_is_flushed_and_answered() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    let mut calls: Vec<_> =
        (0..1000).map(|_| Box::pin(connection.command(cmd("INCR n")))).collect();
    begin(&mut calls).await;
    soon("the end", connection.close()).await;
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await?.as_int(), Some(n as i64 + 1));
    }
    assert_eq!(valkey.cli(&["GET", "n"])?, "1000");
    assert!(matches!(*connection.state().borrow(), ConnectionState::Closed));
    assert!(is_closed(connection.command(cmd("INCR n")).await));
    assert!(is_closed(connection.clone().pipeline(Pipeline::from_iter([cmd("INCR n")])).await));
    soon("another end", connection.close()).await;
    assert_eq!((connection.in_flight(), connection.is_ready()), (0, false));
    Ok(())
}

#[tokio::test]
async fn a_silent_peer_holds_the_end_up_no_longer_than_a_heartbeat() -> Test {
    let peer = Peer::listen().await;
    let beat = Duration::from_millis(50);
    let config = peer.config().heartbeat(beat, beat);
    let (connection, mut link) = tokio::join!(Connection::connect(config), peer.serve());
    let connection = connection?;
    let mut calls: Vec<_> = (0..2).map(|_| Box::pin(connection.command(cmd("GET k")))).collect();
    begin(&mut calls).await;
    link.expect("GET k").await;
    let closing = async {
        tokio::join!(connection.close(), connection.close());
    };
    soon("the end", closing).await;
    for call in calls {
        assert!(is_closed(soon("an answer", call).await));
    }
    link.hung_up().await;
    assert_eq!(connection.in_flight(), 0);
    Ok(())
}

#[tokio::test]
async fn a_loss_while_closing_is_the_end_and_nobody_dials_again() -> Test {
    let peer = Peer::listen().await;
    let (connection, mut link) = tokio::join!(Connection::connect(peer.config()), peer.serve());
    let connection = connection?;
    let mut calls = vec![Box::pin(connection.command(cmd("GET k")))];
    begin(&mut calls).await;
    link.expect("GET k").await;
    let mut closing = vec![Box::pin(connection.close())];
    begin(&mut closing).await;
    // The driver has taken the goodbye when a later call isn't written any more.
    let mut late = vec![Box::pin(connection.command(cmd("GET late")))];
    begin(&mut late).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    drop(link);
    soon("the end", closing.remove(0)).await;
    let outcome = soon("an answer", calls.remove(0)).await;
    assert!(matches!(outcome, Err(WireError::Disconnected { written: true })), "{outcome:?}");
    assert!(is_closed(soon("an answer", late.remove(0)).await));
    assert!(matches!(*connection.state().borrow(), ConnectionState::Closed));
    assert_eq!((connection.in_flight(), connection.counters().reconnects), (0, 0));
    Ok(())
}

#[tokio::test]
async fn who_waits_for_a_reconnect_is_answered_too() -> Test {
    let valkey = Valkey::start()?;
    let connection = Connection::connect(config(&valkey)).await?;
    valkey.kill9()?;
    state_is(&connection, |s| matches!(s, ConnectionState::Reconnecting { .. })).await;
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(connection.command(cmd("PING")))).collect();
    begin(&mut waiting).await;
    soon("the end", connection.close()).await;
    for call in waiting {
        assert!(is_closed(soon("an answer", call).await));
    }
    Ok(())
}

#[tokio::test]
async fn a_ladder_that_hangs_does_not_hold_the_end_up() -> Test {
    let peer = Peer::listen().await;
    let (connection, link) = tokio::join!(Connection::connect(peer.config()), peer.serve());
    let connection = connection?;
    drop(link);
    let mut link = peer.accept().await;
    link.expect("CLIENT ID").await;
    soon("the end", connection.close()).await;
    assert!(is_closed(connection.command(cmd("GET k")).await));
    link.hung_up().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_handle_takes_the_task_and_the_socket_along() -> Test {
    let valkey = Valkey::start()?;
    let clients = async || valkey.cli(&["CLIENT", "LIST"]).unwrap().matches("name=end").count();
    let config = config(&valkey).client_name("end");
    let connections = [
        Connection::connect(config.clone()).await?,
        Connection::connect(config.clone()).await?,
        Connection::connect(config).await?,
    ];
    let clone = connections[2].clone();
    connections[1].command(cmd("PING")).await?;
    let state = connections[0].state();
    assert_eq!(clients().await, 3);
    drop(connections);
    until("two ends", async || clients().await == 1).await;
    assert!(matches!(*state.borrow(), ConnectionState::Closed));
    assert_eq!(text(&clone.command(cmd("PING")).await?), "PONG");
    // One that was told something just before is no different.
    let mut left = Box::pin(clone.command(cmd("SET k v")));
    touch(&mut left).await;
    drop(left);
    drop(clone);
    until("the last end", async || clients().await == 0).await;
    assert_eq!(valkey.cli(&["GET", "k"])?, "v", "what was accepted was flushed");
    Ok(())
}

#[test]
fn a_runtime_that_goes_down_leaves_nobody_waiting() -> Test {
    let here = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let there =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let peer = here.block_on(Peer::listen());
    let config = peer.config();
    let (connection, mut link) = here.block_on(async {
        let connection = there.spawn(Connection::connect(config));
        let link = peer.serve().await;
        (connection.await.unwrap().unwrap(), link)
    });
    here.block_on(async {
        let mut calls = vec![Box::pin(connection.command(cmd("GET k")))];
        begin(&mut calls).await;
        link.expect("GET k").await;
        there.shutdown_background();
        assert!(is_closed(soon("an answer", calls.remove(0)).await));
        assert!(is_closed(soon("an answer", connection.command(cmd("GET k"))).await));
        soon("the end", connection.close()).await;
        assert_eq!(connection.in_flight(), 0);
    });
    Ok(())
}
