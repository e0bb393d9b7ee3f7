//! A queue in legal use gives the doctor nothing to find: after random activity, and in its midst.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emq_keys::{BrandedId, QueueKeys};
use emq_scripts::{
    AdmitOptions, CallError, Cancel, Checkpoint, Claim, Complete, Drain, Enqueue, EnqueueMany,
    Extend, Extension, Fenced, LaneClaim, LaneEnqueue, LaneLimit, LanePause, LaneReassign,
    LaneReassignBacklog, LaneResume, LaneWeight, ManyItem, Promote, Purge, QueuePause, QueueResume,
    Reap, Release, Remove, Requeue, Retry, Schedule, ScriptCall, Settle, SettleOutcome, Turn, When,
};
use emq_testkit::Valkey;
use fastrand::Rng;
use support::checkup::{checkup, checkup_counted};
use support::{fenced, job, lane, queue};

const LANES: u64 = 5;

/// Somebody who does with a queue whatever it allows.
struct Driver {
    fenced: Fenced,
    keys: QueueKeys,
    rng: Rng,
    /// Ids are its own: from here on, 1,000 apart between drivers.
    first: u64,
    held: Vec<(BrandedId, u64, Option<&'static str>)>,
}

impl Driver {
    fn new(fenced: &Fenced, keys: &QueueKeys, seed: u64, first: u64) -> Driver {
        let rng = Rng::with_seed(seed);
        Driver { fenced: fenced.clone(), keys: keys.clone(), rng, first, held: Vec::new() }
    }

    /// A refusal is an answer too; anything else that fails is a failure.
    async fn call<C: ScriptCall>(&self, call: C) -> Option<C::Reply> {
        match self.fenced.call(&self.keys, &call).await {
            Ok(reply) => Some(reply),
            Err(CallError::Refused { .. }) => None,
            Err(error) => panic!("{}: {error}", C::SCRIPT),
        }
    }

    fn id(&mut self) -> BrandedId {
        job(self.first + self.rng.u64(0..30))
    }

    fn group(&mut self) -> BrandedId {
        lane(self.rng.u64(0..LANES))
    }

    fn maybe_group(&mut self) -> Option<BrandedId> {
        let group = self.group();
        self.rng.bool().then_some(group)
    }

    /// Some leases are over at once.
    fn lease(&mut self) -> Duration {
        Duration::from_millis(if self.rng.u8(0..3) == 0 { 1 } else { 60_000 })
    }

    fn delay(&mut self) -> Duration {
        Duration::from_millis(if self.rng.bool() { 0 } else { 60_000 })
    }

    fn ticket(&mut self) -> Option<&'static str> {
        self.rng.choice([None, Some("me.1"), Some("me.2")]).unwrap()
    }

    fn options(&mut self) -> AdmitOptions<'static> {
        let unique = self.rng.choice([None, None, Some("a"), Some("b")]).unwrap();
        let max_attempts = self.rng.bool().then_some(2);
        AdmitOptions { unique, max_attempts, ..AdmitOptions::default() }
    }

    /// What it holds, or held once; now and then of a token that it never had.
    fn hold(&mut self) -> (BrandedId, u64, Option<&'static str>) {
        let held = match self.held.len() {
            0 => (self.id(), 1, None),
            n => self.held[self.rng.usize(0..n)],
        };
        if self.rng.u8(0..4) > 0 {
            self.held.retain(|other| other.0 != held.0);
        }
        held
    }

    async fn step(&mut self) {
        match self.rng.u8(0..32) {
            0..=8 => self.admit().await,
            9..=14 => self.claim().await,
            15..=18 => self.turn().await,
            19..=25 => self.settle().await,
            26..=27 => {
                self.call(Promote { limit: 5 }).await;
                self.call(Reap { limit: 5, lost_cap: 3 }).await;
            }
            28..=29 => self.operate().await,
            _ => self.reassign().await,
        }
    }

    async fn admit(&mut self) {
        let (id, group, options, payload) = (self.id(), self.group(), self.options(), &b"p"[..]);
        let durable = self.rng.bool();
        match self.rng.u8(0..4) {
            0 => drop(self.call(Enqueue { id, payload, options, durable }).await),
            1 => drop(self.call(LaneEnqueue { id, payload, group, options, durable }).await),
            2 => {
                let (group, when) = (self.maybe_group(), When::In(self.delay()));
                self.call(Schedule { id, payload, group, when, options, durable }).await;
            }
            _ => {
                let mut items = Vec::new();
                for _ in 0..self.rng.usize(0..6) {
                    let (id, group, options) = (self.id(), self.maybe_group(), self.options());
                    let run_at_ms = self.rng.choice([None, Some(1), Some(4_000_000_000_000)]);
                    let run_at_ms = run_at_ms.unwrap();
                    items.push(ManyItem { id, payload, group, run_at_ms, options });
                }
                self.call(EnqueueMany { items: &items, durable }).await;
            }
        }
    }

    async fn claim(&mut self) {
        let (lease, ticket) = (self.lease(), self.ticket());
        let claimed = if self.rng.bool() {
            self.call(Claim { lease, ticket }).await
        } else {
            self.call(LaneClaim { lease, ticket }).await
        };
        self.held.extend(claimed.flatten().map(|job| (job.id, job.token, ticket)));
    }

    async fn turn(&mut self) {
        let (lease, ticket, delay) = (self.lease(), self.ticket(), self.delay());
        let mut settles = Vec::new();
        for _ in 0..self.rng.usize(0..4) {
            let (id, token, ticket) = self.hold();
            let retry = SettleOutcome::Retry { delay, error: "", force_dead: self.rng.bool() };
            let outcome = [SettleOutcome::Complete, retry, SettleOutcome::Release];
            let outcome = self.rng.choice(outcome).unwrap();
            settles.push(Settle { id, token, ticket, outcome });
        }
        let (id, token, held_under) = self.hold();
        let extensions = [Extension { id, token, ticket: held_under }];
        let turn = Turn {
            ticket,
            lease,
            claim: self.rng.u32(0..6),
            promote: self.rng.u32(0..6),
            reap: self.rng.u32(0..6),
            lost_cap: 3,
            max_attempts: 3,
            settles: &settles,
            extensions: &extensions,
        };
        let turned = self.call(turn).await.unwrap();
        self.held.extend(turned.jobs.iter().map(|job| (job.id, job.token, ticket)));
    }

    async fn settle(&mut self) {
        let ((id, token, ticket), lease, delay) = (self.hold(), self.lease(), self.delay());
        match self.rng.u8(0..6) {
            0 | 1 => drop(self.call(Complete { id, token, ticket }).await),
            2 => {
                let (max_attempts, error, force_dead) = (3, "why", self.rng.bool());
                let retry = Retry { id, token, ticket, delay, max_attempts, error, force_dead };
                self.call(retry).await;
            }
            3 => drop(self.call(Release { id, token, ticket }).await),
            4 => drop(self.call(Extend { id, token, ticket, lease }).await),
            _ => {
                let data = self.rng.choice([&b""[..], &b"half"[..]]).unwrap();
                let lease = self.rng.bool().then_some(lease);
                self.call(Checkpoint { id, token, ticket, lease, data }).await;
            }
        }
    }

    async fn operate(&mut self) {
        let (id, group) = (self.id(), self.group());
        let (limit, weight) = (self.rng.u32(0..3), self.rng.u32(1..4));
        match self.rng.u8(0..14) {
            0 => drop(self.call(Cancel { id }).await),
            1 | 2 => drop(self.call(Requeue { id }).await),
            3 => drop(self.call(Remove { id }).await),
            4 => drop(self.call(Purge { before: None, limit: 2 }).await),
            5 => {
                let drain = Drain { scheduled: self.rng.bool(), limit: self.rng.u32(1..9) };
                self.call(drain).await;
            }
            6 => drop(self.call(QueuePause).await),
            7 | 8 => drop(self.call(QueueResume).await),
            9 => drop(self.call(LaneLimit { group, limit }).await),
            10 => drop(self.call(LaneWeight { group, weight }).await),
            11 => drop(self.call(LanePause { group }).await),
            _ => drop(self.call(LaneResume { group }).await),
        }
    }

    async fn reassign(&mut self) {
        let (id, from, to) = (self.id(), self.maybe_group(), self.maybe_group());
        if self.rng.bool() {
            self.call(LaneReassign { id, to }).await;
        } else {
            let limit = self.rng.u32(1..4);
            self.call(LaneReassignBacklog { from, to, limit }).await;
        }
    }
}

/// Some seeds of steps, each followed by a look.
async fn random_activity(seeds: std::ops::Range<u64>) {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    for seed in seeds {
        let keys = queue(&format!("orders-{seed}"));
        let mut driver = Driver::new(&fenced, &keys, seed, 0);
        let mut looked_at = 0;
        for _ in 0..20 {
            for _ in 0..25 {
                driver.step().await;
            }
            let (found, examined) = checkup_counted(&fenced, &keys, false).await;
            assert_eq!(found, [], "seed {seed}");
            looked_at += examined.jobs;
        }
        assert!(looked_at > 100, "seed {seed} left the queue empty");
    }
}

#[tokio::test]
async fn nothing_is_found_after_random_activity() {
    random_activity(0..12).await;
}

/// Four drivers at once, each on a connection of its own, and the doctor among them: what they move
/// under its eyes is no fault. Then also while it may mend, which it must not have to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_found_while_four_are_at_it() {
    let valkey = Valkey::start().unwrap();
    let doctor = fenced(&valkey).await;
    let keys = queue("orders");
    let over = Arc::new(AtomicBool::new(false));
    let mut ready = Vec::new();
    for d in 0..4 {
        ready.push(Driver::new(&fenced(&valkey).await, &keys, 100 + d, 1000 * d));
    }
    let mut drivers = Vec::new();
    for mut driver in ready {
        let over = Arc::clone(&over);
        drivers.push(tokio::spawn(async move {
            let mut steps = 0_u64;
            while !over.load(Ordering::SeqCst) {
                driver.step().await;
                steps += 1;
            }
            steps
        }));
    }
    let mut looked_at = 0;
    for look in 0..60 {
        let (found, examined) = checkup_counted(&doctor, &keys, look % 2 == 1).await;
        assert_eq!(found, [], "look {look}");
        looked_at += examined.jobs;
    }
    over.store(true, Ordering::SeqCst);
    let mut steps = 0;
    for driver in drivers {
        steps += driver.await.unwrap();
    }
    assert!(looked_at > 500 && steps > 100, "{looked_at} looks at jobs during {steps} steps");
    assert_eq!(checkup(&doctor, &keys, false).await, []);
}

/// More lanes than a window of the ring, more jobs than a page: found where only a scan leads.
#[tokio::test]
async fn a_large_queue_is_seen_whole() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let keys = queue("orders");
    let options = AdmitOptions::default();
    for part in 0..5_u64 {
        let item =
            |n: u64, group| ManyItem { id: job(n), payload: b"p", group, run_at_ms: None, options };
        let lanes = (0..300).map(|n| item(300 * part + n, Some(lane(300 * part + n))));
        let flat = (0..100).map(|n| item(10_000 + 100 * part + n, None));
        let items: Vec<ManyItem<'_>> = lanes.chain(flat).collect();
        fenced.call(&keys, &EnqueueMany { items: &items, durable: false }).await.unwrap();
    }
    let (found, examined) = checkup_counted(&fenced, &keys, false).await;
    assert_eq!(found, []);
    assert_eq!((examined.jobs, examined.lanes), (2 * 2000, 1500));

    let (ring, last) = (keys.ring(), lane(1499));
    for words in [
        &["LREM", ring, "0", last.as_str()][..],
        &["LPUSH", ring, lane(700).as_str()],
        &["RPUSH", ring, lane(2000).as_str()],
        &["DEL", &keys.job(&job(10_499)), &keys.job(&job(650))],
    ] {
        support::ask(fenced.connection(), words).await;
    }
    let found = checkup(&fenced, &keys, true).await;
    let mut told: Vec<String> = found.iter().map(|seen| seen.finding.to_string()).collect();
    told.sort();
    let mut expected = [
        format!("lane {last} isn't in the ring"),
        format!("lane {} is in the ring twice", lane(700)),
        format!("lane {} is in the ring and can't be served", lane(2000)),
        format!("id {} has no row and is in pending", job(10_499)),
        format!("id {} has no row and is in lane {}", job(650), lane(650)),
    ];
    expected.sort();
    assert_eq!(told, expected);
    assert!(found.iter().all(|seen| seen.mended));
    assert_eq!(checkup(&fenced, &keys, false).await, []);
}
