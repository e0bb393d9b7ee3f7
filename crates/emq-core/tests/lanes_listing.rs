//! The listing of lanes, and the counts that go through them.

mod ground;

use std::collections::{HashMap, HashSet};

use emq_core::{Error, LaneStatus, NewJob, Queue};
use emq_keys::BrandedId;
use emq_testkit::{Fsync, Valkey};
use ground::raw::{self, tenant};
use ground::{LONG, bus_on, shared, until};

/// Enqueues jobs in each of some lanes.
async fn fill(queue: &Queue, lanes: &[BrandedId], jobs_each: usize) {
    let mut list = Vec::new();
    for lane in lanes {
        for _ in 0..jobs_each {
            list.push(NewJob::new(queue.bus().mint_job().await.unwrap(), "x").lane(*lane));
        }
    }
    assert_eq!(queue.enqueue_many(&list).await.unwrap().len(), list.len());
}

fn tenants(names: std::ops::Range<usize>) -> Vec<BrandedId> {
    names.map(|n| tenant(&n.to_string())).collect()
}

/// By lane; no lane comes twice.
fn by_lane(all: Vec<LaneStatus>) -> HashMap<BrandedId, LaneStatus> {
    let count = all.len();
    let lanes: HashMap<_, _> = all.into_iter().map(|status| (status.id, status)).collect();
    assert_eq!(lanes.len(), count);
    lanes
}

#[tokio::test]
async fn a_queue_without_lanes_lists_none() {
    let (_bus, queue) = shared().await;
    ground::admit(&queue, "x").await;
    let mut lanes = queue.lanes();
    assert_eq!(lanes.page().await.unwrap(), None);
    assert_eq!(lanes.page().await.unwrap(), None);
    assert_eq!(lanes.collect().await.unwrap(), []);
}

#[tokio::test]
async fn two_thousand_lanes_come_in_bounded_pages_each_once() {
    let (_bus, queue) = shared().await;
    let lanes = tenants(0..2_000);
    fill(&queue, &lanes, 1).await;
    let mut listing = queue.lanes();
    let mut all = Vec::new();
    while let Some(page) = listing.page().await.unwrap() {
        assert!((1..=500).contains(&page.len()), "{}", page.len());
        all.extend(page);
    }
    assert_eq!(listing.page().await.unwrap(), None);
    let all = by_lane(all);
    assert_eq!(all.keys().collect::<HashSet<_>>(), lanes.iter().collect());
    assert!(all.values().all(|lane| lane.depth == 1 && lane.weight == 1 && lane.serviceable()));
}

#[tokio::test]
async fn a_lane_is_listed_for_any_one_fact_and_with_all_of_them() {
    let (_bus, queue) = shared().await;
    let lane = |name: &str| queue.lane(tenant(name));
    lane("limit").limit(7).await.unwrap();
    lane("weight").weight(8).await.unwrap();
    lane("paused").pause().await.unwrap();
    // Leased and at its ceiling, so out of the ring; and leased with nothing else.
    fill(&queue, &[tenant("ceiling")], 3).await;
    lane("ceiling").limit(1).await.unwrap();
    assert!(queue.claim_lane(LONG).await.unwrap().is_some());
    fill(&queue, &[tenant("leased")], 1).await;
    assert!(queue.claim_lane(LONG).await.unwrap().is_some());
    fill(&queue, &[tenant("waits")], 2).await;
    assert_eq!(raw::ring(&queue).await, [tenant("waits")]);

    let all = by_lane(queue.lanes().collect().await.unwrap());
    assert_eq!(all.len(), 6);
    let facts = |name: &str| {
        let LaneStatus { depth, leases, ceiling, weight, paused, .. } = all[&tenant(name)];
        (depth, leases, ceiling, weight, paused)
    };
    assert_eq!(facts("limit"), (0, 0, Some(7), 1, false));
    assert_eq!(facts("weight"), (0, 0, None, 8, false));
    assert_eq!(facts("paused"), (0, 0, None, 1, true));
    assert_eq!(facts("ceiling"), (2, 1, Some(1), 1, false));
    assert_eq!(facts("leased"), (0, 1, None, 1, false));
    assert_eq!(facts("waits"), (2, 0, None, 1, false));
    let serviceable: Vec<_> = all.values().filter(|lane| lane.serviceable()).collect();
    assert_eq!(serviceable.len(), 1);
    for (id, status) in &all {
        assert_eq!(queue.lane(*id).status().await.unwrap(), *status);
    }
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.in_lanes, counts.active, counts.pending), (4, 2, 0));
}

#[tokio::test]
async fn lanes_that_take_their_turn_meanwhile_are_listed_all_the_same() {
    let (_bus, queue) = shared().await;
    let lanes = tenants(0..1_300);
    fill(&queue, &lanes, 2).await;
    let mut listing = queue.lanes();
    let mut all = listing.page().await.unwrap().unwrap();
    // Served and settled, these lanes stand behind what was read; nothing else names them.
    for _ in 0..700 {
        queue.claim_lane(LONG).await.unwrap().unwrap().complete().await.unwrap();
    }
    assert_eq!(raw::int(&queue, &["EXISTS", queue.keys().gactive()]).await, 0);
    all.extend(tokio::spawn(listing.collect()).await.unwrap().unwrap());
    let all = by_lane(all);
    assert_eq!(all.keys().collect::<HashSet<_>>(), lanes.iter().collect());
}

#[tokio::test]
async fn a_listing_goes_on_after_a_lost_server() {
    let valkey = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let lanes = tenants(0..1_300);
    fill(&queue, &lanes, 1).await;
    queue.lane(tenant("more")).limit(1).await.unwrap();
    let mut listing = queue.lanes();
    let mut all = listing.page().await.unwrap().unwrap();
    valkey.kill9().unwrap();
    let lost = listing.page().await;
    assert!(matches!(lost, Err(Error::Disconnected { .. })), "{lost:?}");
    valkey.start_again().unwrap();
    until("the server", async || {
        let page = listing.page().await;
        page.is_ok_and(|page| page.inspect(|page| all.extend(page)).is_some())
    })
    .await;
    all.extend(listing.collect().await.unwrap());
    assert_eq!(by_lane(all).len(), 1_301);
}

#[tokio::test]
async fn a_great_many_lanes_are_counted_up_to_a_bound_that_is_told() {
    let (_bus, queue) = shared().await;
    fill(&queue, &tenants(0..10_600), 1).await;
    let counts = queue.counts().await.unwrap();
    assert!(counts.lanes_uncounted);
    assert!((10_000..10_600).contains(&counts.in_lanes), "{counts:?}");
    assert_eq!(by_lane(queue.lanes().collect().await.unwrap()).len(), 10_600);
}
