//! The doctor: finds nothing in a healthy queue, also while it runs, and finds and mends what was
//! planted behind the library's back.

mod ground;

use std::time::Duration;

use emq_core::{
    DoctorReport, EnqueueOptions, Failure, Finding, JobState, NewJob, Place, Queue, Switched,
};
use emq_keys::BrandedId;
use ground::raw::{self, tenant};
use ground::{LONG, admit, admitted, bus_on, healthy, shared};

/// A wake that is missing for so long is lost: nobody works in these tests.
const NOBODY: Duration = Duration::from_millis(1);

/// A queue with something of everything.
async fn furnish(queue: &Queue) {
    let (acme, zeta) = (queue.lane(tenant("acme")), queue.lane(tenant("zeta")));
    acme.limit(1).await.unwrap();
    acme.weight(2).await.unwrap();
    zeta.pause().await.unwrap();
    for n in 0..5 {
        admit(queue, n.to_string()).await;
        admitted(acme.enqueue("a").await);
        admitted(zeta.enqueue("z").await);
        admitted(acme.enqueue_in("later", LONG).await);
    }
    let unique = EnqueueOptions::new().unique("k").kind("mail").headers("{}").max_attempts(3);
    admitted(queue.enqueue_with("u", &unique).await);
    let lease = queue.claim(LONG).await.unwrap().unwrap();
    lease.save(b"half", None).await.unwrap();
    let doomed = queue.claim(LONG).await.unwrap().unwrap();
    doomed.retry(&Failure::new("no").dead()).await.unwrap();
    assert!(queue.claim_lane(LONG).await.unwrap().is_some());
}

/// Lets the doctor look twice and mend once. The looks agree and change nothing; the mending finds
/// what they found; after it, nothing is left but what only an operator can decide.
async fn cure(queue: &Queue) -> DoctorReport {
    let doctor = queue.doctor().wake_patience(NOBODY);
    let found = doctor.examine().await.unwrap();
    assert!(!found.is_healthy());
    assert!(found.diagnoses.iter().all(|diagnosis| !diagnosis.mended), "{found:#?}");
    assert_eq!(doctor.examine().await.unwrap().diagnoses.len(), found.diagnoses.len());
    let mended = doctor.repair().await.unwrap();
    let left: Vec<_> = mended.unmended().cloned().collect();
    let after = doctor.examine().await.unwrap();
    assert_eq!(after.diagnoses, left, "{after:#?}");
    mended
}

/// Lets the doctor mend all there is; answers what it was.
async fn cured(queue: &Queue) -> Vec<Finding> {
    let report = cure(queue).await;
    assert_eq!(report.unmended().next(), None, "{report:#?}");
    report.diagnoses.into_iter().map(|diagnosis| diagnosis.finding).collect()
}

#[tokio::test]
async fn nothing_is_found_where_nothing_is_wrong() {
    let (_bus, queue) = shared().await;
    healthy(&queue).await;
    furnish(&queue).await;
    let report = queue.doctor().examine().await.unwrap();
    assert!(report.is_healthy() && report.diagnoses.is_empty(), "{report:#?}");
    assert_eq!(report.examined.unique_keys, 1);
    assert!(report.examined.jobs >= 21 && report.examined.lanes >= 2, "{report:#?}");
    // Mending what isn't broken changes nothing.
    let before = queue.counts().await.unwrap();
    assert_eq!(queue.doctor().repair().await.unwrap().diagnoses, []);
    assert_eq!(queue.counts().await.unwrap(), before);
}

#[tokio::test]
async fn a_row_that_no_set_knows_is_brought_back() {
    let (_bus, queue) = shared().await;
    let flat = admit(&queue, "1").await;
    let acme = queue.lane(tenant("acme"));
    let in_lane = admitted(acme.enqueue("2").await);
    let later = admitted(queue.enqueue_in("3", LONG).await);
    let held = queue.claim(LONG).await.unwrap().unwrap();
    assert_eq!(held.id(), flat);
    raw::run(&queue, &["DEL", queue.keys().active(), queue.keys().schedule()]).await;
    raw::run(&queue, &["DEL", &queue.keys().lane(&acme.id()), queue.keys().ring()]).await;
    let lost = |id: BrandedId, state: &str| Finding::RowWithoutSet {
        id: id.into(),
        state: state.to_owned(),
    };
    let mut found = cured(&queue).await;
    for finding in [lost(flat, "active"), lost(in_lane, "pending"), lost(later, "scheduled")] {
        let at = found.iter().position(|one| *one == finding);
        found.remove(at.unwrap_or_else(|| panic!("{finding:?} isn't in {found:#?}")));
    }
    assert_eq!(found, []);
    // Each goes on from where it is: the lease is over, the schedule is due, the lane turns.
    assert_eq!(queue.reap(10, 9).await.unwrap().returned, 1);
    assert_eq!(queue.promote(10).await.unwrap(), 1);
    assert_eq!(queue.claim_lane(LONG).await.unwrap().unwrap().id(), in_lane);
    assert_eq!(queue.depth().await.unwrap(), 2);
}

#[tokio::test]
async fn ids_in_wrong_sets_are_put_right() {
    let (bus, queue) = shared().await;
    let waits = admit(&queue, "1").await;
    let dead = admit(&queue, "2").await;
    let ghost = bus.mint_job().await.unwrap();
    let ghost_text = ghost.to_string();
    raw::run(&queue, &["ZADD", queue.keys().pending(), "0", &ghost_text]).await;
    raw::run(&queue, &["ZADD", queue.keys().dead(), "0", waits.as_str()]).await;
    raw::run(&queue, &["HSET", &queue.keys().job(&dead), "state", "dead"]).await;
    let found = cured(&queue).await;
    assert!(
        found.contains(&Finding::SetWithoutRow { id: ghost.into(), places: vec![Place::Pending] })
    );
    assert!(found.contains(&Finding::InTwoSets {
        id: waits.into(),
        places: vec![Place::Pending, Place::Dead],
    }));
    assert!(found.contains(&Finding::StateDisagrees {
        id: dead.into(),
        state: "dead".to_owned(),
        places: vec![Place::Pending],
    }));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert_eq!(queue.browse(9).await.unwrap(), [waits]);
    let buried = queue.morgue().browse(9).await.unwrap();
    assert_eq!((buried.len(), buried[0].id, &buried[0].state), (1, dead, &JobState::Dead));
}

#[tokio::test]
async fn the_ring_and_the_leases_are_brought_back_to_what_the_lanes_are() {
    let (_bus, queue) = shared().await;
    let lanes: Vec<_> = ["gone", "twice", "empty"].map(|name| queue.lane(tenant(name))).into();
    admitted(lanes[0].enqueue("1").await);
    admitted(lanes[1].enqueue("1").await);
    let ring = queue.keys().ring();
    raw::run(&queue, &["LREM", ring, "0", lanes[0].id().as_str()]).await;
    raw::run(&queue, &["RPUSH", ring, lanes[1].id().as_str()]).await;
    raw::run(&queue, &["RPUSH", ring, lanes[2].id().as_str()]).await;
    raw::run(&queue, &["HSET", queue.keys().gactive(), lanes[2].id().as_str(), "7"]).await;
    raw::run(&queue, &["HSET", queue.keys().glimit(), lanes[0].id().as_str(), "none"]).await;
    let found = cured(&queue).await;
    for finding in [
        Finding::LaneMissingFromRing { lane: lanes[0].id().into() },
        Finding::LaneTwiceInRing { lane: lanes[1].id().into() },
        Finding::LaneWronglyInRing { lane: lanes[2].id().into() },
    ] {
        assert!(found.contains(&finding), "{finding:?} isn't in {found:#?}");
    }
    assert!(found.iter().any(|one| matches!(one, Finding::LeaseCount { expected: 0, .. })));
    assert!(found.iter().any(|one| matches!(one, Finding::LaneSetting { .. })));
    assert_eq!(found.len(), 5, "{found:#?}");
    assert_eq!(raw::ring(&queue).await.len(), 2);
    assert_eq!(lanes[2].status().await.unwrap().leases, 0);
    assert_eq!(lanes[0].limit(1).await.unwrap(), Switched::Changed);
}

#[tokio::test]
async fn facts_of_the_queue_that_mean_nothing_are_mended() {
    let (_bus, queue) = shared().await;
    admit(&queue, "1").await;
    raw::run(&queue, &["HSET", queue.keys().meta(), "left", "some"]).await;
    for _ in 0..70 {
        raw::run(&queue, &["RPUSH", queue.keys().wake(), "1"]).await;
    }
    let found = cured(&queue).await;
    assert!(found.iter().any(|one| matches!(one, Finding::MetaField { .. })));
    assert!(found.contains(&Finding::WakeOver { tokens: 71 }));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(raw::tokens(&queue).await, 64);
}

#[tokio::test]
async fn unique_keys_and_a_lost_wake_are_mended() {
    let (bus, queue) = shared().await;
    let unique = EnqueueOptions::new().unique("mine");
    let owner = admitted(queue.enqueue_with("1", &unique).await);
    let nobody = bus.mint_job().await.unwrap();
    raw::run(&queue, &["HSET", queue.keys().unique(), "free", nobody.as_str()]).await;
    raw::run(&queue, &["HDEL", queue.keys().unique(), "mine"]).await;
    raw::everyone_parks(&queue).await;
    let found = cured(&queue).await;
    assert!(found.iter().any(|one| matches!(one, Finding::UniqueWithoutOwner { .. })));
    assert!(found.iter().any(|one| matches!(one, Finding::UniqueNotHeld { .. })));
    assert!(found.contains(&Finding::WakeMissing));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert_eq!(raw::tokens(&queue).await, 1);
    let held = queue.enqueue_with("2", &unique).await.unwrap();
    assert_eq!(held, emq_core::Enqueued::Held { by: owner });
    admitted(queue.enqueue_with("3", &EnqueueOptions::new().unique("free")).await);
}

#[tokio::test]
async fn what_only_an_operator_can_decide_is_told_and_left() {
    let (_bus, queue) = shared().await;
    let broken = admit(&queue, "1").await;
    raw::run(&queue, &["HDEL", &queue.keys().job(&broken), "payload"]).await;
    let foreign = format!("{}note", queue.keys().base());
    raw::run(&queue, &["SET", &foreign, "x"]).await;
    let report = cure(&queue).await;
    let left: Vec<_> = report.unmended().map(|diagnosis| &diagnosis.finding).collect();
    assert_eq!((left.len(), report.diagnoses.len()), (2, 2), "{report:#?}");
    assert!(left.iter().any(|one| matches!(one, Finding::ForeignKey { .. })));
    let row = left.iter().find_map(|one| match one {
        Finding::RowBroken { id, what } => Some((id.id(), what.as_str())),
        _ => None,
    });
    assert_eq!(row, Some((Some(broken), "payload")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_runs_raises_no_false_alarm() {
    let valkey = emq_testkit::Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    furnish(&queue).await;
    let lanes: Vec<_> = (0..40).map(|n| queue.lane(tenant(&n.to_string()))).collect();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut at_work = tokio::task::JoinSet::new();
    for n in 0..3_usize {
        let (bus, queue, lanes, stopped) =
            (bus.clone(), queue.clone(), lanes.clone(), stopped.clone());
        at_work.spawn(async move {
            let mut round = n;
            while !*stopped.borrow() {
                let mut list = Vec::new();
                for lane in &lanes {
                    list.push(NewJob::new(bus.mint_job().await.unwrap(), "x").lane(lane.id()));
                    list.push(NewJob::new(bus.mint_job().await.unwrap(), "x"));
                }
                queue.enqueue_many(&list).await.unwrap();
                for _ in 0..40 {
                    round += 1;
                    let lease = match round % 2 {
                        0 => queue.claim(LONG).await.unwrap(),
                        _ => queue.claim_lane(LONG).await.unwrap(),
                    };
                    let Some(lease) = lease else { continue };
                    match round % 5 {
                        0 => lease.release().await.unwrap(),
                        1 => drop(lease.retry(&Failure::new("no")).await.unwrap()),
                        _ => drop(lease.complete().await.unwrap()),
                    }
                }
                queue.promote(100).await.unwrap();
            }
        });
    }
    for _ in 0..10 {
        let doctor = queue.doctor();
        let report = tokio::spawn(async move { doctor.examine().await }).await.unwrap().unwrap();
        assert!(report.is_healthy(), "{report:#?}");
        assert!(report.examined.jobs > 20, "{report:#?}");
    }
    stop.send(true).unwrap();
    ground::soon("the work", at_work.join_all()).await;
    healthy(&queue).await;
}
