//! Torn pasts: keys of a wrong type, rows that vanished. No script fails between two of its writes,
//! and none makes a row out of nothing.

mod support;

use std::time::Duration;

use emq_keys::QueueKeys;
use emq_scripts::{
    AdmitOptions, Bundle, Claim, Claimed, Contract, Drain, Enqueue, Fenced, LaneClaim, LaneEnqueue,
    LaneLimit, Promote, Purge, Reap, Reaped, Retry, Schedule, ScriptCall, When,
};
use emq_testkit::Valkey;
use emq_wire::{Cmd, Reply};
use support::keyspace::{Snapshot, snapshot};
use support::samples::{self, Visit};
use support::{ask, bundle_to_judge, fenced, job, lane, queue};

const LEASE: Duration = Duration::from_secs(60);
/// The ticket that the samples settle with.
const TICKET: Option<&str> = Some("me.1");

/// Where the samples' job sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Pending,
    /// In the lane whose ceiling it fills.
    Active,
    /// As `Active`, its lease expired.
    Expired,
    Due,
    Dead,
}

const PLACES: [Place; 6] =
    [Place::Nowhere, Place::Pending, Place::Active, Place::Expired, Place::Due, Place::Dead];

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

    async fn call<C: ScriptCall>(&self, call: &C) -> C::Reply {
        self.fenced.call(&self.keys, call).await.unwrap()
    }

    async fn ask(&self, words: &[&str]) -> Reply {
        ask(self.fenced.connection(), words).await
    }

    fn key(&self, fact: &str) -> String {
        format!("{}{fact}", self.keys.base())
    }

    async fn snapshot(&self) -> Snapshot {
        snapshot(self.fenced.connection(), "emq:{orders}:*").await
    }

    /// The queue's keys.
    async fn left(&self) -> Vec<String> {
        self.snapshot().await.into_keys().collect()
    }

    async fn enqueue(&self, n: u64) {
        let options = AdmitOptions::default();
        self.call(&Enqueue { id: job(n), payload: b"p", options, durable: false }).await;
    }

    async fn lane_enqueue(&self, n: u64) {
        let options = AdmitOptions { unique: Some("key"), ..AdmitOptions::default() };
        let options = if n == 1 { options } else { AdmitOptions::default() };
        let (id, group) = (job(n), lane(1));
        self.call(&LaneEnqueue { id, payload: b"p", group, options, durable: false }).await;
    }

    async fn lane_claim(&self) -> Claimed {
        self.call(&LaneClaim { lease: LEASE, ticket: TICKET }).await.unwrap()
    }

    /// A fresh queue: the samples' job in its place, a flat job and one more in its lane beside it,
    /// and no wake token, so that whoever may push one does.
    async fn prepare(&self, place: Place) {
        self.ask(&["FLUSHDB"]).await;
        self.enqueue(50).await;
        match place {
            Place::Nowhere => {}
            Place::Due => {
                let options = AdmitOptions { unique: Some("key"), ..AdmitOptions::default() };
                let (group, when) = (Some(lane(1)), When::In(LEASE));
                let (id, payload, durable) = (job(1), b"p", false);
                self.call(&Schedule { id, payload, group, when, options, durable }).await;
                self.ask(&["ZADD", &self.key("schedule"), "1", job(1).as_str()]).await;
            }
            _ => self.lane_enqueue(1).await,
        }
        if matches!(place, Place::Active | Place::Expired | Place::Dead) {
            let claimed = self.lane_claim().await;
            if place == Place::Expired {
                self.ask(&["ZADD", &self.key("active"), "1", claimed.id.as_str()]).await;
            }
            if place == Place::Dead {
                self.call(&bury(&claimed)).await;
            }
        }
        self.lane_enqueue(51).await;
        if matches!(place, Place::Active | Place::Expired) {
            self.call(&LaneLimit { group: lane(1), limit: 1 }).await;
        }
        self.ask(&["DEL", &self.key("wake")]).await;
    }
}

fn bury(claimed: &Claimed) -> Retry<'static> {
    Retry {
        id: claimed.id,
        token: claimed.token,
        ticket: TICKET,
        delay: Duration::ZERO,
        max_attempts: 1,
        error: "why",
        force_dead: true,
    }
}

struct Encoded {
    keys: QueueKeys,
    calls: Vec<(Contract, Cmd)>,
}

impl Visit for Encoded {
    fn visit<C: ScriptCall>(&mut self, call: &C) {
        let bundle = bundle_to_judge().unwrap_or_else(Bundle::embedded);
        self.calls.push((C::CONTRACT, call.encode(bundle.script(C::SCRIPT), &self.keys)));
    }
}

/// Every sample on a queue whose key of one kind is a string: what fails has written nothing.
async fn no_half_made_transition(place: Place) {
    let ground = Ground::new().await;
    let mut encoded = Encoded { keys: ground.keys.clone(), calls: Vec::new() };
    samples::each(&mut encoded);
    let mut failed = 0;
    for (contract, cmd) in encoded.calls {
        let mut targets: Vec<String> =
            contract.keys.iter().map(|key| key.to_string().replace("{q}", "{orders}")).collect();
        targets.push(ground.key(&format!("job:{}", job(1))));
        targets.push(ground.key(&format!("g:{}:pending", lane(1))));
        for target in targets {
            ground.prepare(place).await;
            ground.ask(&["SET", &target, "torn"]).await;
            let before = ground.snapshot().await;
            let reply = ground.fenced.connection().command(cmd.clone()).await.unwrap();
            if let Reply::Error(error) = reply {
                let (script, after) = (contract.script, ground.snapshot().await);
                assert_eq!(before, after, "{script} at {place:?}, {target} torn: {error:?}");
                failed += 1;
            }
        }
    }
    assert!(failed > 20, "only {failed} calls met the torn key");
}

#[tokio::test]
async fn nothing_is_half_made_when_a_key_has_a_wrong_type() {
    let places = PLACES.map(|place| tokio::spawn(no_half_made_transition(place)));
    for place in places {
        place.await.unwrap();
    }
}

#[tokio::test]
async fn an_id_without_a_row_is_dropped_and_the_next_one_served() {
    let ground = Ground::new().await;
    for n in 1..=4 {
        ground.enqueue(n).await;
        ground.lane_enqueue(10 + n).await;
    }
    for n in [1, 2, 11, 12] {
        ground.ask(&["DEL", &ground.keys.job(&job(n))]).await;
    }
    let claimed = ground.call(&Claim { lease: LEASE, ticket: TICKET }).await.unwrap();
    assert_eq!(claimed.id, job(3));
    assert_eq!(ground.lane_claim().await.id, job(13));
    for n in [14, 4] {
        ground.ask(&["DEL", &ground.keys.job(&job(n))]).await;
    }
    assert_eq!(ground.call(&Claim { lease: LEASE, ticket: TICKET }).await, None);
    assert_eq!(ground.call(&LaneClaim { lease: LEASE, ticket: TICKET }).await, None);
    let mut expected = ["active", "gactive", "meta", "wake"].map(|fact| ground.key(fact)).to_vec();
    expected.extend([3, 13].map(|n| ground.keys.job(&job(n)).to_string()));
    expected.sort();
    assert_eq!(ground.left().await, expected);
}

#[tokio::test]
async fn timers_and_operators_drop_ids_without_a_row() {
    let ground = Ground::new().await;
    for n in 1..=6 {
        ground.enqueue(n).await;
    }
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(ground.call(&Claim { lease: LEASE, ticket: TICKET }).await.unwrap());
    }
    for claimed in &ids[..2] {
        ground.call(&bury(claimed)).await;
        ground.ask(&["ZADD", &ground.key("schedule"), "1", claimed.id.as_str()]).await;
    }
    for claimed in &ids[2..] {
        ground.ask(&["ZADD", &ground.key("active"), "1", claimed.id.as_str()]).await;
    }
    for n in 1..=6 {
        ground.ask(&["DEL", &ground.keys.job(&job(n))]).await;
    }
    assert_eq!(ground.call(&Promote { limit: 200 }).await, 0);
    assert_eq!(ground.call(&Reap { limit: 200, lost_cap: 1 }).await, Reaped::default());
    assert_eq!(ground.call(&Purge { before: None, limit: 1000 }).await, 2);
    assert_eq!(ground.call(&Drain { scheduled: true, limit: 1000 }).await, 2);
    ground.ask(&["DEL", &ground.key("wake")]).await;
    assert_eq!(ground.snapshot().await, Snapshot::new());
}

#[tokio::test]
async fn a_row_that_says_it_sits_elsewhere_is_not_moved() {
    let ground = Ground::new().await;
    ground.enqueue(1).await;
    let held = ground.call(&Claim { lease: LEASE, ticket: TICKET }).await.unwrap();
    for (fact, score) in [("pending", "0"), ("schedule", "1"), ("dead", "0")] {
        ground.ask(&["ZADD", &ground.key(fact), score, held.id.as_str()]).await;
    }
    assert_eq!(ground.call(&Claim { lease: LEASE, ticket: TICKET }).await, None);
    assert_eq!(ground.call(&Promote { limit: 200 }).await, 0);
    ground.call(&Purge { before: None, limit: 1000 }).await;
    let deadline = ground.ask(&["ZSCORE", &ground.key("active"), held.id.as_str()]).await;
    assert!(deadline.as_bytes().is_some());
    let row = ground.keys.job(&held.id).to_string();
    assert_eq!(ground.left().await, [ground.key("active"), row, ground.key("wake")]);
}
