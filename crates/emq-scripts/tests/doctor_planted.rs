//! Faults planted one at a time: each is found, found and mended, and gone after that.

#[path = "doctor_planted/ground.rs"]
mod ground;
mod support;

use bytes::Bytes;
use emq_keys::QueueFact;
use emq_scripts::{Claim, Diagnosis, Finding, LaneClaim, Name, Place, QueuePause};
use ground::{Ground, LEASE};
use support::checkup::checkup_counted;
use support::{job, lane};

fn id(n: u64) -> Name {
    job(n).into()
}

fn tenant(g: u64) -> Name {
    lane(g).into()
}

fn name(text: &str) -> Name {
    Name::new(Bytes::copy_from_slice(text.as_bytes()))
}

/// What is planted, what is found.
type Fault = (&'static [&'static str], Finding);

fn of_jobs() -> Vec<Fault> {
    let state = |state: &str| state.to_owned();
    let laned = |g| Place::Lane(tenant(g));
    vec![
        (
            &["ZADD :active 9 job=4"],
            Finding::InTwoSets { id: id(4), places: vec![Place::Pending, Place::Active] },
        ),
        (
            &["ZADD :pending 0 job=11"],
            Finding::InTwoSets { id: id(11), places: vec![Place::Pending, laned(1)] },
        ),
        (
            &["ZADD jobs=2 0 job=11"],
            Finding::InTwoSets { id: id(11), places: vec![laned(1), laned(2)] },
        ),
        (
            &["ZADD jobs=7 0 job=5"],
            Finding::InTwoSets { id: id(5), places: vec![Place::Pending, laned(7)] },
        ),
        (&["DEL row=5"], Finding::SetWithoutRow { id: id(5), places: vec![Place::Pending] }),
        (&["DEL row=3"], Finding::SetWithoutRow { id: id(3), places: vec![Place::Schedule] }),
        (&["DEL row=1"], Finding::SetWithoutRow { id: id(1), places: vec![Place::Active] }),
        (&["ZADD jobs=7 0 job=77"], Finding::SetWithoutRow { id: id(77), places: vec![laned(7)] }),
        (
            &["ZADD :dead 0 no-id"],
            Finding::SetWithoutRow { id: name("no-id"), places: vec![Place::Dead] },
        ),
        (
            &["DEL row=11", "DEL row=12", "DEL row=13"],
            Finding::SetWithoutRow { id: id(12), places: vec![laned(1)] },
        ),
        (
            &["HSET row=5 state active"],
            Finding::StateDisagrees {
                id: id(5),
                state: state("active"),
                places: vec![Place::Pending],
            },
        ),
        (
            &["HSET row=1 state dead"],
            Finding::StateDisagrees {
                id: id(1),
                state: state("dead"),
                places: vec![Place::Active],
            },
        ),
        (
            &["HSET row=3 state pending"],
            Finding::StateDisagrees {
                id: id(3),
                state: state("pending"),
                places: vec![Place::Schedule],
            },
        ),
        (
            &["HSET row=5 group lane=8"],
            Finding::StateDisagrees {
                id: id(5),
                state: state("pending"),
                places: vec![Place::Pending],
            },
        ),
        (&["ZREM :pending job=6"], Finding::RowWithoutSet { id: id(6), state: state("pending") }),
        (&["ZREM :active job=1"], Finding::RowWithoutSet { id: id(1), state: state("active") }),
        (&["ZREM :dead job=2"], Finding::RowWithoutSet { id: id(2), state: state("dead") }),
        (
            &["ZREM :schedule job=3"],
            Finding::RowWithoutSet { id: id(3), state: state("scheduled") },
        ),
        (
            &["DEL jobs=1", "LREM :ring 0 lane=1"],
            Finding::RowWithoutSet { id: id(12), state: state("pending") },
        ),
        (
            &["ZADD :pending 7 job=4"],
            Finding::OutOfOrder { id: id(4), place: Place::Pending, score: "7".into() },
        ),
        (
            &["ZADD jobs=1 0.5 job=13"],
            Finding::OutOfOrder { id: id(13), place: laned(1), score: "0.5".into() },
        ),
        (&["HSET row=4 holder ''"], Finding::EmptyField { id: id(4), field: name("holder") }),
        (&["HSET row=3 state asleep"], Finding::RowBroken { id: id(3), what: "state".into() }),
        (&["HDEL row=11 state"], Finding::RowBroken { id: id(11), what: "state".into() }),
    ]
}

fn of_lanes() -> Vec<Fault> {
    let count =
        |g, expected, found| Finding::LeaseCount { lane: tenant(g), expected, found: name(found) };
    vec![
        (&["HSET :gactive lane=1 3"], count(1, 1, "3")),
        (&["HSET :gactive lane=3 2"], count(3, 1, "2")),
        (&["HDEL :gactive lane=1"], count(1, 1, "")),
        // Too low: the lane came into the ring, as it should not.
        (&["HDEL :gactive lane=3", "RPUSH :ring lane=3"], count(3, 1, "")),
        // Too high: the lane left the ring, as it should not.
        (
            &["HSET :glimit lane=1 2", "HSET :gactive lane=1 2", "LREM :ring 0 lane=1"],
            count(1, 1, "2"),
        ),
        (&["HSET :gactive lane=5 0"], count(5, 0, "0")),
        (&["HSET :gactive lane=5 -1"], count(5, 0, "-1")),
        (&["HSET :gactive lane=1 01"], count(1, 1, "01")),
        (&["LREM :ring 0 lane=1"], Finding::LaneMissingFromRing { lane: tenant(1) }),
        (&["RPUSH :ring lane=1"], Finding::LaneTwiceInRing { lane: tenant(1) }),
        (&["RPUSH :ring lane=2"], Finding::LaneWronglyInRing { lane: tenant(2) }),
        (&["RPUSH :ring lane=3"], Finding::LaneWronglyInRing { lane: tenant(3) }),
        (&["LPUSH :ring lane=9"], Finding::LaneWronglyInRing { lane: tenant(9) }),
        (&["LPUSH :ring lane=2 lane=2"], Finding::LaneWronglyInRing { lane: tenant(2) }),
        (&["LPUSH :ring no-lane"], Finding::LaneWronglyInRing { lane: name("no-lane") }),
        (
            &["HSET :glimit lane=6 0"],
            Finding::LaneSetting { lane: tenant(6), fact: QueueFact::Glimit, value: name("0") },
        ),
        (
            &["HSET :gweight lane=1 many"],
            Finding::LaneSetting { lane: tenant(1), fact: QueueFact::Gweight, value: name("many") },
        ),
    ]
}

fn of_the_queue() -> Vec<Fault> {
    let unique = |key: &str, n| Finding::UniqueWithoutOwner { key: name(key), holder: id(n) };
    let meta =
        |field: &str, value: &str| Finding::MetaField { field: name(field), value: name(value) };
    vec![
        (&["HSET :unique gone job=99"], unique("gone", 99)),
        (&["HSET :unique other job=4"], unique("other", 4)),
        (&["DEL :unique"], Finding::UniqueNotHeld { id: id(4), key: name("key") }),
        (&["HSET :unique key job=99"], Finding::UniqueNotHeld { id: id(4), key: name("key") }),
        (&["HSET :unique key job=5"], Finding::UniqueNotHeld { id: id(4), key: name("key") }),
        (&["DEL :wake"], Finding::WakeMissing),
        (&["DEL :wake", "DEL row=4"], Finding::WakeMissing),
        // Another fault that the same look finds doesn't hide it.
        (&["DEL :wake", "HSET :meta left soon"], Finding::WakeMissing),
        (
            &[
                "RPUSH :wake 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
            ],
            Finding::WakeOver { tokens: 65 },
        ),
        (&["HSET :meta paused ''"], meta("paused", "")),
        (&["HSET :meta left soon"], meta("left", "soon")),
        (&["HSET :meta spent lane=1"], meta("spent", lane(1).as_str())),
        (&["HSET :meta spent part=2"], meta("spent", &format!("{}|1", lane(2)))),
    ]
}

async fn found_and_mended(ground: &Ground, faults: Vec<Fault>) {
    for (commands, finding) in faults {
        ground.fill().await;
        assert_eq!(ground.check(false).await, []);
        ground.plant(commands).await;
        let planted = ground.snapshot().await;
        // Seen, and nothing is touched.
        let found = ground.check(false).await;
        let is_told = |found: &[Diagnosis]| found.iter().any(|seen| seen.finding == finding);
        assert!(is_told(&found), "{commands:?}: {found:#?}");
        assert!(found.iter().all(|seen| !seen.mended && seen.finding.is_fault()), "{found:#?}");
        assert_eq!(ground.snapshot().await, planted, "{commands:?}");
        // Mended, all that goes with it too.
        let mended = ground.check(true).await;
        assert!(is_told(&mended), "{commands:?}: {mended:#?}");
        assert!(mended.iter().all(|seen| seen.mended), "{commands:?}: {mended:#?}");
        let again = ground.check(true).await;
        assert_eq!(again, [], "{commands:?}");
    }
}

#[tokio::test]
async fn faults_of_jobs() {
    found_and_mended(&Ground::new().await, of_jobs()).await;
}

#[tokio::test]
async fn faults_of_lanes() {
    found_and_mended(&Ground::new().await, of_lanes()).await;
}

#[tokio::test]
async fn faults_of_the_queue() {
    found_and_mended(&Ground::new().await, of_the_queue()).await;
}

/// One fault is one finding, however often it is met.
#[tokio::test]
async fn a_fault_of_one_kind_is_told_once() {
    let ground = Ground::new().await;
    let places = vec![Place::Active, Place::Lane(tenant(1))];
    let faults: Vec<Fault> = vec![
        // Its state says that it holds no lease, so the lane's count is right.
        (&["ZADD :active 9 job=11"], Finding::InTwoSets { id: id(11), places }),
        (&["ZREM :pending job=6"], Finding::RowWithoutSet { id: id(6), state: "pending".into() }),
        (&["DEL row=5"], Finding::SetWithoutRow { id: id(5), places: vec![Place::Pending] }),
        (&["LREM :ring 0 lane=1"], Finding::LaneMissingFromRing { lane: tenant(1) }),
        (&["RPUSH :ring lane=1"], Finding::LaneTwiceInRing { lane: tenant(1) }),
        (
            &["HSET :unique gone job=99"],
            Finding::UniqueWithoutOwner { key: name("gone"), holder: id(99) },
        ),
    ];
    for (commands, finding) in faults {
        ground.fill().await;
        ground.plant(commands).await;
        for repair in [false, true] {
            let told = [Diagnosis { finding: finding.clone(), mended: repair }];
            assert_eq!(ground.check(repair).await, told, "{commands:?}");
        }
    }
}

/// Faults that aren't mended are told each time, and nothing of them is touched.
#[tokio::test]
async fn what_is_only_reported() {
    let ground = Ground::new().await;
    let broken = |n, what: &str| Finding::RowBroken { id: id(n), what: what.into() };
    let faults: Vec<Fault> = vec![
        (&["DEL row=5", "SET row=5 text"], broken(5, "type")),
        (&["HDEL row=5 payload"], broken(5, "payload")),
        (&["HSET row=5 attempts x"], broken(5, "attempts")),
        (&["HSET row=5 attempts ''"], broken(5, "attempts")),
        (&["HSET row=5 group nobody"], broken(5, "group")),
        (&["HSET row=5 state asleep", "ZREM :pending job=5"], broken(5, "state")),
        (&["HSET row=5 unique key"], Finding::UniqueContested { id: id(5), key: name("key") }),
        (&["SET jobs=7 text"], Finding::LaneBroken { lane: tenant(7) }),
        (&["SET :stalled text"], Finding::ForeignKey { key: name("emq:{orders}:stalled") }),
        (
            &["HSET :job:nobody state pending"],
            Finding::ForeignKey { key: name("emq:{orders}:job:nobody") },
        ),
        (
            &["HSET :meta colour red"],
            Finding::MetaField { field: name("colour"), value: name("red") },
        ),
        (
            &["HSET :glimit lane=6 -1"],
            Finding::LaneSetting { lane: tenant(6), fact: QueueFact::Glimit, value: name("-1") },
        ),
    ];
    for (commands, finding) in faults {
        ground.fill().await;
        ground.plant(commands).await;
        let planted = ground.snapshot().await;
        for _ in 0..2 {
            let found = ground.check(true).await;
            assert_eq!(found, [Diagnosis { finding: finding.clone(), mended: false }]);
            assert_eq!(ground.snapshot().await, planted, "{commands:?}");
        }
    }
}

/// An expired lease isn't a fault, nor is a queue that is paused, or has nothing.
#[tokio::test]
async fn what_is_no_fault() {
    let ground = Ground::new().await;
    assert_eq!(ground.check(false).await, []);
    ground.fill().await;
    for n in [1, 10, 30] {
        ground.plant(&[&format!("ZADD :active 1 job={n}")]).await;
    }
    assert_eq!(ground.check(false).await, []);
    ground.call(QueuePause).await;
    ground.plant(&["DEL :wake"]).await;
    let (found, examined) = checkup_counted(&ground.fenced, &ground.keys, true).await;
    assert_eq!(found, []);
    // Each by its row and by its set; each lane with jobs.
    assert_eq!((examined.jobs, examined.lanes, examined.unique_keys), (2 * 14, 3, 1));
}

/// Mended jobs live on: what was lost is claimed, settled and promoted again.
#[tokio::test]
async fn what_is_mended_runs() {
    let ground = Ground::new().await;
    ground.fill().await;
    ground.plant(&["DEL :pending :active :schedule :dead jobs=1 jobs=2 jobs=3 :ring :gactive :unique :wake"]).await;
    let mended = ground.check(true).await;
    assert!(mended.iter().all(|seen| seen.mended), "{mended:#?}");
    assert_eq!(ground.check(false).await, []);
    let reap = emq_scripts::Reap { limit: 200, lost_cap: 10 };
    assert_eq!(ground.call(reap).await.returned, 3);
    assert_eq!(ground.call(emq_scripts::Promote { limit: 200 }).await, 1);
    let mut flat = Vec::new();
    while let Some(claimed) = ground.call(Claim { lease: LEASE, ticket: None }).await {
        flat.push(claimed.id);
    }
    assert_eq!(flat, [1, 3, 4, 5, 6].map(job));
    let mut laned = Vec::new();
    while let Some(claimed) = ground.call(LaneClaim { lease: LEASE, ticket: None }).await {
        laned.push(claimed.id);
    }
    laned.sort_unstable();
    // Lane 2 is parked, lane 3 at its ceiling again.
    assert_eq!(laned, [10, 11, 12, 13, 30].map(job));
    assert_eq!(ground.check(false).await, []);
}
