//! Which queues there are, and what is known of a job and of those that stand at a time.

mod ground;

use std::time::Duration;

use emq_core::{EnqueueOptions, Failure, Standing};
use emq_keys::{BrandedId, namespace};
use emq_testkit::Valkey;
use ground::raw::tenant;
use ground::{LONG, admit, admitted, bus_on, shared};

fn names(queues: &[emq_keys::QueueName]) -> Vec<&str> {
    queues.iter().map(emq_keys::QueueName::as_str).collect()
}

#[tokio::test]
async fn a_queue_is_found_by_whatever_it_has_and_nothing_else_is() {
    let valkey = Valkey::start().unwrap();
    let (bus, waiting) = bus_on(&valkey).await;
    assert_eq!(bus.queues().collect().await.unwrap(), []);
    assert!(!waiting.exists().await.unwrap());

    admit(&waiting, "1").await;
    let queue = |name: &str| bus.queue(name).unwrap();
    let held = queue("held");
    admit(&held, "1").await;
    let _lease = held.claim(LONG).await.unwrap().unwrap();
    let later = queue("later");
    admitted(later.enqueue_in("1", LONG).await);
    let dead = queue("dead");
    admit(&dead, "1").await;
    let lease = dead.claim(LONG).await.unwrap().unwrap();
    let _ = lease.retry(&Failure::new("x").dead()).await.unwrap();
    let lane = queue("lane").lane(tenant("acme"));
    admitted(lane.enqueue("1").await);
    let _ = lane.pause().await.unwrap();
    let _ = queue("paused").pause().await.unwrap();
    let _ = queue("limited").lane(tenant("acme")).limit(1).await.unwrap();
    for foreign in ["emq:{no good}:pending", "emq:held:pending", "other", "{emq}:x", "emq:{}:meta"]
    {
        valkey.cli(&["SET", foreign, "1"]).unwrap();
    }
    // A type of key of a version that isn't yet.
    valkey.cli(&["SET", "emq:{newer}:facts", "1"]).unwrap();

    let found = bus.queues().collect().await.unwrap();
    let all = ["dead", "held", "lane", "later", "limited", "newer", "paused", "work"];
    assert_eq!(names(&found), all);
    for name in all.iter().filter(|name| **name != "newer") {
        assert!(queue(name).exists().await.unwrap(), "{name}");
    }
    assert!(!queue("nobody").exists().await.unwrap());
}

#[tokio::test]
async fn a_large_keyspace_is_read_in_many_steps_and_each_queue_comes_once() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    for n in 0..5 {
        admit(&bus.queue(format!("q{n}")).unwrap(), "1").await;
    }
    let mut jobs = Vec::new();
    for _ in 0..5_000 {
        jobs.push(emq_core::NewJob::new(bus.mint_job().await.unwrap(), "x"));
    }
    let _ = queue.enqueue_many(&jobs).await.unwrap();
    let (mut steps, mut found) = (0, Vec::new());
    let mut queues = bus.queues();
    while let Some(some) = queues.step().await.unwrap() {
        steps += 1;
        found.extend(some);
    }
    found.sort();
    assert_eq!(names(&found), ["q0", "q1", "q2", "q3", "q4", "work"]);
    assert!(steps >= 5, "{steps}");
    assert_eq!(queues.step().await.unwrap(), None);
}

#[tokio::test]
async fn a_job_is_found_by_its_id_alone() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let id = admit(&queue, "1").await;
    admit(&bus.queue("other").unwrap(), "1").await;
    assert_eq!(names(&bus.queues_with(id).await.unwrap()), ["work"]);
    // The same id in another queue is another job.
    let twin = EnqueueOptions::new().id(id);
    admitted(bus.queue("other").unwrap().enqueue_with("1", &twin).await);
    assert_eq!(names(&bus.queues_with(id).await.unwrap()), ["other", "work"]);
    let nobody = bus.mint_job().await.unwrap();
    assert_eq!(bus.queues_with(nobody).await.unwrap(), []);
}

#[tokio::test]
async fn a_job_is_explained_in_each_of_its_states() {
    let (bus, queue) = shared().await;
    let (first, second) = (admit(&queue, "1").await, admit(&queue, "2").await);
    let lane = queue.lane(tenant("acme"));
    admitted(lane.enqueue("3").await);
    let in_lane = admitted(lane.enqueue("4").await);
    let standing = async |id| queue.explain(id).await.unwrap().unwrap().standing;
    assert_eq!(standing(first).await, Standing::Waiting { ahead: 0 });
    assert_eq!(standing(second).await, Standing::Waiting { ahead: 1 });
    assert_eq!(standing(in_lane).await, Standing::Waiting { ahead: 1 });

    let lease = queue.claim(Duration::from_secs(60)).await.unwrap().unwrap();
    let job = queue.explain(first).await.unwrap().unwrap();
    let Standing::Held { left } = job.standing else { panic!("{job:?}") };
    assert!(left > Duration::from_secs(30) && left <= Duration::from_secs(60), "{left:?}");
    assert_eq!(job.record.holder.as_deref(), lease.ticket());
    assert_eq!(job.minted() + job.age(), job.server_time);

    let _ = lease.retry(&Failure::new("x").delay(LONG)).await.unwrap();
    let Standing::Due { left } = standing(first).await else { panic!("not due") };
    assert!(left > LONG / 2 && left <= LONG, "{left:?}");
    let lease = queue.claim(LONG).await.unwrap().unwrap();
    let _ = lease.retry(&Failure::new("x").dead()).await.unwrap();
    assert_eq!(standing(second).await, Standing::Dead);
    assert_eq!(queue.explain(bus.mint_job().await.unwrap()).await.unwrap(), None);
}

#[tokio::test]
async fn a_lease_that_is_over_has_nothing_left_and_a_torn_job_is_nowhere() {
    let (bus, queue) = shared().await;
    let id = admit(&queue, "1").await;
    let _lease = queue.claim(Duration::from_millis(1)).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let job = queue.explain(id).await.unwrap().unwrap();
    assert_eq!(job.standing, Standing::Held { left: Duration::ZERO });
    let torn = emq_wire::Cmd::new("ZREM").arg(queue.keys().active()).arg(id.as_bytes());
    bus.fenced().connection().command(torn).await.unwrap();
    assert_eq!(queue.explain(id).await.unwrap().unwrap().standing, Standing::Nowhere);
    let _ = queue.doctor().repair().await.unwrap();
}

#[tokio::test]
async fn those_that_stand_at_a_time_come_by_it_with_who_has_them() {
    let (_bus, queue) = shared().await;
    assert_eq!(queue.leased(9).await.unwrap(), []);
    let lane = queue.lane(tenant("acme"));
    let named = EnqueueOptions::new().kind("mail");
    let first = admitted(lane.enqueue_with("1", &named).await);
    let second = admit(&queue, "2").await;
    let long = queue.claim_lane(LONG).await.unwrap().unwrap();
    let short = queue.claim(Duration::from_secs(60)).await.unwrap().unwrap();

    let held = queue.leased(9).await.unwrap();
    assert_eq!(held.iter().map(|job| job.id).collect::<Vec<_>>(), [second, first]);
    assert_eq!((held[0].holder.as_deref(), held[0].lane), (short.ticket(), None));
    assert_eq!((held[1].lane, held[1].kind.as_deref()), (Some(lane.id()), Some("mail")));
    assert_eq!((held[1].attempts, held[1].holder.as_deref()), (1, long.ticket()));
    // Both claims are this bus'.
    assert!(held[0].worker().is_some() && held[0].worker() == held[1].worker());
    assert!(!held[0].worker().unwrap().contains('.'));
    assert!(held[0].left <= Duration::from_secs(60) && held[1].left > Duration::from_secs(60));
    assert_eq!(queue.leased(1).await.unwrap().len(), 1);
    assert_eq!(queue.leased(0).await.unwrap(), []);

    let later = admitted(queue.enqueue_in("3", LONG).await);
    let sooner = admitted(queue.enqueue_in("4", LONG / 2).await);
    let due = queue.scheduled(9).await.unwrap();
    assert_eq!(due.iter().map(|job| job.id).collect::<Vec<_>>(), [sooner, later]);
    assert_eq!((due[0].holder.as_deref(), due[0].worker(), due[0].attempts), (None, None, 0));
    assert!(due[0].left > Duration::ZERO && due[0].left <= LONG / 2);
}

#[tokio::test]
async fn a_lane_alone_makes_a_queue() {
    let (bus, queue) = shared().await;
    let lane = BrandedId::derive(namespace!("TEN"), b"x").unwrap();
    admitted(queue.lane(lane).enqueue("1").await);
    let _ = queue.lane(lane).limit(1).await.unwrap();
    // At its ceiling it is neither in the ring nor parked.
    let _lease = queue.claim_lane(LONG).await.unwrap().unwrap();
    admitted(queue.lane(lane).enqueue("2").await);
    assert!(queue.exists().await.unwrap());
    assert!(bus.queues().collect().await.unwrap().contains(queue.name()));
}
