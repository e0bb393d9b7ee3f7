//! A job changes lanes in every state, and a backlog follows it: both rings, counts and wakes stay
//! true.

mod support;

use std::time::Duration;

use emq_keys::{BrandedId, QueueKeys};
use emq_scripts::{
    AdmitOptions, Claim, Claimed, Complete, Completed, Enqueue, Fenced, LaneClaim, LaneEnqueue,
    LaneLimit, LanePause, LaneReassign, LaneReassignBacklog, LaneWeight, Promote, Reassigned,
    RefusalClass, Release, Requeue, Retry, Schedule, ScriptCall, When,
};
use emq_testkit::Valkey;
use support::checkup::checkup;
use support::{ask, fenced, job, lane, queue};

const LEASE: Duration = Duration::from_secs(60);
const OPTIONS: AdmitOptions<'static> =
    AdmitOptions { kind: None, headers: None, max_attempts: None, unique: None };

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

    async fn flat(&self, n: u64) {
        self.call(Enqueue { id: job(n), payload: b"p", options: OPTIONS, durable: false }).await;
    }

    async fn laned(&self, g: u64, n: u64) {
        let (id, group) = (job(n), lane(g));
        let options = OPTIONS;
        self.call(LaneEnqueue { id, payload: b"p", group, options, durable: false }).await;
    }

    async fn lane_claim(&self) -> Option<Claimed> {
        self.call(LaneClaim { lease: LEASE, ticket: None }).await
    }

    async fn to(&self, n: u64, to: Option<u64>) -> Reassigned {
        self.call(LaneReassign { id: job(n), to: to.map(lane) }).await
    }

    async fn backlog(&self, from: Option<u64>, to: Option<u64>, limit: u32) -> u64 {
        let (from, to) = (from.map(lane), to.map(lane));
        self.call(LaneReassignBacklog { from, to, limit }).await
    }

    /// The ring, from its head, as the numbers of its lanes.
    async fn ring(&self) -> Vec<u64> {
        let ring = ask(self.fenced.connection(), &["LRANGE", self.keys.ring(), "0", "-1"]).await;
        let lanes = ring.as_array().unwrap().iter().map(|id| id.as_bytes().unwrap().to_vec());
        lanes.map(|id| (0..10).find(|g| lane(*g).as_bytes()[..] == id[..]).unwrap()).collect()
    }

    /// Takes every wake token, and says how many there were.
    async fn wakes(&self) -> i64 {
        let length = ask(self.fenced.connection(), &["LLEN", self.keys.wake()]).await;
        ask(self.fenced.connection(), &["DEL", self.keys.wake()]).await;
        length.as_int().unwrap()
    }

    async fn members(&self, set: &str) -> Vec<u64> {
        let ids = ask(self.fenced.connection(), &["ZRANGE", set, "0", "-1"]).await;
        let ids = ids.as_array().unwrap().iter().map(|id| id.as_bytes().unwrap().to_vec());
        ids.map(|id| (0..500).find(|n| job(*n).as_bytes()[..] == id[..]).unwrap()).collect()
    }

    async fn in_lane(&self, g: u64) -> Vec<u64> {
        self.members(&self.keys.lane(&lane(g))).await
    }

    async fn group(&self, n: u64) -> Option<BrandedId> {
        let row = self.keys.job(&job(n));
        let group = ask(self.fenced.connection(), &["HGET", &row, "group"]).await;
        group.as_bytes().map(|id| BrandedId::parse(id).unwrap())
    }

    /// Whatever was done, nothing is out of order. The tokens that a test took are no fault of it.
    async fn sound(&self) {
        ask(self.fenced.connection(), &["RPUSH", self.keys.wake(), "1"]).await;
        assert_eq!(checkup(&self.fenced, &self.keys, false).await, []);
    }
}

#[tokio::test]
async fn a_pending_job_moves_between_lanes_and_the_flat_set() {
    let ground = Ground::new().await;
    ground.laned(1, 10).await;
    ground.laned(1, 11).await;
    ground.wakes().await;

    // It was runnable before: nobody has to wake for it.
    assert_eq!(ground.to(10, Some(2)).await, Reassigned::Moved);
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![1, 2], 0));
    assert_eq!((ground.in_lane(1).await, ground.in_lane(2).await), (vec![11], vec![10]));
    assert_eq!(ground.group(10).await, Some(lane(2)));

    // The last of a lane takes the lane out of the ring.
    assert_eq!(ground.to(11, Some(2)).await, Reassigned::Moved);
    assert_eq!((ground.ring().await, ground.in_lane(2).await), (vec![2], vec![10, 11]));

    assert_eq!(ground.to(10, None).await, Reassigned::Moved);
    assert_eq!(
        (ground.members(ground.keys.pending()).await, ground.group(10).await),
        (vec![10], None)
    );
    assert_eq!(ground.to(10, None).await, Reassigned::Already);
    assert_eq!(ground.to(11, Some(2)).await, Reassigned::Already);
    assert_eq!(ground.to(12, Some(2)).await, Reassigned::NoRow);
    ground.sound().await;

    assert_eq!(ground.to(10, Some(3)).await, Reassigned::Moved);
    assert_eq!(ground.ring().await, [2, 3]);
    assert_eq!(ground.lane_claim().await.unwrap().id, job(11));
    assert_eq!(ground.lane_claim().await.unwrap().group, Some(lane(3)));
    ground.sound().await;
}

#[tokio::test]
async fn someone_wakes_only_when_the_job_becomes_runnable() {
    let ground = Ground::new().await;
    for g in [1, 2] {
        ground.call(LanePause { group: lane(g) }).await;
        ground.laned(g, 10 * g).await;
        ground.laned(g, 10 * g + 1).await;
    }
    ground.wakes().await;

    // From one parked lane to another: still nothing runs.
    ground.to(10, Some(2)).await;
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![], 0));
    // Out of it into one that is served, whose first job it is.
    ground.to(10, Some(3)).await;
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![3], 1));
    // The second doesn't enter the ring again, and wakes all the same.
    ground.to(11, Some(3)).await;
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![3], 1));
    // Into the flat set.
    ground.to(20, None).await;
    assert_eq!(ground.wakes().await, 1);
    // A token that stands is enough.
    ask(ground.fenced.connection(), &["RPUSH", ground.keys.wake(), "1"]).await;
    ground.to(21, None).await;
    assert_eq!(ground.wakes().await, 1);
    // And back where nothing runs.
    ground.to(10, Some(1)).await;
    ground.to(11, Some(1)).await;
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![], 0));
    ground.sound().await;
}

#[tokio::test]
async fn a_lane_at_its_ceiling_takes_a_job_in_and_stays_out_of_the_ring() {
    let ground = Ground::new().await;
    ground.call(LaneLimit { group: lane(1), limit: 1 }).await;
    ground.laned(1, 10).await;
    let held = ground.lane_claim().await.unwrap();
    ground.flat(20).await;
    ground.wakes().await;
    ground.to(20, Some(1)).await;
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![], 0));
    ground.sound().await;
    ground.wakes().await;
    let complete = Complete { id: held.id, token: held.token, ticket: None };
    assert_eq!(ground.call(complete).await, Completed::Done);
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![1], 1));
    // Moved away from a lane at its ceiling, it becomes runnable.
    ground.laned(1, 21).await;
    ground.lane_claim().await.unwrap();
    ground.wakes().await;
    ground.to(21, Some(2)).await;
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![2], 1));
    ground.sound().await;
}

#[tokio::test]
async fn a_leased_job_stays_and_so_does_its_count() {
    let ground = Ground::new().await;
    ground.laned(1, 10).await;
    let held = ground.lane_claim().await.unwrap();
    for to in [None, Some(lane(2))] {
        let refused = ground.fenced.call(&ground.keys, &LaneReassign { id: held.id, to }).await;
        assert_eq!(refused.unwrap_err().refusal(), Some(&RefusalClass::State));
    }
    // A resend after a lost reply, when the job was claimed meanwhile.
    assert_eq!(ground.to(10, Some(1)).await, Reassigned::Already);
    assert_eq!(ground.group(10).await, Some(lane(1)));
    ground.sound().await;
    ground.call(Release { id: held.id, token: held.token, ticket: None }).await;
    assert_eq!(ground.to(10, None).await, Reassigned::Moved);
    // The holder that comes late retires it where it is.
    let complete = Complete { id: held.id, token: held.token, ticket: None };
    assert_eq!(ground.call(complete).await, Completed::Done);
    assert_eq!(ground.members(ground.keys.pending()).await, []);
    ground.sound().await;
}

#[tokio::test]
async fn a_scheduled_job_and_a_dead_one_enter_their_new_lanes_later() {
    let ground = Ground::new().await;
    let when = When::In(Duration::from_secs(600));
    for (n, group) in [(10, Some(lane(1))), (11, None)] {
        let (id, payload, options) = (job(n), &b"p"[..], OPTIONS);
        ground.call(Schedule { id, payload, group, when, options, durable: false }).await;
    }
    for n in [20, 21] {
        ground.laned(1, n).await;
        let held = ground.lane_claim().await.unwrap();
        let bury = Retry {
            id: held.id,
            token: held.token,
            ticket: None,
            delay: Duration::ZERO,
            max_attempts: 1,
            error: "why",
            force_dead: true,
        };
        ground.call(bury).await;
    }
    ground.wakes().await;
    for (n, to) in [(10, None), (11, Some(2)), (20, Some(2)), (21, None)] {
        assert_eq!(ground.to(n, to).await, Reassigned::Moved, "{n}");
        assert_eq!(ground.to(n, to).await, Reassigned::Already, "{n}");
        assert_eq!(ground.group(n).await, to.map(lane), "{n}");
    }
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![], 0));
    ground.sound().await;

    for n in [10, 11] {
        ask(ground.fenced.connection(), &["ZADD", ground.keys.schedule(), "1", job(n).as_str()])
            .await;
    }
    ground.call(Promote { limit: 10 }).await;
    for n in [20, 21] {
        ground.call(Requeue { id: job(n) }).await;
    }
    assert_eq!(ground.in_lane(2).await, [11, 20]);
    assert_eq!(ground.members(ground.keys.pending()).await, [10, 21]);
    ground.sound().await;
}

#[tokio::test]
async fn a_backlog_follows_in_bounded_steps() {
    let ground = Ground::new().await;
    for n in 0..250 {
        ground.laned(1, n).await;
    }
    ground.laned(2, 300).await;
    let held = ground.lane_claim().await.unwrap();
    ground.wakes().await;
    assert_eq!(ground.backlog(Some(1), Some(2), 200).await, 200);
    assert_eq!(ground.ring().await, [2, 1]);
    assert_eq!(ground.backlog(Some(1), Some(2), 200).await, 49);
    assert_eq!(ground.backlog(Some(1), Some(2), 200).await, 0);
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![2], 0));
    assert_eq!(ground.in_lane(2).await.len(), 250);
    // What is in flight stays with its lane.
    assert_eq!((held.id, ground.group(0).await), (job(0), Some(lane(1))));
    ground.sound().await;

    assert_eq!(ground.backlog(Some(2), None, 3).await, 3);
    assert_eq!(ground.members(ground.keys.pending()).await, [1, 2, 3]);
    assert_eq!(ground.backlog(None, Some(3), 2).await, 2);
    assert_eq!(
        (ground.members(ground.keys.pending()).await, ground.in_lane(3).await),
        (vec![3], vec![1, 2])
    );
    ground.sound().await;
}

#[tokio::test]
async fn a_parked_backlog_that_becomes_runnable_wakes_as_many_as_there_is_work_for() {
    let ground = Ground::new().await;
    ground.call(LanePause { group: lane(1) }).await;
    for n in 0..100 {
        ground.laned(1, n).await;
    }
    ground.wakes().await;
    assert_eq!(ground.backlog(Some(1), Some(2), 5).await, 5);
    assert_eq!(ground.wakes().await, 5);
    ask(ground.fenced.connection(), &["RPUSH", ground.keys.wake(), "1"]).await;
    assert_eq!(ground.backlog(Some(1), Some(2), 5).await, 5);
    assert_eq!(ground.wakes().await, 5);
    assert_eq!(ground.backlog(Some(1), None, 200).await, 90);
    assert_eq!((ground.ring().await, ground.wakes().await), (vec![2], 64));
    ground.sound().await;
}

#[tokio::test]
async fn an_interrupted_share_is_void_when_the_backlog_leaves() {
    let ground = Ground::new().await;
    ground.call(LaneWeight { group: lane(1), weight: 3 }).await;
    for n in 0..4 {
        ground.laned(1, n).await;
        ground.laned(2, 10 + n).await;
    }
    assert_eq!(ground.lane_claim().await.unwrap().id, job(0));
    assert_eq!(ground.backlog(Some(1), Some(3), 200).await, 3);
    let spent = ask(ground.fenced.connection(), &["HGET", ground.keys.meta(), "spent"]).await;
    assert_eq!(spent.as_bytes(), None);
    assert_eq!(ground.backlog(Some(3), Some(1), 200).await, 3);
    let mut served = Vec::new();
    for _ in 0..5 {
        served.push(ground.lane_claim().await.unwrap().id);
    }
    assert_eq!(served, [10, 1, 2, 3, 11].map(job));
    ground.sound().await;
}

#[tokio::test]
async fn torn_ids_of_a_backlog_are_dropped() {
    let ground = Ground::new().await;
    for n in 0..4 {
        ground.laned(1, n).await;
    }
    for n in [0, 2] {
        ask(ground.fenced.connection(), &["DEL", &ground.keys.job(&job(n))]).await;
    }
    // Counted with what left, so that a caller goes on until 0.
    assert_eq!(ground.backlog(Some(1), Some(2), 2).await, 2);
    assert_eq!(ground.backlog(Some(1), Some(2), 2).await, 2);
    assert_eq!(ground.backlog(Some(1), Some(2), 2).await, 0);
    assert_eq!((ground.in_lane(2).await, ground.ring().await), (vec![1, 3], vec![2]));
    // A job that its set has lost is found again by its move.
    ask(ground.fenced.connection(), &["ZREM", &ground.keys.lane(&lane(2)), job(1).as_str()]).await;
    ground.wakes().await;
    assert_eq!(ground.to(1, None).await, Reassigned::Moved);
    assert_eq!(ground.wakes().await, 1);
    assert_eq!(ground.call(Claim { lease: LEASE, ticket: None }).await.unwrap().id, job(1));
    ground.sound().await;
}
