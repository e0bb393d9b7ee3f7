//! The fence: who is let in, who is refused and how, and that a refusal writes nothing.

mod support;

use emq_scripts::{
    AdmitOptions, Admitted, Bundle, CallError, Enqueue, FenceError, FenceFailure, FenceOptions,
    Fenced, WIRE_VERSION,
};
use emq_testkit::Valkey;
use emq_wire::{Connection, Script};
use support::keyspace::{Snapshot, snapshot};
use support::{ask, config, fenced, job, queue, soon};

const VERSION: &str = "{emq}:version";

async fn everything(valkey: &Valkey) -> Snapshot {
    let plain = Connection::connect(config(valkey)).await.unwrap();
    snapshot(&plain, "*").await
}

/// Connects to a server that must refuse, and checks that its keyspace is as it was.
async fn refused(valkey: &Valkey) -> FenceError {
    let before = everything(valkey).await;
    let failure = Fenced::connect(config(valkey), FenceOptions::default()).await.unwrap_err();
    assert_eq!(everything(valkey).await, before);
    match failure {
        FenceFailure::Fence(error) => error,
        FenceFailure::Wire(error) => panic!("{error:?}"),
        other => panic!("{other:?}"),
    }
}

fn enqueue(n: u64) -> Enqueue<'static> {
    Enqueue { id: job(n), payload: b"p", options: AdmitOptions::default(), durable: false }
}

#[tokio::test]
async fn a_fresh_keyspace_is_claimed_and_nothing_else_is_written() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let claimed = [(VERSION.to_owned(), vec!["(string)".to_owned(), WIRE_VERSION.to_owned()])];
    assert_eq!(everything(&valkey).await, Snapshot::from(claimed));

    assert!(fenced.engine().is_valkey());
    assert_eq!(fenced.engine().version.to_string(), valkey.version().unwrap());
    // Both clocks are this machine's: what is between them is the measurement.
    assert!(fenced.clock_skew_ms().unwrap().abs() < 10_000);
    assert_eq!(fenced.bundle().revision(), Bundle::embedded().revision());

    // A second client finds what the first left.
    let second = support::fenced(&valkey).await;
    let keys = queue("orders");
    assert_eq!(second.call(&keys, &enqueue(1)).await.unwrap(), Admitted::Admitted);
    assert_eq!(fenced.call(&keys, &enqueue(1)).await.unwrap(), Admitted::Duplicate);
}

#[tokio::test]
async fn the_whole_bundle_is_loaded_at_connect_and_not_by_a_lane() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let mut exists = vec!["SCRIPT", "EXISTS"];
    let bundle = Bundle::embedded();
    exists.extend(bundle.scripts().iter().map(Script::sha1));
    let known = valkey.cli(&exists).unwrap();
    assert!(known.lines().all(|line| line == "1"), "{known}");
    assert_eq!(known.lines().count(), bundle.scripts().len());

    valkey.cli(&["SCRIPT", "FLUSH"]).unwrap();
    let parked = fenced.blocking_lane().await.unwrap();
    let durable = fenced.durable_lane().await.unwrap();
    let known = valkey.cli(&exists).unwrap();
    assert!(known.lines().all(|line| line == "0"), "{known}");
    drop((parked, durable));
}

#[tokio::test]
async fn another_version_is_refused_with_both_versions() {
    let valkey = Valkey::start().unwrap();
    valkey.cli(&["SET", VERSION, "echomq:1.0.0"]).unwrap();
    valkey.cli(&["SET", "emq:{orders}:meta", "theirs"]).unwrap();
    match refused(&valkey).await {
        FenceError::Version { expected, found } => {
            assert_eq!((expected, found.as_str()), (WIRE_VERSION, "echomq:1.0.0"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn garbage_in_the_version_is_refused_and_shown_short() {
    let valkey = Valkey::start().unwrap();
    let long = [&[0xff, 0x00, b'\r', b'\n'][..], &[b'x'; 100_000]].concat();
    for garbage in [&b""[..], b"echomq:2.0.0 ", b"ECHOMQ:2.0.0", b"2.0.0", &long] {
        valkey.cli(&[b"SET", VERSION.as_bytes(), garbage]).unwrap();
        match refused(&valkey).await {
            FenceError::Version { found, .. } => assert!(found.chars().count() <= 64),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_version_of_another_type_is_refused() {
    for plant in [["RPUSH", VERSION, WIRE_VERSION], ["SADD", VERSION, WIRE_VERSION]] {
        let valkey = Valkey::start().unwrap();
        valkey.cli(&plant).unwrap();
        let error = refused(&valkey).await;
        assert!(matches!(error, FenceError::VersionType { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_full_server_lets_in_whoever_finds_its_version() {
    let valkey = Valkey::start().unwrap();
    let first = fenced(&valkey).await;
    valkey.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let second = support::fenced(&valkey).await;
    for fenced in [first, second] {
        let error = fenced.call(&queue("orders"), &enqueue(1)).await.unwrap_err();
        assert!(matches!(error, CallError::OutOfMemory { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_full_server_that_was_never_claimed_says_so_and_may_be_tried_again() {
    let valkey = Valkey::start().unwrap();
    valkey.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let error = refused(&valkey).await;
    assert!(matches!(error, FenceError::Full { .. }) && error.is_retryable(), "{error:?}");
    valkey.cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    fenced(&valkey).await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused_as_such() {
    let valkey = Valkey::builder().config("cluster-enabled yes").start().unwrap();
    let refusal = Fenced::connect(config(&valkey), FenceOptions::default()).await.unwrap_err();
    assert!(matches!(refusal, FenceFailure::Fence(FenceError::Cluster)), "{refusal:?}");
    // The same where the node serves the slot and so answers every command.
    valkey.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).unwrap();
    let plain = Connection::connect(config(&valkey)).await.unwrap();
    soon(async {
        while !text(&ask(&plain, &["CLUSTER", "INFO"]).await).contains("cluster_state:ok") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let options = FenceOptions::default().allow_compatible(true);
    let refusal = Fenced::connect(config(&valkey), options).await.unwrap_err();
    assert!(matches!(refusal, FenceFailure::Fence(FenceError::Cluster)), "{refusal:?}");
}

fn text(reply: &emq_wire::Reply) -> String {
    String::from_utf8_lossy(reply.as_bytes().unwrap()).into_owned()
}

#[tokio::test]
async fn a_user_who_may_not_do_what_the_fence_needs_hears_which_command() {
    let valkey = Valkey::builder()
        .acl_user("keys", "on >pw ~emq:* +@all")
        .acl_user("info", "on >pw ~* +@all -info")
        .acl_user("time", "on >pw ~* +@all -time")
        .acl_user("load", "on >pw ~* +@all -script|load")
        .acl_user("read", "on >pw ~* +@all -set")
        .acl_user("all", "on >pw ~{emq}:* ~emq:* +@all")
        .start()
        .unwrap();
    let connect = async |user: &str| {
        let config = valkey.url_as(user, "pw").parse().unwrap();
        Fenced::connect(config, FenceOptions::default()).await
    };
    for (user, denied) in [
        ("keys", "GET {emq}:version"),
        ("read", "SET {emq}:version NX"),
        ("info", "INFO server"),
        ("time", "TIME"),
        ("load", "SCRIPT LOAD"),
    ] {
        match connect(user).await {
            Err(FenceFailure::Fence(FenceError::Denied { command, source })) => {
                assert_eq!((command, source.class()), (denied, "NOPERM"), "{user}");
            }
            other => panic!("{user}: {other:?}"),
        }
    }
    let fenced = connect("all").await.unwrap();
    fenced.call(&queue("orders"), &enqueue(1)).await.unwrap();
}

#[tokio::test]
async fn a_replica_is_tried_again_and_let_in_once_it_carries_the_version() {
    let primary = Valkey::builder().config("repl-diskless-sync-delay 0").start().unwrap();
    let follow = format!("replicaof 127.0.0.1 {}", primary.port());
    let replica = Valkey::builder().config(follow).start().unwrap();
    let short = config(&replica).connect_timeout(std::time::Duration::from_millis(200));
    let short = short.reconnect(emq_wire::Reconnect {
        initial_wait: std::time::Duration::from_millis(200),
        ..emq_wire::Reconnect::default()
    });
    let failure = Fenced::connect(short, FenceOptions::default()).await.unwrap_err();
    assert!(matches!(failure, FenceFailure::Wire(_)) && failure.is_retryable(), "{failure:?}");

    fenced(&primary).await;
    let patient = config(&replica).reconnect(emq_wire::Reconnect {
        initial_wait: support::PATIENCE,
        ..emq_wire::Reconnect::default()
    });
    Fenced::connect(patient, FenceOptions::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_clients_claim_a_fresh_keyspace_at_once() {
    let valkey = Valkey::start().unwrap();
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..20 {
        let config = config(&valkey);
        clients.spawn(async move {
            let fenced = Fenced::connect(config, FenceOptions::default()).await.unwrap();
            fenced.call(&queue("orders"), &enqueue(n)).await.unwrap()
        });
    }
    let admitted = clients.join_all().await;
    assert_eq!(admitted, vec![Admitted::Admitted; 20]);
    assert_eq!(valkey.cli(&["GET", VERSION]).unwrap(), WIRE_VERSION);
}
