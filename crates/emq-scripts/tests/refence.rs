//! The fence stands again on every socket that replaces a lost one.

mod support;

use std::time::Duration;

use emq_scripts::{
    AdmitOptions, Admitted, CallError, Enqueue, FenceError, FenceEvent, FenceOptions, Fenced,
    Nudge, WIRE_VERSION, fence_error,
};
use emq_testkit::Valkey;
use emq_wire::ConnectionState;
use support::keyspace::snapshot;
use support::{config, fenced, job, queue, soon};

const VERSION: &str = "{emq}:version";

/// Cuts every connection of clients.
fn cut(valkey: &Valkey) {
    valkey.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
}

fn enqueue(n: u64) -> Enqueue<'static> {
    Enqueue { id: job(n), payload: b"p", options: AdmitOptions::default(), durable: false }
}

async fn reconnected(fenced: &Fenced, times: u64) {
    let mut state = fenced.connection().state();
    soon(async {
        while fenced.connection().counters().reconnects < times {
            state.changed().await.unwrap();
        }
        state.wait_for(|state| matches!(state, ConnectionState::Ready)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_cut_connection_comes_back_without_a_word() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let mut events = fenced.events();
    cut(&valkey);
    reconnected(&fenced, 1).await;
    fenced.call(&queue("orders"), &enqueue(1)).await.unwrap();
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn a_wiped_keyspace_is_claimed_again_and_told() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let mut events = fenced.events();
    valkey.cli(&["FLUSHALL"]).unwrap();
    cut(&valkey);
    let event = soon(events.recv()).await.unwrap();
    assert_eq!(event, FenceEvent::KeyspaceReset { claimed: true });
    reconnected(&fenced, 1).await;
    assert_eq!(valkey.cli(&["GET", VERSION]).unwrap(), WIRE_VERSION);
    let admitted = fenced.call(&queue("orders"), &enqueue(1)).await.unwrap();
    assert_eq!(admitted, Admitted::Admitted);
    assert!(events.try_recv().is_err(), "told twice");
}

#[tokio::test]
async fn a_volatile_server_that_crashed_is_a_reset_too_and_gets_the_bundle_again() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let mut events = fenced.events();
    let keys = queue("orders");
    fenced.call(&keys, &enqueue(1)).await.unwrap();
    valkey.kill9().unwrap();
    valkey.start_again().unwrap();
    soon(events.recv()).await.unwrap();
    reconnected(&fenced, 1).await;
    let loads = fenced.connection().counters().script_loads;
    let admitted = fenced.call(&keys, &enqueue(1)).await.unwrap();
    assert_eq!(admitted, Admitted::Admitted, "the server lost it");
    assert_eq!(fenced.connection().counters().script_loads, loads, "it was loaded by the fence");
}

#[tokio::test]
async fn a_lane_that_finds_the_keyspace_wiped_tells_it_as_well() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let mut events = fenced.events();
    valkey.cli(&["FLUSHALL"]).unwrap();
    let lane = fenced.blocking_lane().await.unwrap();
    assert_eq!(events.try_recv().unwrap(), FenceEvent::KeyspaceReset { claimed: true });
    drop(lane);
}

#[tokio::test]
async fn a_version_that_changed_meanwhile_ends_the_connection_for_good() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let keys = queue("orders");
    fenced.call(&keys, &enqueue(1)).await.unwrap();
    valkey.cli(&["SET", VERSION, "echomq:3.0.0"]).unwrap();
    let before = snapshot(fenced.connection(), "*").await;

    cut(&valkey);
    let mut state = fenced.connection().state();
    soon(state.wait_for(|state| matches!(state, ConnectionState::Refused(_)))).await.unwrap();

    let mut said = Vec::new();
    let mut note = |error: CallError| {
        match error.fence() {
            Some(FenceError::Version { expected, found }) => {
                assert_eq!((*expected, found.as_str()), (WIRE_VERSION, "echomq:3.0.0"));
            }
            other => panic!("{other:?}"),
        }
        assert!(!error.is_retryable());
        said.push(format!("{error:?}"));
    };
    for n in 1..4 {
        note(fenced.call(&keys, &enqueue(n)).await.unwrap_err());
    }
    note(fenced.call_all(&keys, &[Nudge, Nudge]).await.unwrap_err());
    note(CallError::Wire(fenced.blocking_lane().await.unwrap_err()));
    said.dedup();
    assert_eq!(said.len(), 1, "{said:?}");

    // Even when the version is mended: what was refused stays refused.
    valkey.cli(&["SET", VERSION, WIRE_VERSION]).unwrap();
    assert!(fenced.call(&keys, &enqueue(1)).await.unwrap_err().fence().is_some());
    valkey.cli(&["SET", VERSION, "echomq:3.0.0"]).unwrap();
    let plain = emq_wire::Connection::connect(config(&valkey)).await.unwrap();
    assert_eq!(snapshot(&plain, "*").await, before);
}

#[tokio::test]
async fn a_lane_is_refused_where_the_shared_connection_would_be() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    valkey.cli(&["SET", VERSION, "echomq:3.0.0"]).unwrap();
    for error in [
        fenced.blocking_lane().await.map(drop).unwrap_err(),
        fenced.durable_lane().await.map(drop).unwrap_err(),
    ] {
        assert!(matches!(fence_error(&error), Some(FenceError::Version { .. })), "{error:?}");
    }
}

#[tokio::test]
async fn a_wiped_and_full_server_is_waited_for() {
    let valkey = Valkey::start().unwrap();
    let reconnect = emq_wire::Reconnect {
        cap: Duration::from_millis(20),
        call_wait: support::PATIENCE,
        ..emq_wire::Reconnect::default()
    };
    let config = config(&valkey).reconnect(reconnect);
    let fenced = Fenced::connect(config, FenceOptions::default()).await.unwrap();
    let mut events = fenced.events();
    valkey.cli(&["FLUSHALL"]).unwrap();
    valkey.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    cut(&valkey);
    let mut state = fenced.connection().state();
    let tries = |state: &ConnectionState| match state {
        ConnectionState::Reconnecting { attempt } => *attempt >= 3,
        other => other.is_terminal(),
    };
    let seen = soon(state.wait_for(tries)).await.unwrap().clone();
    assert!(matches!(seen, ConnectionState::Reconnecting { .. }), "{seen:?}");

    valkey.cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    soon(events.recv()).await.unwrap();
    let admitted = soon(fenced.call(&queue("orders"), &enqueue(1))).await.unwrap();
    assert_eq!(admitted, Admitted::Admitted);
}

#[tokio::test]
async fn a_primary_that_became_a_replica_says_so_and_serves_when_it_is_primary_again() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let keys = queue("orders");
    valkey.cli(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let error = fenced.call(&keys, &enqueue(1)).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Server { source, .. } if source.is("READONLY")),
        "{error:?}"
    );
    assert!(error.is_retryable());
    valkey.cli(&["REPLICAOF", "NO", "ONE"]).unwrap();
    soon(async {
        while let Err(error) = fenced.call(&keys, &enqueue(1)).await {
            assert!(error.is_retryable(), "{error:?}");
        }
    })
    .await;
}
