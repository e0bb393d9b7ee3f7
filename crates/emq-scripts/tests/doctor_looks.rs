//! The doctor's script itself: who wakes for what is mended, how a wake counts as lost, and where a
//! call stops.

mod support;

use std::time::Duration;

use bytes::Bytes;
use emq_keys::{BrandedId, QueueKeys};
use emq_scripts::{
    AdmitOptions, Claim, Diagnosis, Doctor, Doctored, Enqueue, FenceOptions, Fenced, Finding,
    LaneClaim, LaneEnqueue, LaneLimit, Look, Name, Next, Schedule, ScriptCall, Seat, Standing,
    When,
};
use emq_testkit::Valkey;
use emq_wire::Reply;
use support::{ask, fenced, job, lane, queue};

const LEASE: Duration = Duration::from_secs(60);

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

    async fn ask(&self, words: &[&str]) -> Reply {
        ask(self.fenced.connection(), words).await
    }

    async fn flat(&self, n: u64) {
        let (id, options) = (job(n), AdmitOptions::default());
        self.call(Enqueue { id, payload: b"p", options, durable: false }).await;
    }

    async fn laned(&self, g: u64, n: u64) {
        let (id, group, options) = (job(n), lane(g), AdmitOptions::default());
        self.call(LaneEnqueue { id, payload: b"p", group, options, durable: false }).await;
    }

    async fn mend(&self, look: Look<'_>) -> Doctored {
        self.call(Doctor { look, repair: true }).await
    }

    async fn mend_job(&self, n: u64) -> Vec<Diagnosis> {
        let seats = [Seat { lane: None, id: raw(job(n)) }];
        let doctored = self.mend(Look::Jobs(&seats)).await;
        assert_eq!(doctored.next, Next::Examined(1));
        assert!(doctored.diagnoses.iter().all(|seen| seen.mended), "{doctored:?}");
        doctored.diagnoses
    }

    /// Takes every wake token, and says how many there were.
    async fn wakes(&self) -> i64 {
        let length = self.ask(&["LLEN", self.keys.wake()]).await;
        self.ask(&["DEL", self.keys.wake()]).await;
        length.as_int().unwrap()
    }

    async fn queue_look(&self, mark: Option<&[u8]>) -> (Bytes, Vec<Diagnosis>) {
        let doctored = self.call(Doctor { look: Look::Queue { mark }, repair: false }).await;
        match doctored.next {
            Next::Mark(mark) => (mark, doctored.diagnoses),
            next => panic!("{next:?}"),
        }
    }
}

fn raw(id: BrandedId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

#[tokio::test]
async fn a_job_that_is_mended_to_run_wakes_someone() {
    let ground = Ground::new().await;
    // Flat.
    ground.flat(1).await;
    ground.ask(&["DEL", ground.keys.pending(), ground.keys.wake()]).await;
    assert_eq!((ground.mend_job(1).await.len(), ground.wakes().await), (1, 1));
    // The first of a lane, which enters the ring; then the second.
    for n in [10, 11] {
        ground.laned(1, n).await;
    }
    let lane_key = ground.keys.lane(&lane(1));
    ground.ask(&["DEL", &lane_key, ground.keys.ring(), ground.keys.wake()]).await;
    for n in [10, 11] {
        assert_eq!((ground.mend_job(n).await.len(), ground.wakes().await), (1, 1), "{n}");
    }
    let ring = ground.ask(&["LRANGE", ground.keys.ring(), "0", "-1"]).await;
    assert_eq!(ring.as_array().unwrap().len(), 1);
    // One that can't be served wakes nobody.
    ground.call(LaneLimit { group: lane(1), limit: 1 }).await;
    ground.call(LaneClaim { lease: LEASE, ticket: None }).await.unwrap();
    ground.ask(&["DEL", &lane_key, ground.keys.wake()]).await;
    assert_eq!((ground.mend_job(11).await.len(), ground.wakes().await), (1, 0));
    // A scheduled one, whose time is lost, is due: someone sets a timer.
    let (id, when, options) = (job(20), When::In(LEASE), AdmitOptions::default());
    ground.call(Schedule { id, payload: b"p", group: None, when, options, durable: false }).await;
    ground.ask(&["DEL", ground.keys.schedule(), ground.keys.wake()]).await;
    assert_eq!((ground.mend_job(20).await.len(), ground.wakes().await), (1, 1));
    // A dead one and a leased one run by themselves.
    ground.call(Claim { lease: LEASE, ticket: None }).await.unwrap();
    ground.ask(&["DEL", ground.keys.active(), ground.keys.wake()]).await;
    assert_eq!((ground.mend_job(1).await.len(), ground.wakes().await), (1, 0));
}

#[tokio::test]
async fn a_lane_that_is_mended_into_the_ring_wakes_someone() {
    let ground = Ground::new().await;
    ground.laned(1, 10).await;
    ground.ask(&["DEL", ground.keys.ring(), ground.keys.wake()]).await;
    let standings = [Standing { lane: raw(lane(1)), seen: 0 }];
    let doctored = ground.mend(Look::Lanes(&standings)).await;
    assert_eq!((doctored.diagnoses.len(), ground.wakes().await), (1, 1));

    // A count that was too high kept it out.
    ground.call(LaneLimit { group: lane(1), limit: 1 }).await;
    ground.ask(&["HSET", ground.keys.gactive(), lane(1).as_str(), "1"]).await;
    ground.ask(&["DEL", ground.keys.ring()]).await;
    let doctored = ground.mend(Look::Leases).await;
    assert_eq!((doctored.next, doctored.diagnoses.len()), (Next::Again(false), 1));
    assert_eq!(ground.wakes().await, 1);
    assert!(ground.call(LaneClaim { lease: LEASE, ticket: None }).await.is_some());
}

#[tokio::test]
async fn a_lane_that_is_mended_out_of_the_ring_has_no_share_to_go_on_with() {
    let ground = Ground::new().await;
    ground.laned(1, 10).await;
    let spent = format!("{}|1", lane(1));
    ground.ask(&["HSET", ground.keys.meta(), "spent", &spent]).await;
    ground.ask(&["DEL", &ground.keys.job(&job(10))]).await;
    let seats = [Seat { lane: Some(lane(1)), id: raw(job(10)) }];
    assert_eq!(ground.mend(Look::Jobs(&seats)).await.diagnoses.len(), 1);
    let left = ground.ask(&["EXISTS", ground.keys.meta(), ground.keys.ring()]).await;
    assert_eq!(left.as_int(), Some(0));
}

#[tokio::test]
async fn a_wake_is_lost_only_when_nothing_moved_between_two_looks() {
    let ground = Ground::new().await;
    assert_eq!(ground.queue_look(None).await, (Bytes::new(), vec![]));
    for n in 1..4 {
        ground.flat(n).await;
    }
    assert_eq!(ground.queue_look(None).await, (Bytes::new(), vec![]));
    // A worker took the token, and is on its way.
    ground.wakes().await;
    let (first, found) = ground.queue_look(None).await;
    assert!(!first.is_empty() && found.is_empty(), "{found:?}");
    ground.call(Claim { lease: LEASE, ticket: None }).await.unwrap();
    ground.wakes().await;
    let (second, found) = ground.queue_look(Some(&first)).await;
    assert!(second != first && !second.is_empty() && found.is_empty(), "{found:?}");
    // This time it never came.
    let (third, found) = ground.queue_look(Some(&second)).await;
    let missing = Diagnosis { finding: Finding::WakeMissing, mended: false };
    assert_eq!((third, found), (second.clone(), vec![missing]));
    let mended = ground.mend(Look::Queue { mark: Some(&second) }).await.diagnoses;
    assert_eq!(mended, [Diagnosis { finding: Finding::WakeMissing, mended: true }]);
    assert_eq!(ground.queue_look(Some(&second)).await, (Bytes::new(), vec![]));
    // Lanes have a head as well.
    ground.wakes().await;
    ground.ask(&["DEL", ground.keys.pending()]).await;
    for n in 10..12 {
        ground.laned(1, n).await;
    }
    ground.wakes().await;
    let (first, _) = ground.queue_look(None).await;
    ground.call(LaneClaim { lease: LEASE, ticket: None }).await.unwrap();
    ground.wakes().await;
    let (second, found) = ground.queue_look(Some(&first)).await;
    assert!(second != first && found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn subjects_that_went_meanwhile_are_no_fault() {
    let ground = Ground::new().await;
    let seats = [Seat { lane: Some(lane(1)), id: raw(job(1)) }];
    let standings = [0, 1, 2].map(|seen| Standing { lane: raw(lane(1)), seen });
    let keys = [Bytes::from_static(b"key")];
    for (look, n) in
        [(Look::Jobs(&seats), 1), (Look::Lanes(&standings), 3), (Look::Unique(&keys), 1)]
    {
        let expected = Doctored { next: Next::Examined(n), diagnoses: vec![] };
        assert_eq!(ground.mend(look).await, expected);
    }
    assert_eq!(ground.mend(Look::Jobs(&[])).await.next, Next::Examined(0));
}

/// A walk of a long ring is dear: the call leaves the other subjects to the next.
#[tokio::test]
async fn a_long_ring_is_walked_a_few_times_a_call() {
    let ground = Ground::new().await;
    let lanes: Vec<String> = (1000..91_000).map(|n| lane(n).to_string()).collect();
    let mut words = vec!["RPUSH", ground.keys.ring()];
    words.extend(lanes.iter().map(String::as_str));
    ground.ask(&words).await;
    // None of them has jobs: each is wrongly there, and both found and mended by a walk.
    let standings: Vec<Standing> =
        (1000..1010).map(|n| Standing { lane: raw(lane(n)), seen: 1 }).collect();
    let look = ground.call(Doctor { look: Look::Lanes(&standings), repair: false }).await;
    assert_eq!((look.next, look.diagnoses.len()), (Next::Examined(3), 3));
    let mended = ground.mend(Look::Lanes(&standings)).await;
    assert_eq!((mended.next, mended.diagnoses.len()), (Next::Examined(2), 2));
    let length = ground.ask(&["LLEN", ground.keys.ring()]).await;
    assert_eq!(length.as_int(), Some(89_998));
    // Lanes that are seen as often as they should be take no walk.
    let standings: Vec<Standing> =
        (0..200).map(|n| Standing { lane: raw(lane(n)), seen: 0 }).collect();
    let look = ground.call(Doctor { look: Look::Lanes(&standings), repair: false }).await;
    assert_eq!((look.next, look.diagnoses.len()), (Next::Examined(200), 0));
}

#[tokio::test]
async fn more_leases_than_can_be_counted_at_once_are_left_alone() {
    let ground = Ground::new().await;
    let ids: Vec<String> = (0..4001).map(|n| job(n).to_string()).collect();
    let mut words = vec!["ZADD", ground.keys.active()];
    words.extend(ids.iter().flat_map(|id| ["9", id]));
    ground.ask(&words).await;
    ground.ask(&["HSET", ground.keys.gactive(), lane(1).as_str(), "7"]).await;
    let uncounted = Finding::LeasesUncounted { leases: 4001 };
    let found = ground.mend(Look::Leases).await.diagnoses;
    assert!(!uncounted.is_fault());
    assert_eq!(found, [Diagnosis { finding: uncounted, mended: false }]);
    ground.ask(&["ZREM", ground.keys.active(), job(4000).as_str()]).await;
    let lane: Name = lane(1).into();
    let count = Finding::LeaseCount { lane, expected: 0, found: Name::new("7") };
    let found = ground.mend(Look::Leases).await.diagnoses;
    assert_eq!(found, [Diagnosis { finding: count, mended: true }]);
}

/// Many counts are mended in as many calls as it takes.
#[tokio::test]
async fn counts_without_leases_are_mended_to_the_last() {
    let ground = Ground::new().await;
    let lanes: Vec<String> = (0..2500).map(|n| lane(n).to_string()).collect();
    let mut words = vec!["HSET", ground.keys.gactive()];
    words.extend(lanes.iter().flat_map(|lane| [lane, "0"]));
    ground.ask(&words).await;
    let mut mended = 0;
    loop {
        let doctored = ground.mend(Look::Leases).await;
        mended += doctored.diagnoses.len();
        assert!(doctored.diagnoses.len() <= 1000);
        if doctored.next == Next::Again(false) {
            break;
        }
    }
    let left = ground.ask(&["EXISTS", ground.keys.gactive()]).await;
    assert_eq!((mended, left.as_int()), (2500, Some(0)));
}

/// A user with rights on the bus's keys alone is denied the quick way to read many rows.
#[tokio::test]
async fn leases_are_counted_without_rights_on_every_key() {
    let rules = "on >secret ~emq:* ~{emq}:* +@all";
    let valkey = Valkey::builder().acl_user("ann", rules).start().unwrap();
    let config = valkey.url_as("ann", "secret").parse().unwrap();
    let fenced = Fenced::connect(config, FenceOptions::default()).await.unwrap();
    let ground = Ground { _valkey: valkey, fenced, keys: queue("orders") };
    for (g, n) in [(1, 10), (1, 11), (2, 20), (3, 30)] {
        ground.laned(g, n).await;
    }
    for _ in 0..4 {
        ground.call(LaneClaim { lease: LEASE, ticket: None }).await.unwrap();
    }
    assert_eq!(ground.mend(Look::Leases).await.diagnoses, []);
    ground.ask(&["DEL", &ground.keys.job(&job(11))]).await;
    ground.ask(&["HSET", ground.keys.gactive(), lane(2).as_str(), "5"]).await;
    let count = |g, found: &'static str| Diagnosis {
        finding: Finding::LeaseCount {
            lane: lane(g).into(),
            expected: 1,
            found: Name::new(found.as_bytes()),
        },
        mended: true,
    };
    let mut found = ground.mend(Look::Leases).await.diagnoses;
    found.sort_by_key(|seen| seen.finding.to_string());
    assert_eq!(found, [count(1, "2"), count(2, "5")]);
    assert_eq!(ground.mend(Look::Leases).await.diagnoses, []);
}
