//! What an operator does to jobs and queues: other lanes, other lives, the end.

mod ground;

use std::collections::HashSet;
use std::time::Duration;

use emq_core::{
    Cancelled, DrainScope, EnqueueOptions, Error, Failure, JobState, NewJob, Queue, Reassigned,
    Requeued, RequeuedAll,
};
use emq_keys::BrandedId;
use ground::raw::{self, everyone_parks, ring, tenant, tokens};
use ground::{LONG, admit, admitted, healthy, shared, until};

/// Enqueues many jobs, flat or in a lane.
async fn fill(queue: &Queue, lane: Option<BrandedId>, jobs: usize) -> Vec<BrandedId> {
    let mut list = Vec::new();
    for _ in 0..jobs {
        let job = NewJob::new(queue.bus().mint_job().await.unwrap(), "x");
        list.push(if let Some(lane) = lane { job.lane(lane) } else { job });
    }
    assert_eq!(queue.enqueue_many(&list).await.unwrap().len(), jobs);
    list.iter().map(NewJob::id).collect()
}

/// The keys that a queue has.
async fn keys(queue: &Queue) -> Vec<String> {
    raw::strings(queue, &["KEYS", &format!("{}*", queue.keys().base())]).await
}

#[tokio::test]
async fn a_waiting_job_changes_lanes_and_keeps_its_place_in_time() {
    let (_bus, queue) = shared().await;
    let (acme, zeta) = (tenant("acme"), tenant("zeta"));
    let old = admit(&queue, "1").await;
    let young = admitted(queue.lane(zeta).enqueue("2").await);
    assert_eq!(queue.reassign(old, Some(acme)).await.unwrap(), Reassigned::Moved);
    assert_eq!((queue.depth().await.unwrap(), raw::lane(&queue, acme).await), (0, vec![old]));
    assert_eq!(ring(&queue).await, [zeta, acme]);
    assert_eq!(queue.reassign(old, Some(acme)).await.unwrap(), Reassigned::Already);
    assert_eq!(queue.reassign(old, Some(zeta)).await.unwrap(), Reassigned::Moved);
    assert_eq!(raw::lane(&queue, zeta).await, [old, young]);
    assert_eq!((ring(&queue).await, raw::group(&queue, old).await), (vec![zeta], Some(zeta)));
    assert_eq!(queue.reassign(old, None).await.unwrap(), Reassigned::Moved);
    assert_eq!((queue.browse(9).await.unwrap(), raw::group(&queue, old).await), (vec![old], None));
    let gone = queue.bus().mint_job().await.unwrap();
    assert_eq!(queue.reassign(gone, None).await.unwrap(), Reassigned::NoRow);
    healthy(&queue).await;
}

#[tokio::test]
async fn a_move_out_of_a_parked_lane_wakes_someone() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    acme.pause().await.unwrap();
    let id = admitted(acme.enqueue("1").await);
    everyone_parks(&queue).await;
    assert_eq!(queue.reassign(id, None).await.unwrap(), Reassigned::Moved);
    assert_eq!(tokens(&queue).await, 1);
}

#[tokio::test]
async fn a_job_that_doesnt_wait_enters_its_new_lane_later_and_a_leased_one_stays() {
    let (_bus, queue) = shared().await;
    let (acme, zeta) = (tenant("acme"), tenant("zeta"));
    let lane = queue.lane(acme);
    // Scheduled.
    let scheduled = admitted(lane.enqueue_in("1", Duration::from_millis(20)).await);
    assert_eq!(queue.reassign(scheduled, Some(zeta)).await.unwrap(), Reassigned::Moved);
    until("the due time", async || queue.promote(10).await.unwrap() == 1).await;
    assert_eq!(raw::lane(&queue, zeta).await, [scheduled]);
    // Active.
    let lease = queue.claim_lane(LONG).await.unwrap().unwrap();
    let refused = queue.reassign(scheduled, Some(acme)).await.unwrap_err();
    assert!(matches!(refused, Error::State { id: Some(id), .. } if id == scheduled), "{refused:?}");
    assert_eq!(queue.reassign(scheduled, Some(zeta)).await.unwrap(), Reassigned::Already);
    assert_eq!(raw::group(&queue, scheduled).await, Some(zeta));
    // Dead.
    lease.retry(&Failure::new("no").dead()).await.unwrap();
    assert_eq!(queue.reassign(scheduled, Some(acme)).await.unwrap(), Reassigned::Moved);
    assert_eq!(ring(&queue).await, []);
    assert_eq!(queue.morgue().requeue(scheduled).await.unwrap(), Requeued::Done);
    assert_eq!((raw::lane(&queue, acme).await, ring(&queue).await), (vec![scheduled], vec![acme]));
    healthy(&queue).await;
}

#[tokio::test]
async fn a_backlog_moves_whole_in_steps() {
    let (_bus, queue) = shared().await;
    let (acme, zeta) = (tenant("acme"), tenant("zeta"));
    let jobs = fill(&queue, Some(acme), 450).await;
    assert_eq!(queue.reassign_backlog(Some(acme), Some(zeta)).await.unwrap(), 450);
    assert_eq!((raw::lane(&queue, zeta).await, ring(&queue).await), (jobs.clone(), vec![zeta]));
    assert_eq!(queue.reassign_backlog(Some(acme), Some(zeta)).await.unwrap(), 0);
    assert_eq!(queue.reassign_backlog(Some(zeta), None).await.unwrap(), 450);
    assert_eq!((queue.depth().await.unwrap(), ring(&queue).await), (450, vec![]));
    assert_eq!(raw::group(&queue, jobs[449]).await, None);
    let refused = queue.reassign_backlog(Some(acme), Some(acme)).await;
    assert!(matches!(refused, Err(Error::Call(_))), "{refused:?}");
    healthy(&queue).await;
}

#[tokio::test]
async fn verbs_of_a_job_keep_its_lane_in_order() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    acme.limit(1).await.unwrap();
    let held = admitted(acme.enqueue("1").await);
    let waits = admitted(acme.enqueue("2").await);
    let lease = queue.claim_lane(LONG).await.unwrap().unwrap();
    assert_eq!(queue.cancel(held).await.unwrap(), Cancelled::Asked);
    assert_eq!(queue.cancel(waits).await.unwrap(), Cancelled::Gone);
    lease.complete().await.unwrap();
    assert_eq!((ring(&queue).await, acme.status().await.unwrap().leases), (vec![], 0));
    fill(&queue, Some(acme.id()), 1_500).await;
    fill(&queue, None, 600).await;
    assert_eq!(queue.drain(DrainScope::Waiting).await.unwrap(), 2_100);
    assert_eq!((acme.depth().await.unwrap(), ring(&queue).await), (0, vec![]));
    assert_eq!(acme.status().await.unwrap().ceiling, Some(1));
    healthy(&queue).await;
}

/// Gives a queue dead letters, some flat and some in lanes.
async fn bury(queue: &Queue, flat: usize, in_lanes: usize) -> Vec<BrandedId> {
    let mut dead = fill(queue, None, flat).await;
    for n in 0..4 {
        dead.extend(fill(queue, Some(tenant(&n.to_string())), in_lanes / 4).await);
    }
    let failure = Failure::new("no").dead();
    while let Some(lease) = queue.claim(LONG).await.unwrap() {
        lease.retry(&failure).await.unwrap();
    }
    while let Some(lease) = queue.claim_lane(LONG).await.unwrap() {
        lease.retry(&failure).await.unwrap();
    }
    dead
}

#[tokio::test]
async fn a_thousand_dead_letters_live_again_each_in_its_place() {
    let (_bus, queue) = shared().await;
    bury(&queue, 400, 640).await;
    everyone_parks(&queue).await;
    let mut told = Vec::new();
    let done = queue.morgue().requeue_all_with(|so_far| told.push(so_far)).await.unwrap();
    assert_eq!((done.requeued, done.gone), (1_040, 0));
    let steps: Vec<u64> = told.iter().map(|so_far| so_far.requeued).collect();
    assert_eq!(steps, [200, 400, 600, 800, 1_000, 1_040]);
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.pending, counts.in_lanes, counts.dead), (400, 640, 0));
    assert_eq!((ring(&queue).await.len(), tokens(&queue).await), (4, 1));
    let lease = queue.claim(LONG).await.unwrap().unwrap();
    let record = queue.get(lease.id()).await.unwrap().unwrap();
    assert_eq!((record.attempts, record.failures()), (2, 1));
    assert_eq!(queue.morgue().requeue_all().await.unwrap(), RequeuedAll::default());
    healthy(&queue).await;
}

#[tokio::test]
async fn what_leaves_the_morgue_while_all_of_it_is_requeued_is_told_apart() {
    let (_bus, queue) = shared().await;
    let dead = bury(&queue, 300, 0).await;
    // A torn past: the morgue names a job that has no row.
    raw::run(&queue, &["DEL", &queue.keys().job(&dead[250])]).await;
    let done = queue.morgue().requeue_all().await.unwrap();
    assert_eq!((done.requeued, done.gone), (299, 1));
    assert_eq!(queue.depth().await.unwrap(), 299);
}

#[tokio::test]
async fn only_a_paused_queue_without_flight_is_obliterated() {
    let (_bus, queue) = shared().await;
    let acme = queue.lane(tenant("acme"));
    let unique = EnqueueOptions::new().unique("k");
    let id = queue.enqueue_with("1", &unique).await.unwrap().id();
    admitted(acme.enqueue("2").await);
    admitted(queue.enqueue_in("3", LONG).await);
    acme.limit(3).await.unwrap();
    acme.weight(3).await.unwrap();
    queue.lane(tenant("zeta")).pause().await.unwrap();
    bury(&queue, 0, 0).await;
    let refused = queue.obliterate().await.unwrap_err();
    assert!(matches!(refused, Error::State { id: None, .. }), "{refused:?}");
    assert!(refused.to_string().contains("the state of the queue"), "{refused}");

    assert_eq!(queue.morgue().requeue_all().await.unwrap().requeued, 2);
    queue.pause().await.unwrap();
    assert_eq!(queue.obliterate().await.unwrap(), 3);
    assert_eq!(keys(&queue).await, Vec::<String>::new());
    // Nothing of it lives on: the name is a new queue's, the id and the unique key are free.
    assert_eq!(queue.obliterate().await.unwrap(), 0);
    admitted(queue.enqueue_with("1", &unique.id(id)).await);
    assert!(!queue.counts().await.unwrap().paused);
}

#[tokio::test]
async fn flight_goes_only_when_asked_for_and_its_holder_learns_of_it() {
    let (_bus, queue) = shared().await;
    fill(&queue, None, 1_200).await;
    fill(&queue, Some(tenant("acme")), 1_200).await;
    let flat = queue.claim(LONG).await.unwrap().unwrap();
    let lane = queue.claim_lane(LONG).await.unwrap().unwrap();
    queue.pause().await.unwrap();
    assert!(matches!(queue.obliterate().await, Err(Error::State { id: None, .. })));
    assert_eq!(queue.counts().await.unwrap().active, 2);
    assert_eq!(queue.obliterate_in_flight().await.unwrap(), 2_400);
    assert_eq!(keys(&queue).await, Vec::<String>::new());
    for lease in [flat, lane] {
        assert!(matches!(lease.extend(LONG).await, Err(Error::Stale { .. })));
        assert_eq!(lease.complete().await.unwrap(), emq_core::Completed::NoRow);
    }
    assert_eq!(keys(&queue).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_goes_on_loses_what_went_and_starts_a_new_queue() {
    let (_bus, queue) = shared().await;
    fill(&queue, None, 3_000).await;
    fill(&queue, Some(tenant("acme")), 3_000).await;
    queue.pause().await.unwrap();
    let (started, mut running) = tokio::sync::mpsc::channel(1);
    let (stop, mut stopped) = tokio::sync::oneshot::channel();
    let producer = tokio::spawn({
        let (queue, lane) = (queue.clone(), queue.lane(tenant("zeta")));
        async move {
            let mut sent = HashSet::new();
            while stopped.try_recv().is_err() {
                sent.insert(admitted(queue.enqueue("y").await));
                sent.insert(admitted(lane.enqueue("y").await));
                // Full after the first: nobody listens any more.
                let _ = started.try_send(());
            }
            sent
        }
    });
    ground::soon("the producer", running.recv()).await.unwrap();
    let removed = queue.obliterate().await.unwrap();
    stop.send(()).unwrap();
    let sent = producer.await.unwrap();

    // Each job went, or is whole in the new queue.
    let counts = queue.counts().await.unwrap();
    assert_eq!(removed + counts.pending + counts.in_lanes, 6_000 + sent.len() as u64);
    assert!(removed >= 6_001, "{removed}");
    let left = queue.browse(usize::MAX).await.unwrap();
    assert!(left.iter().all(|id| sent.contains(id)));
    for record in queue.get_many(&left).await.unwrap() {
        assert_eq!(record.unwrap().state, JobState::Pending);
    }
    assert!(!counts.paused);
    healthy(&queue).await;
}
