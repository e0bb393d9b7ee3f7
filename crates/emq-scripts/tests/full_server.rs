//! A full server (`maxmemory`, `noeviction`): admissions are refused whole, all the rest runs.

mod support;

use std::time::Duration;

use emq_scripts::{
    AdmitOptions, CONTRACTS, CallError, Claim, Complete, Completed, Drain, Enqueue, EnqueueMany,
    LaneClaim, LaneEnqueue, ManyItem, Promote, Purge, Reap, Reaped, Retried, Retry, Schedule, When,
};
use emq_testkit::Valkey;
use support::ground::{Ground, keys_of, writing_args};
use support::{fenced, job, lane, queue};

/// Whatever the server holds is more than this.
fn fill(valkey: &Valkey) {
    valkey.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
}

fn empty(valkey: &Valkey) {
    valkey.cli(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
}

#[tokio::test]
async fn each_script_runs_or_is_refused_whole_as_its_contract_says() {
    let ground = Ground::new().await;
    for contract in CONTRACTS {
        for cold in [false, true] {
            if cold {
                ground.valkey.cli(&["SCRIPT", "FLUSH"]).unwrap();
            }
            ground.ready_for(contract);
            fill(&ground.valkey);
            let reply = ground.call(contract, &keys_of(contract), &writing_args(contract)).await;
            let after = ground.now().await;
            empty(&ground.valkey);
            let script = contract.script;
            match reply.as_error() {
                None => assert!(contract.runs_when_full, "{script} ran, cold: {cold}"),
                Some(error) => {
                    assert!(!contract.runs_when_full, "{script}, cold: {cold}: {error}");
                    assert!(error.is("OOM"), "{script}, cold: {cold}: {error}");
                    assert_eq!(after, ground.seeded, "{script} was not refused whole");
                }
            }
            ground.seed().await;
        }
    }
    let refused: Vec<&str> = CONTRACTS
        .iter()
        .filter(|contract| !contract.runs_when_full)
        .map(|contract| contract.script.as_str())
        .collect();
    assert_eq!(
        refused,
        ["enqueue", "lane_enqueue", "schedule", "enqueue_many", "tick", "timetable_put"]
    );
}

const OPTIONS: AdmitOptions<'static> =
    AdmitOptions { kind: None, headers: None, max_attempts: None, unique: None };

fn enqueue(n: u64) -> Enqueue<'static> {
    Enqueue { id: job(n), payload: b"p", options: OPTIONS, durable: false }
}

#[tokio::test]
async fn an_admission_is_refused_by_type_with_a_warm_cache_and_a_cold_one() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let keys = queue("orders");
    fill(&valkey);
    let (id, payload, options, durable) = (job(1), &b"p"[..], OPTIONS, false);
    let items = [ManyItem { id, payload, group: None, run_at_ms: None, options }];
    for cold in [false, true] {
        let flush = || {
            if cold {
                valkey.cli(&["SCRIPT", "FLUSH"]).unwrap();
            }
        };
        flush();
        is_oom(fenced.call(&keys, &enqueue(1)).await);
        flush();
        is_oom(fenced.call(&keys, &EnqueueMany { items: &items, durable }).await);
        flush();
        let group = lane(1);
        is_oom(fenced.call(&keys, &LaneEnqueue { id, payload, group, options, durable }).await);
        flush();
        let when = When::In(Duration::from_secs(60));
        let schedule = Schedule { id, payload, group: None, when, options, durable };
        is_oom(fenced.call(&keys, &schedule).await);
    }
}

fn is_oom<T: std::fmt::Debug>(outcome: Result<T, CallError>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, CallError::OutOfMemory { .. }) && error.is_retryable(), "{error:?}");
}

#[tokio::test]
async fn a_duplicate_on_a_full_server_is_still_a_duplicate_unless_it_has_to_write() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let keys = queue("orders");
    fenced.call(&keys, &enqueue(1)).await.unwrap();
    fill(&valkey);
    let duplicate = fenced.call(&keys, &enqueue(1)).await.unwrap();
    assert_eq!(duplicate, emq_scripts::Admitted::Duplicate);
    is_oom(fenced.call(&keys, &Enqueue { durable: true, ..enqueue(1) }).await);
}

/// Through claim, complete, retry, promote, reap, drain and purge.
#[tokio::test]
async fn a_full_server_can_be_drained_by_workers_and_operators() {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    let keys = queue("orders");
    for n in 0..12 {
        fenced.call(&keys, &enqueue(n)).await.unwrap();
        let (payload, group, options, durable) = (&b"p"[..], lane(n % 3), OPTIONS, false);
        let id = job(100 + n);
        let laned = LaneEnqueue { id, payload, group, options, durable };
        fenced.call(&keys, &laned).await.unwrap();
    }
    fill(&valkey);
    let lease = Duration::from_secs(60);
    let claim = Claim { lease, ticket: Some("me.1") };
    let mut settled = 0;
    for n in 0..6 {
        let job = fenced.call(&keys, &claim).await.unwrap().unwrap();
        let (id, token, ticket) = (job.id, job.token, Some("me.1"));
        if n % 2 == 0 {
            let done = fenced.call(&keys, &Complete { id, token, ticket }).await.unwrap();
            assert_eq!(done, Completed::Done);
            settled += 1;
        } else {
            let (delay, max_attempts, error) = (Duration::ZERO, 99, "why");
            let force_dead = n == 5;
            let retry = Retry { id, token, ticket, delay, max_attempts, error, force_dead };
            let expected = if force_dead { Retried::Dead } else { Retried::Scheduled };
            assert_eq!(fenced.call(&keys, &retry).await.unwrap(), expected);
        }
    }
    while let Some(job) = fenced.call(&keys, &LaneClaim { lease, ticket: None }).await.unwrap() {
        let (id, token, ticket) = (job.id, job.token, None);
        fenced.call(&keys, &Complete { id, token, ticket }).await.unwrap();
        settled += 1;
    }
    assert_eq!(settled, 3 + 12);
    assert_eq!(fenced.call(&keys, &Promote { limit: 200 }).await.unwrap(), 2);
    let short = Claim { lease: Duration::from_millis(1), ticket: None };
    fenced.call(&keys, &short).await.unwrap().unwrap();
    let reaped = support::soon(async {
        loop {
            let reaped = fenced.call(&keys, &Reap { limit: 200, lost_cap: 10 }).await.unwrap();
            if reaped != Reaped::default() {
                return reaped;
            }
        }
    })
    .await;
    assert_eq!((reaped.returned, reaped.buried), (1, 0));
    assert_eq!(fenced.call(&keys, &Purge { before: None, limit: 10 }).await.unwrap(), 1);
    let drain = Drain { scheduled: true, limit: 1000 };
    assert_eq!(fenced.call(&keys, &drain).await.unwrap(), 8);
    assert_eq!(fenced.call(&keys, &drain).await.unwrap(), 0);
    let rows = support::keyspace::snapshot(fenced.connection(), "emq:{orders}:job:*").await;
    assert!(rows.is_empty(), "{rows:?}");
}
