//! A queue that turns are taken on, and what one sees of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use emq_keys::QueueKeys;
use emq_scripts::{
    AdmitOptions, Enqueue, Fenced, LaneEnqueue, LaneLimit, LaneWeight, Schedule, ScriptCall,
    Settle, SettleOutcome, Turn, TurnJob, Turned, When,
};
use emq_testkit::Valkey;
use emq_wire::Reply;

use crate::support::{ask, fenced, job, lane, queue};

pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const OPTIONS: AdmitOptions<'static> =
    AdmitOptions { kind: None, headers: None, max_attempts: None, unique: None };

/// A turn that does nothing but look for the wake.
pub(crate) const TURN: Turn<'static> = Turn {
    ticket: None,
    lease: LEASE,
    claim: 0,
    promote: 0,
    reap: 0,
    lost_cap: 10,
    max_attempts: 3,
    settles: &[],
    extensions: &[],
};

/// Fails and is due again at once.
pub(crate) const AGAIN: SettleOutcome<'static> =
    SettleOutcome::Retry { delay: Duration::ZERO, error: "again", force_dead: false };

/// A queue of its own on the server of this process.
pub(crate) struct Queue {
    pub(crate) fenced: Fenced,
    pub(crate) keys: QueueKeys,
}

/// A job in hand.
#[derive(Clone, Debug)]
pub(crate) struct InHand {
    pub(crate) job: TurnJob,
}

impl Queue {
    pub(crate) async fn new() -> Queue {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let keys = queue(&format!("rules.{n}.{}", std::process::id()));
        Queue { fenced: fenced(Valkey::of_this_process()).await, keys }
    }

    pub(crate) async fn call<C: ScriptCall>(&self, call: C) -> C::Reply {
        self.fenced.call(&self.keys, &call).await.unwrap()
    }

    /// Admits the `n`th job, to the `g`th lane or flat.
    pub(crate) async fn admit(&self, n: u64, g: Option<u64>) {
        let (id, payload, options, durable) = (job(n), &b"p"[..], OPTIONS, false);
        match g.map(lane) {
            Some(group) => {
                self.call(LaneEnqueue { id, payload, group, options, durable }).await;
            }
            None => {
                self.call(Enqueue { id, payload, options, durable }).await;
            }
        }
    }

    /// Admits `count` jobs, the first of which is the `from`th.
    pub(crate) async fn admit_all(&self, from: u64, count: u64, g: Option<u64>) {
        for n in from..from + count {
            self.admit(n, g).await;
        }
    }

    /// Admits the `n`th job for later.
    pub(crate) async fn schedule(&self, n: u64, g: Option<u64>, when: When) {
        let (id, payload, group) = (job(n), &b"p"[..], g.map(lane));
        let (options, durable) = (OPTIONS, false);
        self.call(Schedule { id, payload, group, when, options, durable }).await;
    }

    pub(crate) async fn limit(&self, g: u64, limit: u32) {
        self.call(LaneLimit { group: lane(g), limit }).await;
    }

    pub(crate) async fn weigh(&self, g: u64, weight: u32) {
        self.call(LaneWeight { group: lane(g), weight }).await;
    }

    pub(crate) async fn turn(&self, turn: Turn<'_>) -> Turned {
        self.call(turn).await
    }

    /// Claims up to `n` jobs.
    pub(crate) async fn claim(&self, n: u32) -> Vec<InHand> {
        let jobs = self.turn(Turn { claim: n, ..TURN }).await.jobs;
        jobs.into_iter().map(|job| InHand { job }).collect()
    }

    /// The lanes that claims of up to `n` jobs each serve until nothing is left, `None` for the
    /// flat set.
    pub(crate) async fn served(&self, n: u32, turns: usize) -> Vec<Option<u64>> {
        let mut served = Vec::new();
        for _ in 0..turns {
            served.extend(self.claim(n).await.iter().map(InHand::lane));
        }
        served
    }

    /// One plain command on one of the queue's keys.
    pub(crate) async fn ask(&self, command: &str, fact: &str, rest: &[&str]) -> Reply {
        let key = format!("{}{fact}", self.keys.base());
        let words = [&[command, &key][..], rest].concat();
        ask(self.fenced.connection(), &words).await
    }

    /// A field of one of the queue's hashes.
    pub(crate) async fn field(&self, fact: &str, field: &str) -> Option<String> {
        let reply = self.ask("HGET", fact, &[field]).await;
        reply.as_bytes().map(|text| String::from_utf8(text.to_vec()).unwrap())
    }

    /// The ring, from its head, as the numbers of its lanes.
    pub(crate) async fn ring(&self) -> Vec<u64> {
        let ring = self.ask("LRANGE", "ring", &["0", "-1"]).await;
        ring.as_array().unwrap().iter().map(|group| number(group.as_bytes().unwrap())).collect()
    }

    /// Takes every token, and says how many there were.
    pub(crate) async fn wakes(&self) -> i64 {
        let tokens = self.ask("LLEN", "wake", &[]).await.as_int().unwrap();
        self.ask("DEL", "wake", &[]).await;
        tokens
    }

    /// The lease of a job in hand is over.
    pub(crate) async fn expire(&self, held: &InHand) {
        self.ask("ZADD", "active", &["1", held.job.id.as_str()]).await;
    }

    /// A scheduled job is due.
    pub(crate) async fn make_due(&self, n: u64) {
        self.ask("ZADD", "schedule", &["1", job(n).as_str()]).await;
    }
}

impl InHand {
    /// The number of its lane.
    pub(crate) fn lane(&self) -> Option<u64> {
        self.job.group.map(|group| number(group.as_bytes()))
    }

    pub(crate) fn settle(&self, outcome: SettleOutcome<'static>) -> Settle<'static> {
        Settle { id: self.job.id, token: self.job.token, ticket: None, outcome }
    }
}

fn number(group: &[u8]) -> u64 {
    (0..1_000).find(|n| lane(*n).as_bytes()[..] == *group).unwrap()
}
