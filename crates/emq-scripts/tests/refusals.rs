//! Every class that a contract names is provoked, with a warm script cache and with a cold one:
//! both answer the same typed refusal, and neither writes.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use emq_keys::QueueKeys;
use emq_scripts::{
    AdmitOptions, CONTRACTS, CallError, Cancel, Checkpoint, Claim, Complete, Doctor, Drain,
    Enqueue, EnqueueMany, Extend, Extension, LaneClaim, LaneEnqueue, LaneReassign,
    LaneReassignBacklog, Look, ManyItem, NodeLease, Obliterate, Promote, Purge, Reap, RefusalClass,
    Release, Remove, Requeue, Retry, Schedule, ScriptCall, ScriptName, Settle, SettleOutcome, Tick,
    TimetablePause, TimetablePut, TimetableRemove, Turn, When,
};
use support::ground::Ground;
use support::{branded, job, lane, queue};

/// Which classes of which scripts were seen.
struct Provoked {
    ground: Ground,
    keys: QueueKeys,
    seen: BTreeSet<(ScriptName, String)>,
}

impl Provoked {
    /// A refused call, warm and cold.
    async fn refused<C: ScriptCall>(&mut self, class: RefusalClass, call: C)
    where
        C::Reply: std::fmt::Debug,
    {
        let warm = self.ground.fenced.call(&self.keys, &call).await.unwrap_err();
        self.ground.valkey.cli(&["SCRIPT", "FLUSH"]).unwrap();
        let cold = self.ground.fenced.call(&self.keys, &call).await.unwrap_err();
        self.note(C::SCRIPT, class, &warm, &cold).await;
    }

    /// A call of each script with neither keys nor arguments, which no typed call can be.
    async fn refused_bare(&mut self) {
        for contract in CONTRACTS {
            let fenced = &self.ground.fenced;
            let bare = || fenced.bundle().script(contract.script).call(0, 0);
            let warm = fenced.connection().command(bare()).await.unwrap();
            self.ground.valkey.cli(&["SCRIPT", "FLUSH"]).unwrap();
            let cold = fenced.connection().command(bare()).await.unwrap();
            assert!(warm.as_error().unwrap().is("EMQARG"), "{}: {warm:?}", contract.script);
            assert_eq!(warm, cold);
            assert_eq!(self.ground.now().await, self.ground.seeded, "{}", contract.script);
            self.seen.insert((contract.script, RefusalClass::Arg.word().to_owned()));
        }
    }

    async fn note(
        &mut self,
        script: ScriptName,
        class: RefusalClass,
        warm: &CallError,
        cold: &CallError,
    ) {
        assert_eq!(warm.refusal(), Some(&class), "{script}: {warm:?}");
        assert_eq!(format!("{warm:?}"), format!("{cold:?}"));
        assert!(!warm.is_retryable());
        assert_eq!(warm.is_stale(), class == RefusalClass::Stale);
        assert_eq!(self.ground.now().await, self.ground.seeded, "{script} {class:?}");
        self.seen.insert((script, class.word().to_owned()));
    }
}

const OPTIONS: AdmitOptions<'static> =
    AdmitOptions { kind: None, headers: None, max_attempts: None, unique: None };
const EMPTY: AdmitOptions<'static> = AdmitOptions { unique: Some(""), ..OPTIONS };
const LEASE: Duration = Duration::from_secs(60);

async fn admissions(provoked: &mut Provoked) {
    use RefusalClass::{Arg, Kind, Limit};
    let (id, order, payload) = (job(50), branded("ORD", 1), &b"p"[..]);
    let (group, when, durable) = (lane(1), When::At(1), false);
    for (class, id, options) in [(Arg, id, EMPTY), (Kind, order, OPTIONS)] {
        provoked.refused(class.clone(), Enqueue { id, payload, options, durable }).await;
        let laned = LaneEnqueue { id, payload, group, options, durable };
        provoked.refused(class.clone(), laned).await;
        let scheduled = Schedule { id, payload, group: Some(group), when, options, durable };
        provoked.refused(class, scheduled).await;
    }
    let zero = AdmitOptions { max_attempts: Some(0), ..OPTIONS };
    provoked.refused(Arg, Enqueue { id, payload, options: zero, durable }).await;
    let far = When::At(u64::MAX);
    let scheduled = Schedule { id, payload, group: None, when: far, options: OPTIONS, durable };
    provoked.refused(Arg, scheduled).await;
    let long = When::In(Duration::MAX);
    provoked.refused(Arg, Schedule { when: long, ..scheduled }).await;

    let item = |options| ManyItem { id, payload, group: None, run_at_ms: None, options };
    let items = [item(OPTIONS), item(EMPTY)];
    provoked.refused(Arg, EnqueueMany { items: &items, durable }).await;
    let items = vec![item(OPTIONS); EnqueueMany::MAX_ITEMS + 1];
    provoked.refused(Limit, EnqueueMany { items: &items, durable }).await;
    let heavy = vec![0; EnqueueMany::MAX_PAYLOAD_BYTES + 1];
    let items = [ManyItem { payload: &heavy, ..item(OPTIONS) }];
    provoked.refused(Limit, EnqueueMany { items: &items, durable }).await;
}

async fn claims_and_settles(provoked: &mut Provoked) {
    use RefusalClass::{Arg, Stale};
    let (none, ticket) = (Duration::ZERO, None);
    let long = "x".repeat(257);
    for (lease, ticket) in [(none, None), (Duration::MAX, None), (LEASE, Some(&long[..]))] {
        provoked.refused(Arg, Claim { lease, ticket }).await;
        provoked.refused(Arg, LaneClaim { lease, ticket }).await;
    }
    let id = job(2);
    for (class, token) in [(Arg, 0), (Stale, 2), (Stale, u64::MAX)] {
        provoked.refused(class.clone(), Complete { id, token, ticket }).await;
        let (delay, max_attempts, error, force_dead) = (none, 3, "", false);
        let retry = Retry { id, token, ticket, delay, max_attempts, error, force_dead };
        provoked.refused(class.clone(), retry).await;
        provoked.refused(class.clone(), Release { id, token, ticket }).await;
        provoked.refused(class.clone(), Extend { id, token, ticket, lease: LEASE }).await;
        let (lease, data) = (None, &b""[..]);
        provoked.refused(class, Checkpoint { id, token, ticket, lease, data }).await;
    }
    let heavy = vec![0; Checkpoint::MAX_BYTES + 1];
    let (token, lease, data) = (1, None, &heavy[..]);
    provoked.refused(Arg, Checkpoint { id, token, ticket, lease, data }).await;
}

async fn timers_and_operators(provoked: &mut Provoked) {
    use RefusalClass::{Arg, Kind, Limit, State};
    for (class, limit) in [(Arg, 0), (Limit, 201)] {
        provoked.refused(class.clone(), Promote { limit }).await;
        provoked.refused(class, Reap { limit, lost_cap: 10 }).await;
    }
    provoked.refused(Arg, Reap { limit: 1, lost_cap: 0 }).await;
    turns(provoked).await;
    for (class, limit) in [(Arg, 0), (Limit, 1001)] {
        provoked.refused(class.clone(), Purge { before: None, limit }).await;
        provoked.refused(class, Drain { scheduled: true, limit }).await;
    }
    schedules(provoked).await;
    // Job 1 is pending, 2 active, 3 scheduled, 4 dead.
    provoked.refused(State, Cancel { id: job(4) }).await;
    provoked.refused(Kind, Cancel { id: branded("ORD", 1) }).await;
    for n in [1, 2, 3] {
        provoked.refused(State, Requeue { id: job(n) }).await;
    }
    provoked.refused(State, Remove { id: job(2) }).await;
    provoked.refused(State, LaneReassign { id: job(2), to: Some(lane(1)) }).await;
    let backlog = |from, limit| LaneReassignBacklog { from, to: Some(lane(1)), limit };
    provoked.refused(Arg, backlog(Some(lane(1)), 1)).await;
    provoked.refused(Arg, backlog(None, 0)).await;
    provoked.refused(Limit, backlog(None, 201)).await;
    // The queue isn't paused.
    for (class, limit) in [(Arg, 0), (State, 1), (Limit, 1001)] {
        provoked.refused(class, Obliterate { force: true, limit }).await;
    }
    let many = vec![Bytes::from_static(b"key"); Look::MAX_SUBJECTS + 1];
    provoked.refused(Limit, Doctor { look: Look::Unique(&many), repair: true }).await;
}

async fn schedules(provoked: &mut Provoked) {
    use RefusalClass::{Arg, Kind, State};
    let (id, group, options) = (Some(job(50)), None, AdmitOptions::default());
    let tick = Tick {
        name: "nightly",
        revision: 7,
        next_ms: 1_000,
        from_ms: 1_000,
        until_ms: None,
        following_ms: Some(2_000),
        id,
        payload: b"p",
        group,
        options,
    };
    provoked.refused(Kind, Tick { id: Some(branded("ORD", 1)), ..tick }).await;
    provoked.refused(Arg, Tick { name: "a:b", ..tick }).await;
    // What comes next is over, and what is due now isn't: time doesn't go back.
    provoked.refused(Arg, Tick { from_ms: 999, ..tick }).await;
    provoked.refused(Arg, Tick { until_ms: Some(1_000), ..tick }).await;
    provoked.refused(Arg, Tick { following_ms: Some(1_000), ..tick }).await;
    let (timing, options, payload, next_ms) = ("every 1000 0", "{}", &b"p"[..], 4_000_000_000_000);
    let put = TimetablePut { name: "weekly", mark: 2, timing, options, payload, next_ms };
    // The mark of the schedule that is there.
    provoked.refused(State, TimetablePut { mark: 1, ..put }).await;
    provoked.refused(Arg, TimetablePut { mark: 1 << 22, ..put }).await;
    provoked.refused(Arg, TimetablePut { options: "[]", ..put }).await;
    let long = "x".repeat(TimetablePut::MAX_TIMING_BYTES + 1);
    provoked.refused(Arg, TimetablePut { timing: &long, ..put }).await;
    provoked.refused(Arg, TimetablePause { name: "", resume: None }).await;
    provoked.refused(Arg, TimetableRemove { name: &"n".repeat(129) }).await;
}

/// A queue whose timetable holds as many fields as a thousand schedules have.
async fn a_full_timetable(provoked: &mut Provoked) {
    let mut fields = vec!["HSET".to_owned(), provoked.keys.timetable().to_owned()];
    let most = 9 * TimetablePut::MAX_SCHEDULES;
    fields.extend((0..most).flat_map(|n| [format!("f{n}:x"), "x".to_owned()]));
    provoked.ground.valkey.cli(&fields).unwrap();
    provoked.ground.seeded = provoked.ground.now().await;
    let (timing, options, payload, next_ms) = ("every 1000 0", "{}", &b"p"[..], 4_000_000_000_000);
    let put = TimetablePut { name: "weekly", mark: 2, timing, options, payload, next_ms };
    provoked.refused(RefusalClass::Limit, put).await;
    provoked.ground.seed().await;
    provoked.ground.seeded = provoked.ground.now().await;
}

async fn turns(provoked: &mut Provoked) {
    use RefusalClass::{Arg, Limit};
    let turn = Turn {
        ticket: Some("me.1"),
        lease: LEASE,
        claim: 1,
        promote: 1,
        reap: 1,
        lost_cap: 10,
        max_attempts: 3,
        settles: &[],
        extensions: &[],
    };
    let over = u32::try_from(Turn::MAX_JOBS).unwrap() + 1;
    for (claim, promote, reap) in [(over, 0, 0), (0, over, 0), (0, 0, over)] {
        provoked.refused(Limit, Turn { claim, promote, reap, ..turn }).await;
    }
    // Even where the job is held and each item alone would be taken.
    let (id, ticket, outcome) = (job(2), None, SettleOutcome::Complete);
    let settles = vec![Settle { id, token: 1, ticket, outcome }; Turn::MAX_JOBS + 1];
    provoked.refused(Limit, Turn { settles: &settles, ..turn }).await;
    let extensions = vec![Extension { id, token: 1, ticket }; Turn::MAX_JOBS + 1];
    provoked.refused(Limit, Turn { extensions: &extensions, ..turn }).await;
    let settles = [Settle { id, token: 0, ticket, outcome }];
    provoked.refused(Arg, Turn { settles: &settles, ..turn }).await;
    provoked.refused(Arg, Turn { lease: Duration::ZERO, ..turn }).await;
    provoked.refused(Arg, Turn { max_attempts: 0, ..turn }).await;
    provoked.refused(Arg, Turn { lost_cap: 0, ..turn }).await;
}

async fn nodes(provoked: &mut Provoked) {
    let held = emq_keys::NodeId::new(0).unwrap();
    let (lease, node) = (LEASE, Some(held));
    for (class, call) in [
        (RefusalClass::Arg, NodeLease { owner: "", lease, grace: LEASE, node: None }),
        (RefusalClass::State, NodeLease { owner: "you", lease, grace: LEASE, node }),
    ] {
        let warm = provoked.ground.fenced.node_lease(&call).await;
        provoked.ground.valkey.cli(&["SCRIPT", "FLUSH"]).unwrap();
        let cold = provoked.ground.fenced.node_lease(&call).await;
        let (warm, cold) = (warm.unwrap_err(), cold.unwrap_err());
        provoked.note(ScriptName::NodeLease, class, &warm, &cold).await;
    }
}

#[tokio::test]
async fn each_class_of_each_contract_with_a_warm_cache_and_a_cold_one() {
    let ground = Ground::new().await;
    let mut provoked = Provoked { ground, keys: queue("orders"), seen: BTreeSet::new() };
    admissions(&mut provoked).await;
    claims_and_settles(&mut provoked).await;
    timers_and_operators(&mut provoked).await;
    nodes(&mut provoked).await;
    a_full_timetable(&mut provoked).await;
    provoked.refused_bare().await;
    let promised: BTreeSet<(ScriptName, String)> = CONTRACTS
        .iter()
        .flat_map(|contract| {
            contract.refuses.iter().map(|class| (contract.script, class.word().to_owned()))
        })
        .collect();
    assert_eq!(provoked.seen, promised);
}
