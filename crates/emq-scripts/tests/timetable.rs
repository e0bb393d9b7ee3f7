//! Schedules: a tick is decided once, and the timetable's revisions and ticks only rise.

mod support;

use std::collections::BTreeMap;

use emq_keys::QueueKeys;
use emq_scripts::{
    AdmitOptions, Admitted, Claim, Complete, Completed, Enqueue, Fenced, LaneEnqueue, LaneLimit,
    LanePause, RefusalClass, Tick, TickVerdict, Ticked, TimetablePause, TimetablePaused,
    TimetablePut, TimetableRemove, TimetableSet, TimetableWritten,
};
use emq_testkit::Valkey;
use support::keyspace::snapshot;
use support::{ask, fenced, job, lane, queue, server_ms};

const NAME: &str = "nightly";

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

    async fn now(&self) -> u64 {
        u64::try_from(server_ms(self.fenced.connection()).await).unwrap()
    }

    async fn put(&self, timing: &str, next_ms: u64) -> TimetableSet<TimetableWritten> {
        let (name, mark, options, payload) = (NAME, 1, "{}", &b"p"[..]);
        let call = TimetablePut { name, mark, timing, options, payload, next_ms };
        self.fenced.call(&self.keys, &call).await.unwrap()
    }

    /// A schedule whose tick at 1,000 is due since long ago.
    async fn due(&self) -> Tick<'static> {
        let next_ms = self.now().await + 3_600_000;
        let revision = self.put("every 1000 0", next_ms).await.revision.unwrap();
        self.plant("nightly:next", "1000").await;
        tick(revision)
    }

    async fn plant(&self, field: &str, value: &str) {
        ask(self.fenced.connection(), &["HSET", self.keys.timetable(), field, value]).await;
    }

    async fn field(&self, field: &str) -> String {
        let reply = ask(self.fenced.connection(), &["HGET", self.keys.timetable(), field]).await;
        String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap()
    }

    async fn number(&self, words: &[&str]) -> i64 {
        ask(self.fenced.connection(), words).await.as_int().unwrap()
    }

    /// All that is known of a queue, by the part of its keys after the base.
    async fn facts(&self, keys: &QueueKeys) -> BTreeMap<String, String> {
        let all = snapshot(self.fenced.connection(), &format!("{}*", keys.base())).await;
        let part = |key: &str| key.strip_prefix(keys.base()).unwrap().to_owned();
        all.into_iter().map(|(key, value)| (part(&key), format!("{value:?}"))).collect()
    }

    async fn tick(&self, call: &Tick<'_>) -> Ticked {
        self.fenced.call(&self.keys, call).await.unwrap()
    }
}

fn tick(revision: u64) -> Tick<'static> {
    Tick {
        name: NAME,
        revision,
        next_ms: 1_000,
        from_ms: 1_000,
        until_ms: None,
        following_ms: Some(2_000),
        id: Some(job(1)),
        payload: b"p",
        group: None,
        options: AdmitOptions::default(),
    }
}

#[tokio::test]
async fn of_many_callers_at_once_one_admits_and_the_others_learn_what_comes_next() {
    let ground = Ground::new().await;
    let first = ground.due().await;
    // Two of them work out another tick to follow than the others do.
    let odd = Tick { following_ms: Some(2_500), ..first };
    for round in 0..20_u64 {
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..5 {
            let (fenced, keys) = (ground.fenced.clone(), ground.keys.clone());
            let call = if n % 2 == 0 { first } else { odd };
            calls.spawn(async move { fenced.call(&keys, &call).await.unwrap() });
        }
        let answers = calls.join_all().await;
        let admitted: Vec<&Ticked> =
            answers.iter().filter(|it| it.verdict == TickVerdict::Admitted).collect();
        assert_eq!(admitted.len(), 1, "round {round}: {answers:?}");
        let next_ms = admitted[0].next_ms;
        for other in answers.iter().filter(|it| it.verdict != TickVerdict::Admitted) {
            assert_eq!((other.verdict, other.next_ms), (TickVerdict::Elsewhere, next_ms));
        }
        // Its job is done and its row is gone: the tick stays decided.
        let lease = std::time::Duration::from_secs(60);
        let claim = Claim { lease, ticket: None };
        let held = ground.fenced.call(&ground.keys, &claim).await.unwrap().unwrap();
        let done = Complete { id: held.id, token: held.token, ticket: None };
        assert_eq!(ground.fenced.call(&ground.keys, &done).await.unwrap(), Completed::Done);
        assert_eq!(ground.tick(&first).await.verdict, TickVerdict::Elsewhere);
        assert_eq!(ground.number(&["ZCARD", ground.keys.pending()]).await, 0);
        ground.plant("nightly:next", "1000").await;
    }
}

#[tokio::test]
async fn what_comes_next_may_be_nothing() {
    let ground = Ground::new().await;
    let call = Tick { following_ms: None, ..ground.due().await };
    assert_eq!(ground.tick(&call).await.next_ms, None);
    assert_eq!(ground.field("nightly:next").await, "0");
    assert_eq!(ground.tick(&call).await.verdict, TickVerdict::Elsewhere);
}

#[tokio::test]
async fn revisions_and_first_ticks_rise_when_the_clock_goes_back() {
    let ground = Ground::new().await;
    let far = ground.now().await + 7_200_000;
    let first = ground.put("every 1000 0", far).await;
    assert_eq!(first.verdict, TimetableWritten::New);
    // As if the clock had been two hours ahead until now.
    let ahead = first.revision.unwrap() + 7_200_000_000;
    ground.plant(":rev", &ahead.to_string()).await;
    ground.plant("nightly:last", &far.to_string()).await;

    let past = ground.put("every 2000 0", far).await;
    assert_eq!((past.verdict, past.after_ms), (TimetableWritten::Past, far));
    let changed = ground.put("every 2000 0", far + 1).await;
    assert_eq!((changed.verdict, changed.revision), (TimetableWritten::Changed, Some(ahead + 1)));
    let paused = TimetablePause { name: NAME, resume: None };
    let paused = ground.fenced.call(&ground.keys, &paused).await.unwrap();
    assert_eq!((paused.verdict, paused.revision), (TimetablePaused::Done, Some(ahead + 2)));
    let resume = async |next_ms| {
        let call = TimetablePause { name: NAME, resume: Some((ahead + 2, next_ms)) };
        ground.fenced.call(&ground.keys, &call).await.unwrap()
    };
    assert_eq!(resume(Some(far)).await.verdict, TimetablePaused::Past);
    // There may be nothing to come.
    assert_eq!(resume(None).await.verdict, TimetablePaused::Done);
    assert_eq!(ground.field("nightly:next").await, "0");
}

#[tokio::test]
async fn a_table_that_was_made_anew_repeats_no_revision() {
    let ground = Ground::new().await;
    let next_ms = ground.now().await + 3_600_000;
    let mut last = 0;
    for _ in 0..200 {
        let revision = ground.put("every 1000 0", next_ms).await.revision.unwrap();
        assert!(revision > last, "{revision} after {last}");
        last = revision;
        let gone = ground.fenced.call(&ground.keys, &TimetableRemove { name: NAME }).await.unwrap();
        assert!(gone);
        assert_eq!(ground.number(&["EXISTS", ground.keys.timetable()]).await, 0);
    }
}

/// Whatever a queue looks like, its jobs get into it by a tick as they do by an enqueue.
#[tokio::test]
async fn a_tick_leaves_what_an_enqueue_leaves() {
    let ground = Ground::new().await;
    let all = AdmitOptions {
        kind: Some("k"),
        headers: Some("{}"),
        max_attempts: Some(3),
        unique: Some("u"),
    };
    for case in 0..64_u32 {
        let is = |bit: u32| case >> bit & 1 == 1;
        let options = if is(0) { all } else { AdmitOptions::default() };
        let group = is(1).then(|| lane(1));
        let (ticks, enqueues) = (queue(&format!("t{case}")), queue(&format!("e{case}")));
        for keys in [&ticks, &enqueues] {
            let fenced = &ground.fenced;
            if is(2) {
                fenced.call(keys, &LanePause { group: lane(1) }).await.unwrap();
            }
            if is(3) {
                fenced.call(keys, &LaneLimit { group: lane(1), limit: 1 }).await.unwrap();
                ask(fenced.connection(), &["HSET", keys.gactive(), lane(1).as_str(), "1"]).await;
            }
            if is(4) {
                let (group, payload, options) = (lane(1), &b"x"[..], AdmitOptions::default());
                let before = LaneEnqueue { id: job(1), payload, group, options, durable: false };
                fenced.call(keys, &before).await.unwrap();
            }
            if is(5) {
                ask(fenced.connection(), &["DEL", keys.wake()]).await;
            }
        }
        let (id, payload) = (job(2), &b"p"[..]);
        let (name, mark, timing, text) = (NAME, 1, "every 1000 0", "{}");
        let next_ms = ground.now().await + 3_600_000;
        let put = TimetablePut { name, mark, timing, options: text, payload, next_ms };
        let revision = ground.fenced.call(&ticks, &put).await.unwrap().revision.unwrap();
        ask(ground.fenced.connection(), &["HSET", ticks.timetable(), "nightly:next", "1000"]).await;
        let call = Tick { id: Some(id), payload, group, options, ..tick(revision) };
        let ticked = ground.fenced.call(&ticks, &call).await.unwrap();
        assert_eq!(ticked.verdict, TickVerdict::Admitted);
        ask(ground.fenced.connection(), &["DEL", ticks.timetable()]).await;
        let admitted = match group {
            Some(group) => {
                let call = LaneEnqueue { id, payload, group, options, durable: false };
                ground.fenced.call(&enqueues, &call).await.unwrap()
            }
            None => {
                let call = Enqueue { id, payload, options, durable: false };
                ground.fenced.call(&enqueues, &call).await.unwrap()
            }
        };
        assert_eq!(admitted, Admitted::Admitted);
        assert_eq!(ground.facts(&ticks).await, ground.facts(&enqueues).await, "case {case:b}");
    }
}

#[tokio::test]
async fn the_table_tells_of_what_goes() {
    let ground = Ground::new().await;
    let next_ms = ground.now().await + 3_600_000;
    ground.put("every 1000 0", next_ms).await;
    let (mark, timing, options, payload) = (2, "every 1000 0", "{}", &b"p"[..]);
    let weekly = TimetablePut { name: "weekly", mark, timing, options, payload, next_ms };
    ground.fenced.call(&ground.keys, &weekly).await.unwrap();
    let before: u64 = ground.field(":rev").await.parse().unwrap();
    ground.fenced.call(&ground.keys, &TimetableRemove { name: NAME }).await.unwrap();
    let after: u64 = ground.field(":rev").await.parse().unwrap();
    assert!(after > before);
    // What is left of the other one is all of it, and it is its own.
    assert!(ground.field("weekly:rev").await.parse::<u64>().unwrap() <= before);
}

#[tokio::test]
async fn a_queue_has_a_thousand_schedules_and_no_more() {
    let ground = Ground::new().await;
    let next_ms = ground.now().await + 3_600_000;
    let names: Vec<String> = (0..=TimetablePut::MAX_SCHEDULES).map(|n| format!("s{n}")).collect();
    let put = async |n: usize, payload: &[u8]| {
        let (name, mark) = (names[n].as_str(), u32::try_from(n).unwrap());
        let (timing, options) = ("every 1000 0", "{}");
        let call = TimetablePut { name, mark, timing, options, payload, next_ms };
        ground.fenced.call(&ground.keys, &call).await
    };
    let most = TimetablePut::MAX_SCHEDULES;
    for n in 0..most {
        assert_eq!(put(n, b"p").await.unwrap().verdict, TimetableWritten::New);
    }
    let refused = put(most, b"p").await.unwrap_err();
    assert_eq!(refused.refusal(), Some(&RefusalClass::Limit));
    assert_eq!(put(0, b"q").await.unwrap().verdict, TimetableWritten::Changed);
    ground.fenced.call(&ground.keys, &TimetableRemove { name: &names[1] }).await.unwrap();
    assert_eq!(put(most, b"p").await.unwrap().verdict, TimetableWritten::New);
}

#[tokio::test]
async fn a_tick_into_a_lane_that_cannot_be_served_wakes_nobody() {
    let ground = Ground::new().await;
    let call = Tick { group: Some(lane(1)), ..ground.due().await };
    let park = LanePause { group: lane(1) };
    ground.fenced.call(&ground.keys, &park).await.unwrap();
    assert_eq!(ground.tick(&call).await.verdict, TickVerdict::Admitted);
    assert_eq!(ground.number(&["LLEN", ground.keys.ring()]).await, 0);
    assert_eq!(ground.number(&["LLEN", ground.keys.wake()]).await, 0);
    assert_eq!(ground.number(&["ZCARD", &ground.keys.lane(&lane(1))]).await, 1);

    // One with a ceiling and no lease out can be.
    let limit = LaneLimit { group: lane(2), limit: 1 };
    ground.fenced.call(&ground.keys, &limit).await.unwrap();
    let (next_ms, from_ms, following_ms) = (2_000, 2_000, Some(3_000));
    let (id, group) = (Some(job(2)), Some(lane(2)));
    let call = Tick { next_ms, from_ms, following_ms, id, group, ..call };
    assert_eq!(ground.tick(&call).await.verdict, TickVerdict::Admitted);
    assert_eq!(ground.number(&["LLEN", ground.keys.ring()]).await, 1);
    assert_eq!(ground.number(&["LLEN", ground.keys.wake()]).await, 1);
}
