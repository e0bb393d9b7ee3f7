//! The verbs of a lane, and what each leaves in the keyspace.

mod ground;

use std::time::{Duration, SystemTime};

use emq_core::{
    Durability, EnqueueOptions, Enqueued, Error, Failure, JobState, Lane, NewJob, Queue, Retried,
    Switched, Verdict,
};
use emq_keys::{BrandedId, namespace};
use emq_testkit::Valkey;
use ground::raw::{everyone_parks, leases, ring, tenant, tokens};
use ground::{LONG, admitted, healthy, raw, shared, until};

/// Enqueues a new job in a lane.
async fn admit(lane: &Lane, payload: &str) -> BrandedId {
    admitted(lane.enqueue(payload).await)
}

/// Takes the next job of the ring and says which lane it is of.
async fn turn(queue: &Queue) -> Option<BrandedId> {
    let lease = queue.claim_lane(LONG).await.unwrap()?;
    Some(lease.group().unwrap())
}

#[tokio::test]
async fn a_job_of_a_lane_waits_there_and_the_ring_has_the_lane_once() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    assert_eq!((acme.id(), acme.queue().name()), (tenant("acme"), queue.name()));
    assert_eq!(acme.depth().await.unwrap(), 0);

    let first = admit(&acme, "1").await;
    assert_eq!(tokens(&queue).await, 1);
    let second = admit(&acme, "2").await;
    assert_eq!(ring(&queue).await, [acme.id()]);
    assert_eq!(tokens(&queue).await, 1);
    assert_eq!(raw::lane(&queue, acme.id()).await, [first, second]);
    assert_eq!(acme.browse(9).await.unwrap(), [second, first]);
    assert_eq!(acme.browse(1).await.unwrap(), [second]);
    assert_eq!((acme.depth().await.unwrap(), queue.depth().await.unwrap()), (2, 0));
    let record = queue.get(first).await.unwrap().unwrap();
    assert_eq!((record.state, record.group), (JobState::Pending, Some(acme.id())));
    // The flat claim doesn't see it.
    assert!(queue.claim(LONG).await.unwrap().is_none());
    healthy(&queue).await;
}

#[tokio::test]
async fn an_enqueue_is_idempotent_by_id_whatever_the_lane() {
    let (_bus, queue) = shared().await;
    let (acme, zeta) = (queue.lane(tenant("acme")), queue.lane(tenant("zeta")));
    let id = admit(&acme, "1").await;
    let same = EnqueueOptions::new().id(id);
    assert_eq!(acme.enqueue_with("1", &same).await.unwrap(), Enqueued::Duplicate(id));
    assert_eq!(zeta.enqueue_with("1", &same).await.unwrap(), Enqueued::Duplicate(id));
    assert_eq!(queue.enqueue_with("1", &same).await.unwrap(), Enqueued::Duplicate(id));
    assert_eq!(ring(&queue).await, [acme.id()]);
    assert_eq!((acme.depth().await.unwrap(), zeta.depth().await.unwrap()), (1, 0));

    // A unique key is the queue's, not the lane's; and no lane takes an id that is no job's.
    let unique = EnqueueOptions::new().unique("k");
    let holder = acme.enqueue_with("2", &unique).await.unwrap().id();
    assert_eq!(zeta.enqueue_with("2", &unique).await.unwrap(), Enqueued::Held { by: holder });
    let no_job = EnqueueOptions::new().id(tenant("acme"));
    let refused = zeta.enqueue_with("3", &no_job).await;
    assert!(matches!(refused, Err(Error::Kind { id }) if id == tenant("acme")), "{refused:?}");
    assert_eq!(ring(&queue).await, [acme.id()]);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_delayed_job_enters_its_lane_when_it_is_due() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    let at = acme.enqueue_at("1", SystemTime::now() + LONG).await.unwrap().id();
    let soon = acme.enqueue_in("2", Duration::from_millis(1)).await.unwrap().id();
    assert_eq!(acme.depth().await.unwrap(), 0);
    assert_eq!(ring(&queue).await, []);
    until("the due time", async || queue.promote(10).await.unwrap() == 1).await;
    assert_eq!(raw::lane(&queue, acme.id()).await, [soon]);
    assert_eq!(ring(&queue).await, [acme.id()]);
    let record = queue.get(at).await.unwrap().unwrap();
    assert_eq!((record.state, record.group), (JobState::Scheduled, Some(acme.id())));
    // A time that has passed means now.
    admitted(acme.enqueue_at("3", SystemTime::UNIX_EPOCH).await);
    assert_eq!(acme.depth().await.unwrap(), 2);
    healthy(&queue).await;
}

#[tokio::test]
async fn lanes_take_turns_and_leases_are_counted() {
    let (_bus, queue) = shared().await;
    let (acme, zeta) = (queue.lane(tenant("acme")), queue.lane(tenant("zeta")));
    let first = admit(&acme, "a1").await;
    admit(&acme, "a2").await;
    admit(&zeta, "z1").await;

    let lease = queue.claim_lane(LONG).await.unwrap().unwrap();
    assert_eq!((lease.id(), &lease.payload()[..]), (first, &b"a1"[..]));
    assert_eq!((lease.group(), lease.token()), (Some(acme.id()), 1));
    assert!(lease.ticket().is_some());
    assert_eq!(ring(&queue).await, [zeta.id(), acme.id()]);
    assert_eq!(leases(&queue).await, [(acme.id(), 1)].into());
    assert_eq!(turn(&queue).await, Some(zeta.id()));
    assert_eq!(turn(&queue).await, Some(acme.id()));
    assert_eq!(turn(&queue).await, None);
    assert_eq!(ring(&queue).await, []);
    assert_eq!(leases(&queue).await, [(acme.id(), 2), (zeta.id(), 1)].into());

    lease.complete().await.unwrap();
    assert_eq!(leases(&queue).await, [(acme.id(), 1), (zeta.id(), 1)].into());
    let status = acme.status().await.unwrap();
    assert_eq!((status.depth, status.leases, status.serviceable()), (0, 1, false));
    healthy(&queue).await;
}

#[tokio::test]
async fn a_claim_may_carry_a_ticket_of_the_callers_and_a_release_keeps_the_place() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    let (first, second) = (admit(&acme, "1").await, admit(&acme, "2").await);
    let lease = queue.claim_lane_as(LONG, Some("me.1")).await.unwrap().unwrap();
    assert_eq!((lease.id(), lease.ticket()), (first, Some("me.1")));
    lease.save(b"half", None).await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(raw::lane(&queue, acme.id()).await, [first, second]);
    let lease = queue.claim_lane_as(LONG, None).await.unwrap().unwrap();
    assert_eq!((lease.id(), lease.ticket(), lease.token()), (first, None, 2));
    assert_eq!(lease.checkpoint().unwrap(), "half");
    // A failure goes back to its lane when it is due, and counts no lease meanwhile.
    let retried = lease.retry(&Failure::new("no").delay(LONG)).await.unwrap();
    assert_eq!(retried, Retried::Scheduled);
    assert_eq!(leases(&queue).await, [].into());
    assert_eq!(raw::group(&queue, first).await, Some(acme.id()));
    healthy(&queue).await;
}

#[tokio::test]
async fn a_weight_gives_a_lane_more_of_a_turn_and_one_leaves_no_trace() {
    let (_bus, queue) = shared().await;
    let (acme, zeta) = (queue.lane(tenant("acme")), queue.lane(tenant("zeta")));
    assert_eq!(acme.weight(3).await.unwrap(), Switched::Changed);
    assert_eq!(acme.weight(3).await.unwrap(), Switched::Already);
    assert_eq!(raw::hash(&queue, queue.keys().gweight()).await.len(), 1);
    for n in 0..5 {
        admit(&acme, &n.to_string()).await;
        admit(&zeta, &n.to_string()).await;
    }
    let mut turns = Vec::new();
    while let Some(lane) = turn(&queue).await {
        turns.push(if lane == acme.id() { 'a' } else { 'z' });
    }
    assert_eq!(turns.iter().collect::<String>(), "aaazaazzzz");
    assert_eq!(acme.weight(1).await.unwrap(), Switched::Changed);
    assert_eq!(acme.weight(1).await.unwrap(), Switched::Already);
    assert_eq!(raw::hash(&queue, queue.keys().gweight()).await.len(), 0);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_ceiling_bounds_the_leases_and_a_settle_brings_the_lane_back() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    for n in ["1", "2", "3"] {
        admit(&acme, n).await;
    }
    assert_eq!(acme.limit(2).await.unwrap(), Switched::Changed);
    assert_eq!(acme.limit(2).await.unwrap(), Switched::Already);
    assert_eq!(raw::hash(&queue, queue.keys().glimit()).await.len(), 1);
    let lease = queue.claim_lane(LONG).await.unwrap().unwrap();
    assert_eq!(ring(&queue).await, [acme.id()]);
    assert_eq!(turn(&queue).await, Some(acme.id()));
    assert_eq!(ring(&queue).await, []);
    assert_eq!(turn(&queue).await, None);
    assert_eq!(acme.depth().await.unwrap(), 1);

    everyone_parks(&queue).await;
    lease.complete().await.unwrap();
    assert_eq!((ring(&queue).await, tokens(&queue).await), (vec![acme.id()], 1));
    // A ceiling lowered to the leases out takes the lane out; without one it is back, and wakes.
    assert_eq!(acme.limit(1).await.unwrap(), Switched::Changed);
    assert_eq!(ring(&queue).await, []);
    let status = acme.status().await.unwrap();
    assert_eq!((status.leases, status.ceiling, status.serviceable()), (1, Some(1), false));
    everyone_parks(&queue).await;
    assert_eq!(acme.unlimited().await.unwrap(), Switched::Changed);
    assert_eq!(acme.unlimited().await.unwrap(), Switched::Already);
    assert_eq!((ring(&queue).await, tokens(&queue).await), (vec![acme.id()], 1));
    assert_eq!(raw::hash(&queue, queue.keys().glimit()).await.len(), 0);
    healthy(&queue).await;
}

#[tokio::test]
async fn the_slot_of_a_lost_holder_comes_back_with_its_lease() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    acme.limit(1).await.unwrap();
    let id = admit(&acme, "1").await;
    let lease = queue.claim_lane(Duration::from_millis(1)).await.unwrap().unwrap();
    until("the end of the lease", async || queue.reap(10, 9).await.unwrap().returned == 1).await;
    assert_eq!((ring(&queue).await, leases(&queue).await), (vec![acme.id()], [].into()));
    assert!(matches!(lease.release().await, Err(Error::Stale { id: of }) if of == id));
    assert_eq!(turn(&queue).await, Some(acme.id()));
    healthy(&queue).await;
}

#[tokio::test]
async fn a_parked_lane_keeps_its_backlog_and_its_flight() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    admit(&acme, "1").await;
    admit(&acme, "2").await;
    let lease = queue.claim_lane(LONG).await.unwrap().unwrap();
    assert_eq!(acme.pause().await.unwrap(), Switched::Changed);
    assert_eq!(acme.pause().await.unwrap(), Switched::Already);
    let parked = raw::strings(&queue, &["SMEMBERS", queue.keys().paused()]).await;
    assert_eq!(parked, [acme.id().to_string()]);
    assert_eq!(ring(&queue).await, []);
    admit(&acme, "3").await;
    assert_eq!(ring(&queue).await, []);
    assert_eq!(turn(&queue).await, None);
    lease.complete().await.unwrap();
    let status = acme.status().await.unwrap();
    assert_eq!((status.depth, status.paused, status.serviceable()), (2, true, false));

    everyone_parks(&queue).await;
    assert_eq!(acme.resume().await.unwrap(), Switched::Changed);
    assert_eq!(acme.resume().await.unwrap(), Switched::Already);
    assert_eq!((ring(&queue).await, tokens(&queue).await), (vec![acme.id()], 1));
    assert_eq!(turn(&queue).await, Some(acme.id()));
    healthy(&queue).await;
}

#[tokio::test]
async fn a_paused_queue_serves_no_lane() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    admit(&acme, "1").await;
    queue.pause().await.unwrap();
    assert_eq!(turn(&queue).await, None);
    assert_eq!(ring(&queue).await, [acme.id()]);
    everyone_parks(&queue).await;
    queue.resume().await.unwrap();
    assert_eq!(tokens(&queue).await, 1);
    assert_eq!(turn(&queue).await, Some(acme.id()));
    healthy(&queue).await;
}

#[tokio::test]
async fn settings_out_of_range_are_refused_before_the_wire() {
    let (bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    let before = bus.counters().evalsha_calls;
    for value in [0, (1 << 31) + 1] {
        assert!(matches!(acme.limit(value).await, Err(Error::Setting { .. })));
        assert!(matches!(acme.weight(value).await, Err(Error::Setting { .. })));
    }
    let large = vec![0; bus.payload_cap() + 1];
    assert!(matches!(acme.enqueue(large).await, Err(Error::PayloadTooLarge { .. })));
    assert_eq!(bus.counters().evalsha_calls, before);
    assert_eq!(acme.limit(1 << 31).await.unwrap(), Switched::Changed);
    assert_eq!(acme.weight(1 << 31).await.unwrap(), Switched::Changed);
    let status = acme.status().await.unwrap();
    assert_eq!((status.ceiling, status.weight), (Some(1 << 31), 1 << 31));
}

#[tokio::test]
async fn any_identity_names_a_lane_a_jobs_too() {
    let (bus, queue) = shared().await;
    // The children of a job share its lane.
    let parent = ground::admit(&queue, "parent").await;
    let minted = bus.mint(namespace!("ZZZ")).await.unwrap();
    for id in [parent, minted, tenant("")] {
        let child = admit(&queue.lane(id), "child").await;
        let lease = queue.claim_lane(LONG).await.unwrap().unwrap();
        assert_eq!((lease.id(), lease.group()), (child, Some(id)));
        lease.complete().await.unwrap();
    }
    assert_eq!(queue.get(parent).await.unwrap().unwrap().state, JobState::Pending);
    healthy(&queue).await;
}

#[tokio::test]
async fn one_list_goes_to_fifty_lanes_and_the_flat_set() {
    let (bus, queue) = shared().await;
    let lanes: Vec<BrandedId> = (0..50).map(|n| tenant(&n.to_string())).collect();
    let mut list = Vec::new();
    for n in 0..1_020 {
        let job = NewJob::new(bus.mint_job().await.unwrap(), n.to_string());
        list.push(match n {
            0..1_000 => job.lane(lanes[n % 50]),
            1_000..1_010 => job,
            _ => job.lane(lanes[n % 50]).with(EnqueueOptions::new().delay(LONG)),
        });
    }
    assert_eq!((list[7].group(), list[1_005].group()), (Some(lanes[7]), None));
    let verdicts = queue.enqueue_many(&list).await.unwrap();
    let admitted: Vec<Verdict> = list.iter().map(|job| Verdict::Admitted(job.id())).collect();
    assert_eq!(verdicts, admitted);

    let mut turning = ring(&queue).await;
    turning.sort();
    let mut expected = lanes.clone();
    expected.sort();
    assert_eq!(turning, expected);
    for (n, id) in lanes.iter().enumerate() {
        let mut jobs: Vec<BrandedId> = (0..20).map(|round| list[n + 50 * round].id()).collect();
        jobs.sort();
        assert_eq!(raw::lane(&queue, *id).await, jobs);
    }
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.pending, counts.in_lanes, counts.scheduled), (10, 1_000, 10));
    assert!(!counts.lanes_uncounted);
    assert_eq!(raw::group(&queue, list[1_015].id()).await, list[1_015].group());
    let again = queue.enqueue_many(&list).await.unwrap();
    assert!(again.iter().all(|verdict| matches!(verdict, Verdict::Duplicate(_))));
    assert_eq!(ring(&queue).await.len(), 50);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_typed_lane_takes_values_and_keeps_the_lane() {
    let (_bus, queue) = shared().await;
    let typed = queue.typed::<(String, u32)>();
    let acme = typed.lane(tenant("acme"));
    let value = ("a".to_owned(), 1);
    let id = acme.enqueue(&value).await.unwrap().id();
    admitted(acme.enqueue_with(&value, &EnqueueOptions::new().kind("k")).await);
    admitted(acme.enqueue_in(&value, LONG).await);
    admitted(acme.enqueue_at(&value, SystemTime::now() + LONG).await);
    let job = acme.job(&value).await.unwrap();
    assert_eq!(job.group(), Some(acme.lane().id()));
    assert_eq!(queue.enqueue_many(&[job]).await.unwrap().len(), 1);
    assert_eq!(typed.payload(id).await.unwrap(), value);
    assert_eq!(acme.clone().lane().depth().await.unwrap(), 3);
    assert_eq!(queue.counts().await.unwrap().scheduled, 2);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_durable_job_of_a_lane_is_confirmed_like_any_other() {
    let valkey = Valkey::start().unwrap();
    let within = Duration::from_millis(20);
    let bus = ground::builder_on(&valkey).durable_within(within).connect().await.unwrap();
    let acme = bus.queue("work").unwrap().lane(tenant("acme"));
    let options = EnqueueOptions::new().durability(Durability::Replicated(1));
    let outcome = acme.enqueue_with("x", &options).await.unwrap();
    assert!(matches!(outcome, Enqueued::Unconfirmed(_)), "{outcome:?}");
    assert_eq!(acme.browse(9).await.unwrap(), [outcome.id()]);
    let options = EnqueueOptions::new().durability(Durability::Fsynced);
    let refused = acme.enqueue_with("x", &options).await;
    assert!(matches!(refused, Err(Error::NotDurable { written: false, .. })), "{refused:?}");
    assert_eq!(acme.depth().await.unwrap(), 1);
    healthy(acme.queue()).await;
}

#[tokio::test]
async fn a_lane_is_drained_of_what_waits_and_of_nothing_else() {
    let (bus, queue) = shared().await;
    let (acme, zeta) = (queue.lane(tenant("acme")), queue.lane(tenant("zeta")));
    let held = admit(&acme, "held").await;
    let lease = queue.claim_lane(LONG).await.unwrap().unwrap();
    let later = acme.enqueue_in("later", LONG).await.unwrap().id();
    let mut list = Vec::new();
    for n in 0..1_003 {
        list.push(NewJob::new(bus.mint_job().await.unwrap(), n.to_string()).lane(acme.id()));
    }
    queue.enqueue_many(&list).await.unwrap();
    let other = admit(&zeta, "other").await;
    let flat = queue.enqueue("flat").await.unwrap().id();
    assert_eq!(raw::ring(&queue).await, [acme.id(), zeta.id()]);
    healthy(&queue).await;

    assert_eq!(acme.drain().await.unwrap(), 1_003);
    assert_eq!(acme.depth().await.unwrap(), 0);
    assert_eq!(raw::ring(&queue).await, [zeta.id()]);
    for id in [held, later, other, flat] {
        assert!(queue.get(id).await.unwrap().is_some(), "{id}");
    }
    assert_eq!(queue.get(list[7].id()).await.unwrap(), None);
    assert_eq!(acme.status().await.unwrap().leases, 1);
    assert_eq!(acme.drain().await.unwrap(), 0);
    healthy(&queue).await;
    lease.complete().await.unwrap();
    healthy(&queue).await;
}

#[tokio::test]
async fn a_drain_passes_over_what_it_cannot_remove() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    let mut torn = Vec::new();
    for n in 0..400 {
        torn.push(admit(&acme, &n.to_string()).await);
    }
    let last = admit(&acme, "whole").await;
    // Two steps of nothing but ids whose rows are lost.
    for id in &torn {
        raw::run(&queue, &["DEL", &queue.keys().job(id)]).await;
    }
    assert_eq!(acme.drain().await.unwrap(), 1);
    assert_eq!(queue.get(last).await.unwrap(), None);
}

#[tokio::test]
async fn a_parked_lane_at_its_ceiling_is_drained_too() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    acme.limit(1).await.unwrap();
    admit(&acme, "held").await;
    let lease = queue.claim_lane(LONG).await.unwrap().unwrap();
    admit(&acme, "waits").await;
    acme.pause().await.unwrap();
    assert_eq!(acme.drain().await.unwrap(), 1);
    lease.release().await.unwrap();
    assert_eq!(acme.drain().await.unwrap(), 1);
    acme.resume().await.unwrap();
    assert_eq!((raw::ring(&queue).await, acme.depth().await.unwrap()), (vec![], 0));
    healthy(&queue).await;
}
