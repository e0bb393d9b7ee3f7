//! A queue with a job in every place, and words to plant a fault in it.

use std::time::Duration;

use emq_keys::QueueKeys;
use emq_scripts::{
    AdmitOptions, Claim, Diagnosis, Enqueue, Fenced, LaneClaim, LaneEnqueue, LaneLimit, LanePause,
    LaneWeight, Retry, Schedule, ScriptCall, When,
};
use emq_testkit::Valkey;

use crate::support::checkup::checkup;
use crate::support::keyspace::{Snapshot, snapshot};
use crate::support::{ask, fenced, job, lane, queue};

pub(crate) const LEASE: Duration = Duration::from_secs(60);

/// Flat jobs: 1 leased, 2 dead, 3 scheduled, 4 to 6 pending, 4 with a unique key. Lane 1: 10 leased,
/// 11 to 13 pending; lane 2, parked: 20 and 21 pending; lane 3, at its ceiling: 30 leased, 31
/// pending. Lane 4 has a weight.
pub(crate) struct Ground {
    _valkey: Valkey,
    pub(crate) fenced: Fenced,
    pub(crate) keys: QueueKeys,
}

impl Ground {
    pub(crate) async fn new() -> Ground {
        let valkey = Valkey::start().unwrap();
        let fenced = fenced(&valkey).await;
        Ground { _valkey: valkey, fenced, keys: queue("orders") }
    }

    pub(crate) async fn call<C: ScriptCall>(&self, call: C) -> C::Reply {
        self.fenced.call(&self.keys, &call).await.unwrap()
    }

    pub(crate) async fn laned(&self, g: u64, n: u64) {
        let (id, group, options) = (job(n), lane(g), AdmitOptions::default());
        self.call(LaneEnqueue { id, payload: b"p", group, options, durable: false }).await;
    }

    pub(crate) async fn fill(&self) {
        ask(self.fenced.connection(), &["FLUSHDB"]).await;
        for n in [1, 2, 4, 5, 6] {
            let unique = (n == 4).then_some("key");
            let options = AdmitOptions { unique, kind: Some("mail"), ..AdmitOptions::default() };
            self.call(Enqueue { id: job(n), payload: b"p", options, durable: false }).await;
        }
        self.call(Claim { lease: LEASE, ticket: Some("me.1") }).await.unwrap();
        let held = self.call(Claim { lease: LEASE, ticket: None }).await.unwrap();
        let bury = Retry {
            id: held.id,
            token: held.token,
            ticket: None,
            delay: Duration::ZERO,
            max_attempts: 1,
            error: "why",
            force_dead: true,
        };
        self.call(bury).await;
        let (when, options) = (When::In(Duration::from_secs(600)), AdmitOptions::default());
        let id = job(3);
        self.call(Schedule { id, payload: b"p", group: None, when, options, durable: false }).await;
        for (g, n) in [(1, 10), (1, 11), (1, 12), (1, 13), (3, 30), (3, 31), (2, 20), (2, 21)] {
            self.laned(g, n).await;
        }
        self.call(LaneLimit { group: lane(3), limit: 1 }).await;
        for _ in 0..2 {
            self.call(LaneClaim { lease: LEASE, ticket: None }).await.unwrap();
        }
        self.call(LanePause { group: lane(2) }).await;
        self.call(LaneWeight { group: lane(4), weight: 3 }).await;
    }

    pub(crate) async fn ask(&self, words: &[&str]) -> emq_wire::Reply {
        ask(self.fenced.connection(), words).await
    }

    pub(crate) async fn check(&self, repair: bool) -> Vec<Diagnosis> {
        checkup(&self.fenced, &self.keys, repair).await
    }

    pub(crate) async fn snapshot(&self) -> Snapshot {
        snapshot(self.fenced.connection(), "emq:{orders}:*").await
    }

    /// The words with jobs, rows, lanes, their jobs, a lane's interrupted share (`part`) and keys put in.
    pub(crate) fn spoken(&self, words: &str) -> Vec<String> {
        let word = |word: &str| {
            let number = |head: &str| word.strip_prefix(head).and_then(|n| n.parse::<u64>().ok());
            if let Some(n) = number("job=") {
                job(n).to_string()
            } else if let Some(n) = number("row=") {
                self.keys.job(&job(n))
            } else if let Some(g) = number("lane=") {
                lane(g).to_string()
            } else if let Some(g) = number("jobs=") {
                self.keys.lane(&lane(g))
            } else if let Some(g) = number("part=") {
                format!("{}|1", lane(g))
            } else if word == "''" {
                String::new()
            } else if let Some(fact) = word.strip_prefix(':') {
                format!("{}{fact}", self.keys.base())
            } else {
                word.to_owned()
            }
        };
        words.split(' ').map(word).collect()
    }

    pub(crate) async fn plant(&self, commands: &[&str]) {
        for command in commands {
            let words = self.spoken(command);
            self.ask(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
    }
}
