//! What an operator does to lanes: ceilings, weights and pauses keep the ring exact.

mod support;

use std::time::Duration;

use emq_keys::QueueKeys;
use emq_scripts::{
    AdmitOptions, Claimed, Complete, Completed, Fenced, LaneClaim, LaneEnqueue, LaneLimit,
    LanePause, LaneResume, LaneWeight, Switched,
};
use emq_testkit::Valkey;
use support::{ask, fenced, job, lane, queue};

const LEASE: Duration = Duration::from_secs(60);

/// A queue with `jobs` jobs in each of `lanes` lanes: lane g has the jobs 100 g, 100 g + 1, ...
async fn ground(lanes: u64, jobs: u64) -> (Valkey, Fenced, QueueKeys) {
    let valkey = Valkey::start().unwrap();
    let (fenced, keys) = (fenced(&valkey).await, queue("orders"));
    for n in 0..jobs {
        for g in 0..lanes {
            admit(&fenced, &keys, g, n).await;
        }
    }
    (valkey, fenced, keys)
}

async fn admit(fenced: &Fenced, keys: &QueueKeys, g: u64, n: u64) {
    let (id, group, options) = (job(100 * g + n), lane(g), AdmitOptions::default());
    let call = LaneEnqueue { id, payload: b"p", group, options, durable: false };
    fenced.call(keys, &call).await.unwrap();
}

async fn claim(fenced: &Fenced, keys: &QueueKeys) -> Option<Claimed> {
    fenced.call(keys, &LaneClaim { lease: LEASE, ticket: None }).await.unwrap()
}

async fn complete(fenced: &Fenced, keys: &QueueKeys, job: &Claimed) {
    let call = Complete { id: job.id, token: job.token, ticket: None };
    assert_eq!(fenced.call(keys, &call).await.unwrap(), Completed::Done);
}

/// The lanes that the next claims serve, as their numbers.
async fn served(fenced: &Fenced, keys: &QueueKeys, claims: usize) -> Vec<u64> {
    let mut served = Vec::new();
    for _ in 0..claims {
        let group = claim(fenced, keys).await.and_then(|job| job.group);
        served.extend(group.map(|group| (0..10).find(|g| lane(*g) == group).unwrap()));
    }
    served
}

/// The ring, from its head, as the numbers of its lanes.
async fn ring(fenced: &Fenced, keys: &QueueKeys) -> Vec<u64> {
    let key = format!("{}ring", keys.base());
    let ring = ask(fenced.connection(), &["LRANGE", &key, "0", "-1"]).await;
    let lanes = ring.as_array().unwrap().iter().map(|id| id.as_bytes().unwrap().to_vec());
    lanes.map(|id| (0..10).find(|g| lane(*g).as_bytes()[..] == id[..]).unwrap()).collect()
}

/// Takes every wake token, and says how many there were.
async fn wakes(fenced: &Fenced, keys: &QueueKeys) -> i64 {
    let key = format!("{}wake", keys.base());
    let length = ask(fenced.connection(), &["LLEN", &key]).await;
    ask(fenced.connection(), &["DEL", &key]).await;
    length.as_int().unwrap()
}

#[tokio::test]
async fn a_weight_is_a_share_of_the_turn() {
    let (_valkey, fenced, keys) = ground(3, 6).await;
    let weight = |weight| LaneWeight { group: lane(1), weight };
    assert_eq!(fenced.call(&keys, &weight(3)).await.unwrap(), Switched::Changed);
    assert_eq!(fenced.call(&keys, &weight(3)).await.unwrap(), Switched::Already);
    assert_eq!(served(&fenced, &keys, 10).await, [0, 1, 1, 1, 2, 0, 1, 1, 1, 2]);
    // Lane 1 is empty by now.
    assert_eq!(served(&fenced, &keys, 10).await, [0, 2, 0, 2, 0, 2, 0, 2]);
}

#[tokio::test]
async fn an_interrupted_share_is_void_when_the_weight_changes() {
    let (_valkey, fenced, keys) = ground(2, 9).await;
    let weight = |weight| LaneWeight { group: lane(0), weight };
    fenced.call(&keys, &weight(3)).await.unwrap();
    assert_eq!(served(&fenced, &keys, 2).await, [0, 0]);
    fenced.call(&keys, &weight(2)).await.unwrap();
    assert_eq!(served(&fenced, &keys, 4).await, [0, 0, 1, 0]);
    fenced.call(&keys, &weight(1)).await.unwrap();
    assert_eq!(served(&fenced, &keys, 4).await, [0, 1, 0, 1]);
}

#[tokio::test]
async fn a_share_ends_at_the_ceiling() {
    let (_valkey, fenced, keys) = ground(2, 5).await;
    fenced.call(&keys, &LaneWeight { group: lane(0), weight: 4 }).await.unwrap();
    fenced.call(&keys, &LaneLimit { group: lane(0), limit: 2 }).await.unwrap();
    assert_eq!(served(&fenced, &keys, 9).await, [0, 0, 1, 1, 1, 1, 1]);
}

#[tokio::test]
async fn a_ceiling_holds_and_one_settle_reopens_the_lane() {
    let (_valkey, fenced, keys) = ground(1, 5).await;
    let limit = |limit| LaneLimit { group: lane(0), limit };
    assert_eq!(fenced.call(&keys, &limit(2)).await.unwrap(), Switched::Changed);
    assert_eq!(fenced.call(&keys, &limit(2)).await.unwrap(), Switched::Already);
    let first = claim(&fenced, &keys).await.unwrap();
    assert!(claim(&fenced, &keys).await.is_some());
    assert_eq!((claim(&fenced, &keys).await, ring(&fenced, &keys).await), (None, vec![]));

    wakes(&fenced, &keys).await;
    complete(&fenced, &keys, &first).await;
    assert_eq!((wakes(&fenced, &keys).await, ring(&fenced, &keys).await), (1, vec![0]));
    assert!(claim(&fenced, &keys).await.is_some());
    assert_eq!(claim(&fenced, &keys).await, None);
}

#[tokio::test]
async fn a_ceiling_that_moves_moves_the_lane() {
    let (_valkey, fenced, keys) = ground(2, 9).await;
    let limit = |limit| LaneLimit { group: lane(0), limit };
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(claim(&fenced, &keys).await.unwrap());
    }
    // Three of lane 0 are out: lowered to two, it leaves at once, and one settle isn't enough.
    fenced.call(&keys, &limit(2)).await.unwrap();
    assert_eq!(ring(&fenced, &keys).await, [1]);
    complete(&fenced, &keys, &held[0]).await;
    assert_eq!(ring(&fenced, &keys).await, [1]);
    complete(&fenced, &keys, &held[2]).await;
    assert_eq!(ring(&fenced, &keys).await, [1, 0]);

    assert_eq!(served(&fenced, &keys, 2).await, [1, 0]);
    assert_eq!(ring(&fenced, &keys).await, [1]);
    wakes(&fenced, &keys).await;
    fenced.call(&keys, &limit(0)).await.unwrap();
    assert_eq!((wakes(&fenced, &keys).await, ring(&fenced, &keys).await), (1, vec![1, 0]));
    assert_eq!(fenced.call(&keys, &limit(0)).await.unwrap(), Switched::Already);
}

#[tokio::test]
async fn a_parked_lane_keeps_its_backlog_and_its_flight() {
    let (_valkey, fenced, keys) = ground(2, 4).await;
    let held = claim(&fenced, &keys).await.unwrap();
    assert_eq!(held.group, Some(lane(0)));
    let (pause, resume) = (LanePause { group: lane(0) }, LaneResume { group: lane(0) });
    assert_eq!(fenced.call(&keys, &pause).await.unwrap(), Switched::Changed);
    assert_eq!(fenced.call(&keys, &pause).await.unwrap(), Switched::Already);
    assert_eq!(ring(&fenced, &keys).await, [1]);

    // What enters it meanwhile wakes nobody; its flight settles as ever.
    wakes(&fenced, &keys).await;
    admit(&fenced, &keys, 0, 4).await;
    assert_eq!((wakes(&fenced, &keys).await, ring(&fenced, &keys).await), (0, vec![1]));
    complete(&fenced, &keys, &held).await;
    assert_eq!(served(&fenced, &keys, 5).await, [1, 1, 1, 1]);

    wakes(&fenced, &keys).await;
    assert_eq!(fenced.call(&keys, &resume).await.unwrap(), Switched::Changed);
    assert_eq!(fenced.call(&keys, &resume).await.unwrap(), Switched::Already);
    assert_eq!(wakes(&fenced, &keys).await, 1);
    let mut ids = Vec::new();
    while let Some(job) = claim(&fenced, &keys).await {
        ids.push(job.id);
    }
    assert_eq!(ids, [job(1), job(2), job(3), job(4)]);
}

#[tokio::test]
async fn a_resumed_lane_at_its_ceiling_or_empty_stays_out() {
    let (_valkey, fenced, keys) = ground(1, 2).await;
    fenced.call(&keys, &LaneLimit { group: lane(0), limit: 1 }).await.unwrap();
    let held = claim(&fenced, &keys).await.unwrap();
    for group in [lane(0), lane(1)] {
        fenced.call(&keys, &LanePause { group }).await.unwrap();
        wakes(&fenced, &keys).await;
        let resume = LaneResume { group };
        assert_eq!(fenced.call(&keys, &resume).await.unwrap(), Switched::Changed);
        assert_eq!((wakes(&fenced, &keys).await, ring(&fenced, &keys).await), (0, vec![]));
    }
    complete(&fenced, &keys, &held).await;
    assert_eq!(ring(&fenced, &keys).await, [0]);
}
