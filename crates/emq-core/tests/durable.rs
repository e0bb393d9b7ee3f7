//! Durable enqueues: acknowledged, refused where nothing can be promised, unconfirmed in between.

mod ground;

use std::time::Duration;

use emq_core::{Bus, Durability, EnqueueOptions, Enqueued, Error, NewJob, NotDurable};
use emq_testkit::{Fsync, Valkey};
use ground::{bus_on, until};

fn asking(durability: Durability) -> EnqueueOptions {
    EnqueueOptions::new().durability(durability)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_synced_enqueue_survives_a_crash_and_its_resend_is_a_duplicate() {
    let valkey = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let options = asking(Durability::Fsynced);
    let Enqueued::Admitted(id) = queue.enqueue_with("x", &options).await.unwrap() else {
        panic!("not admitted")
    };
    valkey.kill9().unwrap();
    valkey.start_again().unwrap();
    let options = options.id(id);
    let mut outcome = None;
    until("the resend", async || {
        outcome = queue.enqueue_with("x", &options).await.ok();
        outcome.is_some()
    })
    .await;
    assert_eq!(outcome, Some(Enqueued::Duplicate(id)));
    let later = asking(Durability::Fsynced).delay(Duration::from_secs(600));
    assert!(matches!(queue.enqueue_with("y", &later).await.unwrap(), Enqueued::Admitted(_)));
}

#[tokio::test]
async fn many_synced_enqueues_share_their_waits() {
    let valkey = Valkey::builder().append_only(Fsync::EverySec).start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let options = asking(Durability::Fsynced);
    // With a sync a second, one after the other would take a minute and more.
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..100 {
        let (queue, options) = (queue.clone(), options.clone());
        calls.spawn(async move { queue.enqueue_with(n.to_string(), &options).await });
    }
    for outcome in calls.join_all().await {
        assert!(matches!(outcome.unwrap(), Enqueued::Admitted(_)));
    }
    assert!(ground::calls(&valkey, "waitaof") < 50);
    assert_eq!(queue.depth().await.unwrap(), 100);
}

#[tokio::test]
async fn a_sync_that_does_not_come_in_time_is_not_confirmed_and_a_resend_is_safe() {
    let valkey = Valkey::builder().append_only(Fsync::EverySec).start().unwrap();
    let builder = Bus::builder(&valkey.url()).unwrap();
    let hasty = builder.durable_within(Duration::from_millis(1)).connect().await.unwrap();
    let queue = hasty.queue("hasty").unwrap();
    let options = asking(Durability::Fsynced);
    // A sync may end within the millisecond, but the next one is a second away.
    let mut unconfirmed = None;
    for _ in 0..20 {
        if let Enqueued::Unconfirmed(id) = queue.enqueue_with("x", &options).await.unwrap() {
            unconfirmed = Some(id);
            break;
        }
    }
    let id = unconfirmed.expect("every write of twenty was synced within a millisecond");
    let (_bus, patient) = bus_on(&valkey).await;
    let patient = patient.bus().queue("hasty").unwrap();
    let again = patient.enqueue_with("x", &options.id(id)).await.unwrap();
    assert_eq!(again, Enqueued::Duplicate(id));
}

#[tokio::test]
async fn a_server_without_an_append_only_file_refuses_before_any_write() {
    let valkey = Valkey::start().unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let refused = queue.enqueue_with("x", &asking(Durability::Fsynced)).await;
    let Err(Error::NotDurable { reason: NotDurable::NoAppendOnlyFile, written: false, .. }) =
        refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!(queue.depth().await.unwrap(), 0);
    assert!(matches!(queue.enqueue("x").await.unwrap(), Enqueued::Admitted(_)));
    // Switched on meanwhile, it is found able at the next call.
    valkey.cli(&["CONFIG", "SET", "appendonly", "yes"]).unwrap();
    until("the file", async || {
        let outcome = queue.enqueue_with("x", &asking(Durability::Fsynced)).await;
        matches!(outcome, Ok(Enqueued::Admitted(_)))
    })
    .await;
}

#[tokio::test]
async fn a_server_that_never_syncs_refuses_and_one_that_hides_it_is_asked_to_wait() {
    let valkey = Valkey::builder()
        .append_only(Fsync::No)
        .acl_user("app", "on >secret ~* &* +@all -config")
        .start()
        .unwrap();
    let (_bus, queue) = bus_on(&valkey).await;
    let refused = queue.enqueue_with("x", &asking(Durability::Fsynced)).await;
    assert!(
        matches!(
            refused,
            Err(Error::NotDurable { reason: NotDurable::NeverSynced, written: false, .. })
        ),
        "{refused:?}"
    );
    assert_eq!(queue.depth().await.unwrap(), 0);
    let bus = Bus::builder(&valkey.url_as("app", "secret")).unwrap();
    let bus = bus.durable_within(Duration::from_millis(50)).connect().await.unwrap();
    let outcome = bus.queue("work").unwrap().enqueue_with("x", &asking(Durability::Fsynced)).await;
    // Whether the file happens to be synced in time is the operating system's business.
    assert!(matches!(outcome, Ok(Enqueued::Unconfirmed(_) | Enqueued::Admitted(_))), "{outcome:?}");
}

#[tokio::test]
async fn too_few_replicas_leave_a_job_unconfirmed_and_a_replica_confirms_the_resend() {
    let valkey = Valkey::start().unwrap();
    let within = Duration::from_millis(20);
    let bus = ground::builder_on(&valkey).durable_within(within).connect().await.unwrap();
    let queue = bus.queue("work").unwrap();
    let options = asking(Durability::Replicated(1)).unique("k");
    let outcome = queue.enqueue_with("x", &options).await.unwrap();
    let Enqueued::Unconfirmed(id) = outcome else { panic!("{outcome:?}") };
    assert!(matches!(outcome.confirmed(), Err(Error::Unconfirmed { id: of }) if of == id));
    assert_eq!(queue.depth().await.unwrap(), 1);
    // What wrote nothing has nothing to confirm.
    assert_eq!(queue.enqueue_with("y", &options).await.unwrap(), Enqueued::Held { by: id });

    let replica = Valkey::start().unwrap();
    let port = valkey.port().to_string();
    replica.cli(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    let options = options.id(id);
    until("the replica", async || {
        queue.enqueue_with("x", &options).await.unwrap() == Enqueued::Duplicate(id)
    })
    .await;
    assert!(replica.cli(&["HGET", &queue.keys().job(&id), "payload"]).unwrap().contains('x'));
}

/// May not read what would tell before any write that nothing is synced.
const BLIND: &str = "on >secret ~* &* +@all -config -info +info|server";

#[tokio::test]
async fn a_wait_refused_after_the_write_says_that_the_job_is_there() {
    let valkey = Valkey::builder().acl_user("app", BLIND).start().unwrap();
    let bus = Bus::connect(&valkey.url_as("app", "secret")).await.unwrap();
    let queue = bus.queue("work").unwrap();
    let options = asking(Durability::Fsynced).unique("k");
    let refused = queue.enqueue_with("x", &options).await.unwrap_err();
    let Error::NotDurable { id: Some(id), reason, written: true } = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(reason, NotDurable::NoAppendOnlyFile);
    assert!(!refused.is_retryable() && refused.to_string().contains("ran all the same"));
    assert_eq!(queue.browse(9).await.unwrap(), [id]);
    // Where nothing was written, nothing is in doubt.
    assert_eq!(queue.enqueue_with("y", &options).await.unwrap(), Enqueued::Held { by: id });
    // A resend that asks for less is a duplicate.
    let less = EnqueueOptions::new().id(id);
    assert_eq!(queue.enqueue_with("x", &less).await.unwrap(), Enqueued::Duplicate(id));
}

#[tokio::test]
async fn a_list_whose_wait_is_refused_after_the_write_is_in_doubt() {
    let valkey = Valkey::builder().acl_user("app", BLIND).start().unwrap();
    let bus = Bus::connect(&valkey.url_as("app", "secret")).await.unwrap();
    let queue = bus.queue("work").unwrap();
    let mut list = Vec::new();
    for _ in 0..2_000 {
        list.push(NewJob::new(bus.mint_job().await.unwrap(), "x"));
    }
    let error = queue.enqueue_many_with(&list, Durability::Fsynced).await.unwrap_err();
    assert!(matches!(error.cause, Error::NotDurable { id: None, written: true, .. }), "{error:?}");
    assert_eq!(error.known, []);
    // What is there is what may be there: nothing of it counts as not sent.
    let mut there = queue.browse(2_000).await.unwrap();
    there.reverse();
    assert_eq!(error.in_doubt, there);
    assert!(there.len() >= 400 && error.in_doubt.len() + error.not_sent.len() == 2_000);
}

#[tokio::test]
async fn a_user_who_may_not_wait_is_told_so() {
    let rules = "on >secret ~* &* +@all -waitaof";
    let valkey =
        Valkey::builder().append_only(Fsync::Always).acl_user("app", rules).start().unwrap();
    let bus = Bus::connect(&valkey.url_as("app", "secret")).await.unwrap();
    let queue = bus.queue("work").unwrap();
    let refused = queue.enqueue_with("x", &asking(Durability::Fsynced)).await;
    let Err(Error::NotDurable { reason: NotDurable::NoWait, written: true, .. }) = refused else {
        panic!("{refused:?}")
    };
}
