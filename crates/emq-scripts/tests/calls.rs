//! Each typed call on a real server: what it answers when all is well.

mod support;

use std::time::Duration;

use emq_keys::{NodeId, QueueKeys};
use emq_scripts::{
    AdmitOptions, Admitted, Cancel, Cancelled, Checkpoint, Claim, Claimed, Complete, Completed,
    Drain, Enqueue, EnqueueMany, Extend, Extended, Fenced, LaneClaim, LaneEnqueue, ManyItem,
    NodeLease, Nudge, Promote, Purge, QueuePause, QueueResume, Reap, Reaped, RefusalClass, Release,
    Remove, Removed, Requeue, Requeued, Retried, Retry, Schedule, Switched, Verdict, When,
};
use emq_testkit::Valkey;
use support::keyspace::snapshot;
use support::samples::ALL_OPTIONS;
use support::{ask, branded, fenced, job, lane, queue, soon};

const OPTIONS: AdmitOptions<'static> =
    AdmitOptions { kind: None, headers: None, max_attempts: None, unique: None };
const LEASE: Duration = Duration::from_secs(60);
const TICKET: Option<&str> = Some("me.1");

fn enqueue(n: u64) -> Enqueue<'static> {
    Enqueue { id: job(n), payload: b"p", options: OPTIONS, durable: false }
}

async fn ground() -> (Valkey, Fenced, QueueKeys) {
    let valkey = Valkey::start().unwrap();
    let fenced = fenced(&valkey).await;
    (valkey, fenced, queue("orders"))
}

async fn claim(fenced: &Fenced, keys: &QueueKeys) -> Option<Claimed> {
    fenced.call(keys, &Claim { lease: LEASE, ticket: TICKET }).await.unwrap()
}

/// The row of a job, `field = value` each, sorted.
async fn row(fenced: &Fenced, keys: &QueueKeys, n: u64) -> Vec<String> {
    let key = keys.job(&job(n));
    let mut lines = snapshot(fenced.connection(), &key).await.remove(&key).unwrap_or_default();
    lines.retain(|line| line != "(hash)");
    lines
}

async fn retry_dead(fenced: &Fenced, keys: &QueueKeys) -> Claimed {
    let claimed = claim(fenced, keys).await.unwrap();
    let retry = Retry {
        id: claimed.id,
        token: claimed.token,
        ticket: TICKET,
        delay: Duration::ZERO,
        max_attempts: 1,
        error: "why",
        force_dead: false,
    };
    assert_eq!(fenced.call(keys, &retry).await.unwrap(), Retried::Dead);
    claimed
}

#[tokio::test]
async fn enqueue_and_its_options() {
    let (_valkey, fenced, keys) = ground().await;
    assert_eq!(fenced.call(&keys, &enqueue(1)).await.unwrap(), Admitted::Admitted);
    assert_eq!(fenced.call(&keys, &enqueue(1)).await.unwrap(), Admitted::Duplicate);
    let three = ["attempts = 0", "payload = p", "state = pending"];
    assert_eq!(row(&fenced, &keys, 1).await, three);

    let full = Enqueue { id: job(2), payload: b"\r\n\0", options: ALL_OPTIONS, durable: true };
    assert_eq!(fenced.call(&keys, &full).await.unwrap(), Admitted::Admitted);
    assert_eq!(fenced.call(&keys, &full).await.unwrap(), Admitted::Duplicate);
    let fields = [
        "attempts = 0",
        "headers = {}",
        "kind = mail",
        "max_attempts = 3",
        "payload = \\r\\n\\x00",
        "state = pending",
        "unique = key",
    ];
    assert_eq!(row(&fenced, &keys, 2).await, fields);
    let rival = Enqueue { id: job(3), ..full };
    assert_eq!(fenced.call(&keys, &rival).await.unwrap(), Admitted::Held(job(2)));
    assert!(row(&fenced, &keys, 3).await.is_empty());
}

#[tokio::test]
async fn lanes_turn() {
    let (_valkey, fenced, keys) = ground().await;
    for n in 0..4 {
        let (id, payload, group, options, durable) = (job(n), b"p", lane(n % 2), OPTIONS, false);
        let call = LaneEnqueue { id, payload, group, options, durable };
        assert_eq!(fenced.call(&keys, &call).await.unwrap(), Admitted::Admitted);
    }
    let call = LaneClaim { lease: LEASE, ticket: TICKET };
    for n in [0, 1, 2, 3] {
        let claimed = fenced.call(&keys, &call).await.unwrap().unwrap();
        assert_eq!((claimed.id, claimed.group, claimed.token), (job(n), Some(lane(n % 2)), 1));
    }
    assert_eq!(fenced.call(&keys, &call).await.unwrap(), None);
    let (id, token) = (job(0), 1);
    let release = Release { id, token, ticket: TICKET };
    fenced.call(&keys, &release).await.unwrap();
    let claimed = fenced.call(&keys, &call).await.unwrap().unwrap();
    let (id, token) = (claimed.id, claimed.token);
    assert_eq!((id, token), (job(0), 2));
    let data = b"half";
    let checkpoint = Checkpoint { id, token, ticket: TICKET, lease: None, data };
    fenced.call(&keys, &checkpoint).await.unwrap();
    fenced.call(&keys, &Release { id, token, ticket: TICKET }).await.unwrap();
    let claimed = fenced.call(&keys, &call).await.unwrap().unwrap();
    assert_eq!(claimed.checkpoint.as_deref(), Some(&data[..]));
}

#[tokio::test]
async fn schedule_at_and_in() {
    let (_valkey, fenced, keys) = ground().await;
    let schedule = |n, group, when| Schedule {
        id: job(n),
        payload: b"p",
        group,
        when,
        options: OPTIONS,
        durable: false,
    };
    let before = support::server_ms(fenced.connection()).await;
    let later = When::In(Duration::from_secs(100));
    for (n, when) in [
        (1, When::At(1)),
        (2, When::At(0)),
        (3, When::In(Duration::ZERO)),
        (4, later),
        (5, When::At(4_000_000_000_000)),
    ] {
        let admitted = fenced.call(&keys, &schedule(n, None, when)).await.unwrap();
        assert_eq!(admitted, Admitted::Admitted, "{when:?}");
    }
    fenced.call(&keys, &schedule(6, Some(lane(1)), When::At(1))).await.unwrap();
    fenced.call(&keys, &schedule(7, Some(lane(1)), later)).await.unwrap();
    let again = fenced.call(&keys, &schedule(5, None, later)).await.unwrap();
    assert_eq!(again, Admitted::Duplicate);
    let after = support::server_ms(fenced.connection()).await;

    let pending = snapshot(fenced.connection(), keys.pending()).await;
    assert_eq!(pending[keys.pending()].len(), 1 + 3);
    let laned = snapshot(fenced.connection(), "emq:{orders}:g:*").await;
    assert_eq!(laned[&keys.lane(&lane(1))], ["(zset)".to_owned(), format!("{} = 0", job(6))]);
    let score = async |n: u64| -> i64 {
        let reply = ask(fenced.connection(), &["ZSCORE", keys.schedule(), job(n).as_str()]).await;
        std::str::from_utf8(reply.as_bytes().unwrap()).unwrap().parse().unwrap()
    };
    assert!((before + 100_000..=after + 100_000).contains(&score(4).await));
    assert!((before + 100_000..=after + 100_000).contains(&score(7).await));
    assert_eq!(score(5).await, 4_000_000_000_000);

    // What is due moves; what isn't stays.
    assert_eq!(fenced.call(&keys, &Promote { limit: 200 }).await.unwrap(), 0);
    ask(fenced.connection(), &["ZADD", keys.schedule(), "1", job(4).as_str()]).await;
    ask(fenced.connection(), &["ZADD", keys.schedule(), "1", job(7).as_str()]).await;
    assert_eq!(fenced.call(&keys, &Promote { limit: 1 }).await.unwrap(), 1);
    assert_eq!(fenced.call(&keys, &Promote { limit: 200 }).await.unwrap(), 1);
}

#[tokio::test]
async fn many_at_once_each_with_its_verdict() {
    let (_valkey, fenced, keys) = ground().await;
    let held = Enqueue { options: ALL_OPTIONS, ..enqueue(1) };
    fenced.call(&keys, &held).await.unwrap();
    let item =
        |id, group, run_at_ms, options| ManyItem { id, payload: b"p", group, run_at_ms, options };
    let items = [
        item(job(1), None, None, OPTIONS),
        item(job(2), None, None, OPTIONS),
        item(branded("ORD", 1), None, None, OPTIONS),
        item(job(3), None, None, ALL_OPTIONS),
        item(job(4), Some(lane(1)), None, OPTIONS),
        item(job(5), Some(lane(1)), Some(4_000_000_000_000), OPTIONS),
        item(job(6), None, Some(0), OPTIONS),
        item(job(2), None, None, OPTIONS),
    ];
    let verdicts = fenced.call(&keys, &EnqueueMany { items: &items, durable: false }).await;
    let new = Verdict::Admitted;
    let expected = [
        Verdict::Duplicate,
        new,
        Verdict::Kind,
        Verdict::Held(job(1)),
        new,
        new,
        new,
        Verdict::Duplicate,
    ];
    assert_eq!(verdicts.unwrap(), expected);
    let scheduled = snapshot(fenced.connection(), keys.schedule()).await;
    assert_eq!(scheduled[keys.schedule()], ["(zset)", &format!("{} = 4000000000000", job(5))]);
    let none = EnqueueMany { items: &[], durable: false };
    assert_eq!(fenced.call(&keys, &none).await.unwrap(), []);

    // The largest batch there may be, and one more.
    let numbers = 0..=EnqueueMany::MAX_ITEMS as u64;
    let batch: Vec<_> = numbers.map(|n| item(job(1000 + n), None, None, OPTIONS)).collect();
    let over = fenced.call(&keys, &EnqueueMany { items: &batch, durable: false }).await;
    assert_eq!(over.unwrap_err().refusal(), Some(&RefusalClass::Limit));
    let most = EnqueueMany { items: &batch[1..], durable: false };
    assert_eq!(fenced.call(&keys, &most).await.unwrap(), [new; EnqueueMany::MAX_ITEMS]);
}

#[tokio::test]
async fn a_job_is_claimed_kept_and_completed() {
    let (_valkey, fenced, keys) = ground().await;
    assert_eq!(claim(&fenced, &keys).await, None);
    fenced.call(&keys, &enqueue(2)).await.unwrap();
    fenced.call(&keys, &enqueue(1)).await.unwrap();
    let claimed = claim(&fenced, &keys).await.unwrap();
    let (id, token, ticket) = (claimed.id, claimed.token, TICKET);
    assert_eq!((id, token, &claimed.payload[..]), (job(1), 1, &b"p"[..]));
    assert_eq!((claimed.group, claimed.checkpoint), (None, None));
    assert!(row(&fenced, &keys, 1).await.contains(&"holder = me.1".to_owned()));

    let extend = Extend { id, token, ticket, lease: LEASE };
    assert_eq!(fenced.call(&keys, &extend).await.unwrap(), Extended::Held);
    let checkpoint = Checkpoint { id, token, ticket, lease: None, data: b"half" };
    assert_eq!(fenced.call(&keys, &checkpoint).await.unwrap(), Extended::Held);
    assert_eq!(fenced.call(&keys, &Cancel { id }).await.unwrap(), Cancelled::Asked);
    assert_eq!(fenced.call(&keys, &extend).await.unwrap(), Extended::CancelAsked);
    assert_eq!(fenced.call(&keys, &checkpoint).await.unwrap(), Extended::CancelAsked);
    fenced.call(&keys, &Release { id, token, ticket }).await.unwrap();

    let claimed = claim(&fenced, &keys).await.unwrap();
    assert_eq!((claimed.id, claimed.token), (id, 2));
    assert_eq!(claimed.checkpoint.as_deref(), Some(&b"half"[..]));
    let complete = Complete { id, token: 2, ticket };
    assert_eq!(fenced.call(&keys, &complete).await.unwrap(), Completed::Done);
    assert_eq!(fenced.call(&keys, &complete).await.unwrap(), Completed::NoRow);
    assert!(row(&fenced, &keys, 1).await.is_empty());
}

#[tokio::test]
async fn the_rows_own_cap_wins_over_the_callers() {
    let (_valkey, fenced, keys) = ground().await;
    for (n, own, callers, expected) in [
        (1, Some(2), 1, Retried::Scheduled),
        (2, Some(1), 99, Retried::Dead),
        (3, None, 1, Retried::Dead),
        (4, None, 2, Retried::Scheduled),
    ] {
        let options = AdmitOptions { max_attempts: own, ..OPTIONS };
        fenced.call(&keys, &Enqueue { options, ..enqueue(n) }).await.unwrap();
        let claimed = claim(&fenced, &keys).await.unwrap();
        let retry = Retry {
            id: claimed.id,
            token: claimed.token,
            ticket: TICKET,
            delay: LEASE,
            max_attempts: callers,
            error: "why",
            force_dead: false,
        };
        assert_eq!(fenced.call(&keys, &retry).await.unwrap(), expected, "{n}");
        assert!(row(&fenced, &keys, n).await.contains(&"last_error = why".to_owned()));
    }
}

#[tokio::test]
async fn a_lost_job_returns_until_it_is_lost_too_often() {
    let (_valkey, fenced, keys) = ground().await;
    fenced.call(&keys, &enqueue(1)).await.unwrap();
    let short = Claim { lease: Duration::from_nanos(1), ticket: None };
    for (n, expected) in
        [(1, Reaped { returned: 1, buried: 0 }), (2, Reaped { returned: 0, buried: 1 })]
    {
        let claimed = fenced.call(&keys, &short).await.unwrap().unwrap();
        assert_eq!(claimed.token, n);
        let reaped = soon(async {
            loop {
                let reaped = fenced.call(&keys, &Reap { limit: 1, lost_cap: 2 }).await.unwrap();
                if reaped != Reaped::default() {
                    return reaped;
                }
            }
        });
        assert_eq!(reaped.await, expected);
    }
    let row = row(&fenced, &keys, 1).await;
    assert!(row.iter().any(|line| line.starts_with("last_error = ")), "{row:?}");
    assert!(row.contains(&"lost = 2".to_owned()), "{row:?}");
}

#[tokio::test]
async fn an_operator_cancels_removes_requeues_and_purges() {
    let (_valkey, fenced, keys) = ground().await;
    for n in 1..6 {
        let unique = format!("key {n}");
        let options = AdmitOptions { unique: Some(&unique), ..OPTIONS };
        fenced.call(&keys, &Enqueue { options, ..enqueue(n) }).await.unwrap();
    }
    let cancel = |n| Cancel { id: job(n) };
    assert_eq!(fenced.call(&keys, &cancel(1)).await.unwrap(), Cancelled::Gone);
    assert_eq!(fenced.call(&keys, &cancel(1)).await.unwrap(), Cancelled::NoRow);
    let remove = |n| Remove { id: job(n) };
    assert_eq!(fenced.call(&keys, &remove(2)).await.unwrap(), Removed::Done);
    assert_eq!(fenced.call(&keys, &remove(2)).await.unwrap(), Removed::NoRow);

    let dead = retry_dead(&fenced, &keys).await;
    assert_eq!(dead.id, job(3));
    let requeue = Requeue { id: dead.id };
    assert_eq!(fenced.call(&keys, &requeue).await.unwrap(), Requeued::Done);
    assert_eq!(fenced.call(&keys, &Requeue { id: job(1) }).await.unwrap(), Requeued::NoRow);
    let again = retry_dead(&fenced, &keys).await;
    assert_eq!((again.id, again.token), (job(3), 2));
    retry_dead(&fenced, &keys).await;
    retry_dead(&fenced, &keys).await;

    // Jobs 3, 4 and 5 are dead now.
    let purge = |before, limit| Purge { before, limit };
    assert_eq!(fenced.call(&keys, &purge(Some(job(3)), 10)).await.unwrap(), 0);
    assert_eq!(fenced.call(&keys, &purge(Some(job(4)), 10)).await.unwrap(), 1);
    assert_eq!(fenced.call(&keys, &purge(None, 1)).await.unwrap(), 1);
    assert_eq!(fenced.call(&keys, &purge(None, 1000)).await.unwrap(), 1);
    assert_eq!(fenced.call(&keys, &purge(None, 1000)).await.unwrap(), 0);
    let left = snapshot(fenced.connection(), "emq:*").await;
    let left: Vec<&String> = left.keys().filter(|key| *key != keys.wake()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_queue_is_paused_resumed_nudged_and_drained() {
    let (_valkey, fenced, keys) = ground().await;
    for n in 1..4 {
        fenced.call(&keys, &enqueue(n)).await.unwrap();
    }
    assert_eq!(fenced.call(&keys, &QueuePause).await.unwrap(), Switched::Changed);
    assert_eq!(fenced.call(&keys, &QueuePause).await.unwrap(), Switched::Already);
    assert_eq!(claim(&fenced, &keys).await, None);
    assert_eq!(fenced.call(&keys, &QueueResume).await.unwrap(), Switched::Changed);
    assert_eq!(fenced.call(&keys, &QueueResume).await.unwrap(), Switched::Already);
    let claimed = claim(&fenced, &keys).await.unwrap();

    let later = Schedule {
        id: job(9),
        payload: b"p",
        group: None,
        when: When::In(LEASE),
        options: OPTIONS,
        durable: false,
    };
    fenced.call(&keys, &later).await.unwrap();
    let drain = |scheduled, limit| Drain { scheduled, limit };
    assert_eq!(fenced.call(&keys, &drain(false, 1)).await.unwrap(), 1);
    assert_eq!(fenced.call(&keys, &drain(false, 1000)).await.unwrap(), 1);
    assert_eq!(fenced.call(&keys, &drain(false, 1000)).await.unwrap(), 0);
    assert_eq!(fenced.call(&keys, &drain(true, 1000)).await.unwrap(), 1);
    // What is in flight stays.
    let (id, token) = (claimed.id, claimed.token);
    let complete = Complete { id, token, ticket: TICKET };
    assert_eq!(fenced.call(&keys, &complete).await.unwrap(), Completed::Done);

    ask(fenced.connection(), &["DEL", keys.wake()]).await;
    for stands in (1..=64).chain([64, 64]) {
        fenced.call(&keys, &Nudge).await.unwrap();
        let tokens = ask(fenced.connection(), &["LLEN", keys.wake()]).await;
        assert_eq!(tokens.as_int(), Some(stands));
    }
}

#[tokio::test]
async fn several_calls_in_one_submission_keep_their_own_outcomes() {
    let (valkey, fenced, keys) = ground().await;
    assert!(fenced.call_all::<Nudge>(&keys, &[]).await.unwrap().is_empty());
    valkey.cli(&["SCRIPT", "FLUSH"]).unwrap();
    let order = Enqueue { id: branded("ORD", 1), ..enqueue(1) };
    let calls = [enqueue(1), order, enqueue(1), enqueue(2)];
    let outcomes = fenced.call_all(&keys, &calls).await.unwrap();
    let admitted: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().ok().copied()).collect();
    // The server runs what it didn't know a second time, each call once and in order.
    let new = Some(Admitted::Admitted);
    assert_eq!(admitted, [new, None, Some(Admitted::Duplicate), new]);
    let refused = outcomes[1].as_ref().unwrap_err();
    assert_eq!(refused.refusal(), Some(&RefusalClass::Kind));
}

#[tokio::test]
async fn nodes_are_leased_renewed_and_handed_on() {
    let (_valkey, fenced, _keys) = ground().await;
    let lease = |owner, node| NodeLease { owner, lease: LEASE, grace: LEASE, node };
    let before = support::server_ms(fenced.connection()).await;
    let first = fenced.node_lease(&lease("a", None)).await.unwrap();
    let after = support::server_ms(fenced.connection()).await;
    let expires_ms = i64::try_from(first.expires_ms).unwrap();
    assert!((before + 60_000..=after + 60_000).contains(&expires_ms));
    let second = fenced.node_lease(&lease("b", None)).await.unwrap();
    assert_ne!(first.node, second.node);
    assert_eq!(fenced.node_lease(&lease("a", None)).await.unwrap().node, first.node);
    let exactly = NodeId::new(77).unwrap();
    assert_eq!(fenced.node_lease(&lease("c", Some(exactly))).await.unwrap().node, exactly);
    let taken = fenced.node_lease(&lease("a", Some(second.node))).await.unwrap_err();
    assert_eq!(taken.refusal(), Some(&RefusalClass::State));
    let nobody = fenced.node_lease(&lease("", None)).await.unwrap_err();
    assert_eq!(nobody.refusal(), Some(&RefusalClass::Arg));
}
