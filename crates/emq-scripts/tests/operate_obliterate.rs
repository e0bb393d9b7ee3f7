//! A queue goes, step by step, and nothing of it is left.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emq_keys::QueueKeys;
use emq_scripts::{
    AdmitOptions, Claim, Complete, Completed, Enqueue, Fenced, LaneClaim, LaneEnqueue, LaneLimit,
    LanePause, LaneWeight, Obliterate, Obliterated, QueuePause, RefusalClass, Retry, Schedule,
    ScriptCall, When,
};
use emq_testkit::Valkey;
use support::checkup::{checkup, healthy};
use support::keyspace::{Snapshot, snapshot};
use support::{ask, fenced, job, lane, queue};

const LEASE: Duration = Duration::from_secs(60);
const NONE_LEFT: Obliterated = Obliterated { removed: 0, left: false };

struct Ground {
    _valkey: Valkey,
    fenced: Fenced,
    keys: QueueKeys,
}

impl Ground {
    async fn new() -> Ground {
        let valkey = Valkey::start().unwrap();
        let fenced = fenced(&valkey).await;
        Ground { _valkey: valkey, fenced, keys: queue("orders") }
    }

    async fn call<C: ScriptCall>(&self, call: C) -> C::Reply {
        self.fenced.call(&self.keys, &call).await.unwrap()
    }

    async fn healthy(&self) {
        healthy(&self.fenced, &self.keys).await;
    }

    async fn step(&self, force: bool, limit: u32) -> Obliterated {
        self.call(Obliterate { force, limit }).await
    }

    /// Steps to the end; answers how many jobs went, and in how many steps.
    async fn obliterate(&self, force: bool, limit: u32) -> (u64, usize) {
        let (mut removed, mut steps) = (0, 0);
        loop {
            let step = self.step(force, limit).await;
            removed += step.removed;
            steps += 1;
            if !step.left {
                return (removed, steps);
            }
            assert!(step.removed <= limit.into());
            assert_eq!(
                ask(self.fenced.connection(), &["HGET", self.keys.meta(), "paused"])
                    .await
                    .as_bytes()
                    .unwrap(),
                "1"
            );
        }
    }

    async fn left(&self) -> Snapshot {
        snapshot(self.fenced.connection(), "emq:{orders}:*").await
    }

    /// 40 jobs: 10 flat pending, 4 scheduled, 3 dead, and in lanes 15 pending, 8 leased; lane 1 is
    /// parked, lane 2 at its ceiling, lane 0 in the midst of its share, and a lane without jobs has a
    /// weight.
    async fn fill(&self) {
        for n in 0..15 {
            let key = format!("key {n}");
            let options = AdmitOptions { unique: Some(&key), ..AdmitOptions::default() };
            let id = job(n);
            self.call(Enqueue { id, payload: b"p", options, durable: false }).await;
            if n < 2 {
                self.call(Claim { lease: LEASE, ticket: None }).await.unwrap();
            }
        }
        for _ in 0..3 {
            let held = self.call(Claim { lease: LEASE, ticket: None }).await.unwrap();
            let bury = Retry {
                id: held.id,
                token: held.token,
                ticket: None,
                delay: Duration::ZERO,
                max_attempts: 1,
                error: "",
                force_dead: true,
            };
            self.call(bury).await;
        }
        let when = When::In(Duration::from_secs(600));
        for n in 20..24 {
            let (id, options) = (job(n), AdmitOptions::default());
            let group = (n % 2 == 0).then(|| lane(3));
            self.call(Schedule { id, payload: b"p", group, when, options, durable: false }).await;
        }
        self.call(LaneLimit { group: lane(2), limit: 1 }).await;
        self.call(LaneWeight { group: lane(0), weight: 3 }).await;
        self.call(LaneWeight { group: lane(9), weight: 5 }).await;
        for n in 0..21 {
            let (id, group, options) = (job(30 + n), lane(n % 3), AdmitOptions::default());
            self.call(LaneEnqueue { id, payload: b"p", group, options, durable: false }).await;
        }
        for _ in 0..6 {
            self.call(LaneClaim { lease: LEASE, ticket: None }).await.unwrap();
        }
        self.call(LanePause { group: lane(1) }).await;
        self.call(LanePause { group: lane(8) }).await;
    }
}

#[tokio::test]
async fn only_a_paused_queue_without_leases_goes() {
    let ground = Ground::new().await;
    assert_eq!(ground.step(false, 10).await, NONE_LEFT);
    ground.fill().await;
    let before = ground.left().await;
    for force in [false, true] {
        let refused = ground.fenced.call(&ground.keys, &Obliterate { force, limit: 10 }).await;
        assert_eq!(refused.unwrap_err().refusal(), Some(&RefusalClass::State));
    }
    assert_eq!(ground.left().await, before);
    ground.call(QueuePause).await;
    let before = ground.left().await;
    let refused = ground.fenced.call(&ground.keys, &Obliterate { force: false, limit: 10 }).await;
    assert_eq!(refused.unwrap_err().refusal(), Some(&RefusalClass::State));
    assert_eq!(ground.left().await, before);
    ground.healthy().await;
}

#[tokio::test]
async fn nothing_is_left_whatever_the_size_of_a_step() {
    for limit in [1, 7, 1000] {
        let ground = Ground::new().await;
        ground.fill().await;
        ground.call(QueuePause).await;
        let (removed, steps) = ground.obliterate(true, limit).await;
        assert_eq!(removed, 40, "{limit}");
        assert!(steps <= 41 + 2, "{steps} steps of {limit}");
        assert_eq!(ground.left().await, Snapshot::new(), "{limit}");
        // A resend after a lost reply.
        assert_eq!(ground.step(true, limit).await, NONE_LEFT);
        ground.healthy().await;
    }
}

#[tokio::test]
async fn after_each_step_the_queue_is_sound() {
    let ground = Ground::new().await;
    ground.fill().await;
    ground.call(QueuePause).await;
    loop {
        assert_eq!(checkup(&ground.fenced, &ground.keys, false).await, []);
        if !ground.step(true, 3).await.left {
            break;
        }
    }
}

#[tokio::test]
async fn a_queue_drained_of_its_leases_goes_without_force() {
    let ground = Ground::new().await;
    let options = AdmitOptions::default();
    let (id, group, payload) = (job(1), lane(1), &b"p"[..]);
    ground.call(LaneEnqueue { id, payload, group, options, durable: false }).await;
    let held = ground.call(LaneClaim { lease: LEASE, ticket: None }).await.unwrap();
    ground.call(QueuePause).await;
    let refused = ground.fenced.call(&ground.keys, &Obliterate { force: false, limit: 10 }).await;
    assert!(refused.is_err());
    let complete = Complete { id, token: held.token, ticket: None };
    assert_eq!(ground.call(complete).await, Completed::Done);
    assert_eq!(ground.step(false, 10).await, NONE_LEFT);
    assert_eq!(ground.left().await, Snapshot::new());
    ground.healthy().await;
}

#[tokio::test]
async fn a_holder_of_a_forced_end_learns_at_its_settle() {
    let ground = Ground::new().await;
    let (id, payload, options) = (job(1), &b"p"[..], AdmitOptions::default());
    ground.call(Enqueue { id, payload, options, durable: false }).await;
    let held = ground.call(Claim { lease: LEASE, ticket: None }).await.unwrap();
    ground.call(QueuePause).await;
    assert_eq!(ground.step(true, 10).await, Obliterated { removed: 1, left: false });
    let complete = Complete { id, token: held.token, ticket: None };
    assert_eq!(ground.call(complete).await, Completed::NoRow);
    assert_eq!(ground.left().await, Snapshot::new());
    ground.healthy().await;
}

/// Producers go on all the while: what comes before the last step goes with the queue, what comes
/// after it is a new queue's, whole and not paused.
#[tokio::test]
async fn a_producer_that_goes_on_loses_nothing_halfway() {
    let ground = Ground::new().await;
    ground.fill().await;
    ground.call(QueuePause).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut producers = Vec::new();
    for p in 0..3 {
        let (fenced, keys, over) = (ground.fenced.clone(), ground.keys.clone(), Arc::clone(&over));
        producers.push(tokio::spawn(async move {
            let mut n = 0;
            while !over.load(Ordering::SeqCst) {
                let (id, payload, options) =
                    (job(1000 + 100_000 * p + n), &b"p"[..], AdmitOptions::default());
                if n % 2 == 0 {
                    let call = Enqueue { id, payload, options, durable: false };
                    fenced.call(&keys, &call).await.unwrap();
                } else {
                    let group = lane(n % 5);
                    let call = LaneEnqueue { id, payload, group, options, durable: false };
                    fenced.call(&keys, &call).await.unwrap();
                }
                n += 1;
            }
            n
        }));
    }
    let (removed, _) = support::soon(ground.obliterate(true, 50)).await;
    assert!(removed >= 40, "{removed}");
    over.store(true, Ordering::SeqCst);
    let mut produced = 40;
    for producer in producers {
        produced += producer.await.unwrap();
    }
    // Each job went with the old queue or is in the new one.
    let rows = ground.left().await.keys().filter(|key| key.contains(":job:")).count() as u64;
    assert_eq!(removed + rows, produced);
    assert_eq!(checkup(&ground.fenced, &ground.keys, false).await, []);
    let paused = ask(ground.fenced.connection(), &["HGET", ground.keys.meta(), "paused"]).await;
    assert_eq!(paused.as_bytes(), None);
}

/// Lanes of the ring and parked ones are the last that hold jobs, and a step ends amid them.
#[tokio::test]
async fn lanes_go_in_steps_too() {
    for (limit, parked) in [(1, vec![3, 4]), (3, vec![]), (4, vec![3, 4]), (9, vec![])] {
        let ground = Ground::new().await;
        for n in 0..10 {
            let (id, group, options) = (job(n), lane(n / 2), AdmitOptions::default());
            ground.call(LaneEnqueue { id, payload: b"p", group, options, durable: false }).await;
        }
        for g in parked {
            ground.call(LanePause { group: lane(g) }).await;
        }
        ground.call(QueuePause).await;
        let (removed, _) = ground.obliterate(false, limit).await;
        assert_eq!((removed, ground.left().await), (10, Snapshot::new()), "{limit}");
        ground.healthy().await;
    }
}

/// A lane that a torn ring names twice doesn't take those between its places along.
#[tokio::test]
async fn a_ring_that_names_a_lane_twice_loses_no_other() {
    let ground = Ground::new().await;
    for (g, n) in (0..11).map(|n| (u64::from(n > 0), n)) {
        let (id, group, options) = (job(n), lane(g), AdmitOptions::default());
        ground.call(LaneEnqueue { id, payload: b"p", group, options, durable: false }).await;
    }
    ask(ground.fenced.connection(), &["RPUSH", ground.keys.ring(), lane(0).as_str()]).await;
    ground.call(QueuePause).await;
    assert_eq!(ground.step(false, 5).await, Obliterated { removed: 5, left: true });
    let ring = ask(ground.fenced.connection(), &["LINDEX", ground.keys.ring(), "0"]).await;
    assert_eq!(ring.as_bytes().unwrap()[..], lane(1).as_bytes()[..]);
    assert_eq!(ground.obliterate(false, 5).await.0, 6);
    assert_eq!(ground.left().await, Snapshot::new());
    ground.healthy().await;
}

#[tokio::test]
async fn torn_pasts_stop_no_step() {
    let ground = Ground::new().await;
    let connection = ground.fenced.connection();
    let (ring, gactive) = (ground.keys.ring(), ground.keys.gactive());
    for limit in [1, 2, 3, 5, 1000] {
        ground.fill().await;
        ground.call(QueuePause).await;
        for n in 30..50 {
            ask(connection, &["DEL", &ground.keys.job(&job(n))]).await;
        }
        for _ in 0..5 {
            ask(connection, &["LPUSH", ring, lane(7).as_str(), lane(0).as_str()]).await;
            ask(connection, &["RPUSH", ring, lane(0).as_str(), "no lane"]).await;
        }
        for n in 60..66 {
            let (id, group, options) = (job(n), lane(7), AdmitOptions::default());
            ground.call(LaneEnqueue { id, payload: b"p", group, options, durable: false }).await;
        }
        ask(connection, &["HSET", gactive, lane(2).as_str(), "9", lane(6).as_str(), "0"]).await;
        ask(connection, &["ZADD", ground.keys.pending(), "0", "no id"]).await;
        ask(connection, &["ZADD", ground.keys.dead(), "0", job(20).as_str()]).await;
        support::soon(ground.obliterate(true, limit)).await;
        assert_eq!(ground.left().await, Snapshot::new(), "{limit}");
    }
    ground.healthy().await;
}
