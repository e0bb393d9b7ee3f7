//! Minting: nodes are leased, renewed, lost and given back.

mod ground;

use std::collections::HashSet;
use std::process::Command;
use std::time::Duration;

use emq_core::{Bus, BusEvent, Error, MintingError};
use emq_keys::{NodeId, RESERVE_NODES};
use emq_scripts::NodeLease;
use emq_testkit::Valkey;
use ground::proxy::Proxy;
use ground::{builder_on, bus_on, soon, until};

const OWNERS: &str = "{emq}:nodes:owners";

async fn next_event(
    events: &mut tokio::sync::broadcast::Receiver<BusEvent>,
    wanted: impl Fn(&BusEvent) -> bool,
) -> BusEvent {
    soon("the event", async {
        loop {
            let event = events.recv().await.unwrap();
            if wanted(&event) {
                return event;
            }
        }
    })
    .await
}

#[tokio::test]
async fn two_buses_mint_on_different_nodes() {
    let valkey = Valkey::start().unwrap();
    let (one, _) = bus_on(&valkey).await;
    let (two, _) = bus_on(&valkey).await;
    assert_eq!(one.node(), None, "a bus that doesn't mint takes no node");
    let mut ids = HashSet::new();
    for _ in 0..1_000 {
        assert!(ids.insert(one.mint_job().await.unwrap()));
        assert!(ids.insert(two.mint_job().await.unwrap()));
    }
    let nodes: HashSet<u16> = ids.iter().map(emq_keys::BrandedId::node).collect();
    assert_eq!(nodes.len(), 2);
    assert!(nodes.contains(&one.node().unwrap().number()));
    assert_ne!(one.node(), two.node());
}

#[tokio::test]
async fn many_tasks_take_one_node() {
    let valkey = Valkey::start().unwrap();
    let (bus, _) = bus_on(&valkey).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let bus = bus.clone();
        tasks.spawn(async move { bus.mint_job().await.unwrap() });
    }
    let ids: HashSet<_> = tasks.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 50);
    assert_eq!(valkey.cli(&["ZCARD", RESERVE_NODES]).unwrap(), "1");
}

#[tokio::test]
async fn a_fixed_node_is_used_and_not_leased() {
    let valkey = Valkey::start().unwrap();
    let node = NodeId::new(77).unwrap();
    let bus = builder_on(&valkey).node(node).connect().await.unwrap();
    assert_eq!(bus.mint_job().await.unwrap().node(), 77);
    assert_eq!(bus.node(), Some(node));
    assert_eq!(valkey.cli(&["EXISTS", RESERVE_NODES]).unwrap(), "0");
}

const CHILD_URL: &str = "EMQ_TEST_CHILD_URL";

/// Runs in a process of its own, started by the next test; alone it has nothing to look at.
#[tokio::test]
async fn child_that_reads_the_environment() {
    let Ok(url) = std::env::var(CHILD_URL) else { return };
    match Bus::connect(&url).await {
        Ok(bus) => assert_eq!(bus.mint_job().await.unwrap().node(), 42),
        Err(error) => {
            assert!(matches!(error, Error::Node(_)), "{error:?}");
            std::process::exit(7);
        }
    }
}

#[test]
fn the_environment_fixes_the_node_or_is_refused() {
    let valkey = Valkey::start().unwrap();
    for (node, code) in [("42", 0), ("1024", 7), ("x", 7)] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_reads_the_environment"])
            .env(CHILD_URL, valkey.url())
            .env("EMQ_NODE", node)
            .output()
            .unwrap();
        assert_eq!(child.status.code(), Some(code), "{node}: {child:?}");
    }
    assert_eq!(valkey.cli(&["EXISTS", RESERVE_NODES]).unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_lease_nothing_is_minted_and_with_the_server_it_comes_back() {
    let valkey = Valkey::start().unwrap();
    let lease = Duration::from_millis(400);
    let bus = builder_on(&valkey).node_lease(lease).connect().await.unwrap();
    let first = bus.mint_job().await.unwrap();
    // Held for several leases on end: the beat renews it.
    let until_later = tokio::time::Instant::now() + 3 * lease;
    while tokio::time::Instant::now() < until_later {
        assert_eq!(bus.mint_job().await.unwrap().node(), first.node());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    valkey.kill9().unwrap();
    until("the end of the lease", async || bus.node().is_none()).await;
    let refused = bus.mint_job().await;
    let Err(Error::Minting(error @ MintingError::Lapsed { node, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(node.number(), first.node());
    assert!(error.is_retryable());
    valkey.start_again().unwrap();
    until("a node", async || bus.mint_job().await.is_ok()).await;
    assert!(bus.mint_job().await.unwrap() > first);
}

#[tokio::test]
async fn a_node_that_became_anothers_is_given_up() {
    let valkey = Valkey::start().unwrap();
    let lease = Duration::from_millis(400);
    let bus = builder_on(&valkey).node_lease(lease).connect().await.unwrap();
    let mut events = bus.events();
    let first = bus.mint_job().await.unwrap().node();
    assert!(matches!(
        next_event(&mut events, |_| true).await,
        BusEvent::NodeTaken { node } if node.number() == first
    ));
    let node = first.to_string();
    valkey.cli(&["HSET", OWNERS, &node, "somebody else"]).unwrap();
    valkey.cli(&["ZADD", RESERVE_NODES, "9999999999999", &node]).unwrap();
    let lost = next_event(&mut events, |event| matches!(event, BusEvent::NodeLost { .. })).await;
    assert!(matches!(lost, BusEvent::NodeLost { node } if node.number() == first));
    assert_ne!(bus.mint_job().await.unwrap().node(), first);
}

#[tokio::test]
async fn a_deployment_without_a_free_node_says_so() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let mut cmd = vec!["ZADD".to_owned(), RESERVE_NODES.to_owned()];
    let mut owners = vec!["HSET".to_owned(), OWNERS.to_owned()];
    for node in 0..1024 {
        cmd.extend(["9999999999999".to_owned(), node.to_string()]);
        owners.extend([node.to_string(), "other".to_owned()]);
    }
    valkey.cli(&cmd).unwrap();
    valkey.cli(&owners).unwrap();
    let refused = queue.enqueue("x").await;
    assert!(matches!(refused, Err(Error::Minting(MintingError::NoNode))), "{refused:?}");
    assert!(refused.unwrap_err().is_retryable());
    assert_eq!(queue.depth().await.unwrap(), 0);
}

#[tokio::test]
async fn a_closed_bus_gives_its_node_back_and_says_that_it_is_closed() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let node = bus.mint_job().await.unwrap().node().to_string();
    bus.close().await;
    let expiry: u64 =
        valkey.cli(&["ZSCORE", RESERVE_NODES, &node]).unwrap().parse::<f64>().unwrap() as u64;
    let time = valkey.cli(&["TIME"]).unwrap();
    let seconds: u64 = time.lines().next().unwrap().parse().unwrap();
    assert!(expiry <= (seconds + 1) * 1000, "{expiry} {seconds}");
    let refused = queue.depth().await;
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    assert!(!refused.unwrap_err().is_retryable());
}

#[tokio::test]
async fn a_wiped_keyspace_is_told_and_the_node_taken_again() {
    let valkey = Valkey::start().unwrap();
    let (bus, _) = bus_on(&valkey).await;
    let mut events = bus.events();
    let first = bus.mint_job().await.unwrap();
    valkey.cli(&["FLUSHALL"]).unwrap();
    valkey.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
    next_event(&mut events, |event| *event == BusEvent::KeyspaceReset).await;
    until("a node", async || bus.mint_job().await.is_ok()).await;
    assert!(bus.mint_job().await.unwrap() > first);
    let node = bus.node().unwrap().number().to_string();
    assert_ne!(valkey.cli(&["ZSCORE", RESERVE_NODES, &node]).unwrap(), "(nil)");
}

#[tokio::test]
async fn a_clock_far_from_the_servers_takes_no_node_and_a_fixed_one_is_the_callers_word() {
    let valkey = Valkey::start().unwrap();
    let proxy = Proxy::before(&valkey).await;
    for ahead in [-3_600, 90] {
        proxy.clock_ahead(ahead);
        let bus = Bus::connect(&proxy.url()).await.unwrap();
        let refused = bus.mint_job().await;
        let Err(Error::Minting(error @ MintingError::Skew { skew_ms })) = &refused else {
            panic!("{refused:?}")
        };
        assert!((skew_ms - 1_000 * ahead).abs() < 20_000, "{skew_ms}");
        assert!(!error.is_retryable());
        assert!(matches!(
            bus.queue("work").unwrap().enqueue("x").await,
            Err(Error::Minting(MintingError::Skew { .. }))
        ));
        assert_eq!(bus.node(), None);
        assert_eq!(valkey.cli(&["EXISTS", RESERVE_NODES]).unwrap(), "0");
        let fixed = Bus::builder(&proxy.url()).unwrap().node(NodeId::new(7).unwrap());
        assert_eq!(fixed.connect().await.unwrap().mint_job().await.unwrap().node(), 7);
    }
    // A clock that is off by less can't repeat what was minted before a node's grace.
    proxy.clock_ahead(-5);
    let bus = Bus::connect(&proxy.url()).await.unwrap();
    assert!(bus.mint_job().await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lapsed_node_that_another_took_meanwhile_is_not_minted_on_again() {
    let valkey = Valkey::builder().append_only(emq_testkit::Fsync::Always).start().unwrap();
    let lease = Duration::from_millis(400);
    let bus = builder_on(&valkey).node_lease(lease).connect().await.unwrap();
    let first = bus.mint_job().await.unwrap().node();
    valkey.kill9().unwrap();
    until("the end of the lease", async || bus.node().is_none()).await;
    for _ in 0..3 {
        let refused = bus.mint_job().await;
        let Err(Error::Minting(MintingError::Lapsed { node, .. })) = &refused else {
            panic!("{refused:?}")
        };
        assert_eq!(node.number(), first);
        let cause = std::error::Error::source(refused.as_ref().unwrap_err()).unwrap();
        assert!(cause.source().is_some(), "it says why the lease wasn't renewed");
    }
    // What another process did while this one didn't get there.
    let node = first.to_string();
    valkey.start_again().unwrap();
    let mut events = bus.events();
    valkey.cli(&["HSET", OWNERS, &node, "somebody else"]).unwrap();
    valkey.cli(&["ZADD", RESERVE_NODES, "9999999999999", &node]).unwrap();
    until("another node", async || bus.mint_job().await.is_ok_and(|id| id.node() != first)).await;
    for _ in 0..100 {
        assert_ne!(bus.mint_job().await.unwrap().node(), first);
    }
    next_event(&mut events, |event| matches!(event, BusEvent::NodeLost { .. })).await;
}

/// All nodes as leased for long, but for these, which ended so many milliseconds ago.
fn plant_nodes(valkey: &Valkey, ended: &[(u16, u64)]) {
    let time = valkey.cli(&["TIME"]).unwrap();
    let now_ms = time.lines().next().unwrap().parse::<u64>().unwrap() * 1_000;
    let mut expiries = vec!["ZADD".to_owned(), RESERVE_NODES.to_owned()];
    let mut owners = vec!["HSET".to_owned(), OWNERS.to_owned()];
    for node in 0..1024 {
        let ago = ended.iter().find(|(ended, _)| *ended == node).map(|(_, ago_ms)| *ago_ms);
        let expiry_ms = ago.map_or(9_999_999_999_999, |ago_ms| now_ms - ago_ms);
        expiries.extend([expiry_ms.to_string(), node.to_string()]);
        owners.extend([node.to_string(), "other".to_owned()]);
    }
    valkey.cli(&expiries).unwrap();
    valkey.cli(&owners).unwrap();
}

#[tokio::test]
async fn a_node_that_was_given_back_is_taken_last() {
    let valkey = Valkey::start().unwrap();
    let (first, _) = bus_on(&valkey).await;
    let given_back = first.mint_job().await.unwrap().node();
    first.close().await;
    // Others take what was never used.
    for _ in 0..3 {
        let (bus, _) = bus_on(&valkey).await;
        assert_ne!(bus.mint_job().await.unwrap().node(), given_back);
    }
}

#[tokio::test]
async fn when_all_were_used_the_one_that_ended_first_is_taken_once_its_grace_is_over() {
    let valkey = Valkey::start().unwrap();
    let (bus, _) = bus_on(&valkey).await;
    // A bus grants a minute: two ended before that, one did not.
    plant_nodes(&valkey, &[(7, 100_000), (9, 200_000), (500, 30_000)]);
    for wanted in [9, 7] {
        let (next, _) = bus_on(&valkey).await;
        assert_eq!(next.mint_job().await.unwrap().node(), wanted);
    }
    let refused = bus.mint_job().await;
    assert!(matches!(refused, Err(Error::Minting(MintingError::NoNode))), "{refused:?}");
    // Nor by its name, but for its owner.
    let call = |owner: &'static str| {
        let (lease, grace) = (Duration::from_secs(60), Duration::from_secs(60));
        let call = NodeLease { owner, lease, grace, node: Some(NodeId::new(500).unwrap()) };
        let fenced = bus.fenced().clone();
        async move { fenced.node_lease(&call).await }
    };
    assert!(call("a third").await.is_err());
    assert_eq!(call("other").await.unwrap().node.number(), 500);

    plant_nodes(&valkey, &[(500, 61_000)]);
    assert_eq!(bus.mint_job().await.unwrap().node(), 500);
}
