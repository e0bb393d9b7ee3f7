//! Each verb of a queue against a real server.

mod ground;

use std::time::{Duration, SystemTime};

use emq_core::{
    Bus, Cancelled, Completed, DrainScope, EnqueueOptions, Enqueued, Error, Extended, Failure,
    Hold, JobState, Lease, Queue, Removed, Requeued, Retried, Switched,
};
use emq_keys::{BrandedId, Namespace, namespace};
use ground::{LONG, admit, row, shared, until};

async fn claim(queue: &Queue) -> Lease {
    queue.claim(LONG).await.unwrap().expect("a job waits")
}

async fn state(queue: &Queue, id: BrandedId) -> JobState {
    queue.get(id).await.unwrap().expect("a row").state
}

#[tokio::test]
async fn a_job_without_options_has_three_fields_and_every_byte_of_its_payload() {
    let (bus, queue) = shared().await;
    let payload = b"a\r\n\0b\xff";
    let id = queue.enqueue(payload).await.unwrap().id();
    assert_eq!(id.namespace(), Namespace::JOB);
    assert_eq!(row(&bus, &queue, id).await, ["attempts", "payload", "state"]);
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.state, record.attempts), (JobState::Pending, 0));
    assert_eq!(record.payload, payload.as_slice());
    assert_eq!(queue.payload(id).await.unwrap(), payload.as_slice());
    assert_eq!(queue.depth().await.unwrap(), 1);
}

#[tokio::test]
async fn options_travel_into_the_row() {
    let (_bus, queue) = shared().await;
    let options = EnqueueOptions::new()
        .kind("invoice")
        .headers(r#"{"trace":"1"}"#)
        .max_attempts(3)
        .unique("november");
    let id = queue.enqueue_with("x", &options).await.unwrap().id();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!(record.kind.as_deref(), Some("invoice"));
    assert_eq!(record.headers.as_deref(), Some(r#"{"trace":"1"}"#));
    assert_eq!(record.max_attempts, Some(3));
    assert_eq!(record.unique.as_deref(), Some("november"));
}

#[tokio::test]
async fn an_id_of_ones_own_makes_an_enqueue_idempotent() {
    let (bus, queue) = shared().await;
    let id = bus.mint_job().await.unwrap();
    let options = EnqueueOptions::new().id(id);
    assert_eq!(queue.enqueue_with("1", &options).await.unwrap(), Enqueued::Admitted(id));
    let lease = claim(&queue).await;
    assert_eq!(queue.enqueue_with("2", &options).await.unwrap(), Enqueued::Duplicate(id));
    assert_eq!(queue.payload(id).await.unwrap(), "1");
    assert_eq!(lease.complete().await.unwrap(), Completed::Done);
    assert!(matches!(queue.payload(id).await, Err(Error::Gone { id: gone }) if gone == id));
}

#[tokio::test]
async fn an_id_of_another_kind_is_refused_before_any_write() {
    let (bus, queue) = shared().await;
    let id = bus.mint(namespace!("ORD")).await.unwrap();
    let refused = queue.enqueue_with("x", &EnqueueOptions::new().id(id)).await;
    assert!(matches!(refused, Err(Error::Kind { id: refused }) if refused == id), "{refused:?}");
    assert_eq!(queue.get(id).await.unwrap(), None);
    assert_eq!(queue.depth().await.unwrap(), 0);
}

#[tokio::test]
async fn a_unique_key_is_held_until_its_job_is_gone() {
    let (_bus, queue) = shared().await;
    let options = EnqueueOptions::new().unique("k");
    let first = queue.enqueue_with("1", &options).await.unwrap().id();
    assert_eq!(queue.enqueue_with("2", &options).await.unwrap(), Enqueued::Held { by: first });
    let later = EnqueueOptions::new().unique("k").delay(LONG);
    assert_eq!(queue.enqueue_with("2", &later).await.unwrap(), Enqueued::Held { by: first });
    assert_eq!(queue.depth().await.unwrap(), 1);
    let done = claim(&queue).await.complete().await.unwrap();
    assert_eq!(done, Completed::Done);
    assert!(matches!(queue.enqueue_with("3", &options).await.unwrap(), Enqueued::Admitted(_)));
}

#[tokio::test]
async fn a_payload_over_the_cap_is_refused_before_the_wire() {
    let (bus, _) = shared().await;
    let queue = Bus::builder(&emq_testkit::Valkey::of_this_process().url())
        .unwrap()
        .payload_cap(8)
        .connect()
        .await
        .unwrap()
        .queue(ground::fresh_name())
        .unwrap();
    let before = queue.bus().counters().commands;
    let refused = queue.enqueue("123456789").await;
    let Err(Error::PayloadTooLarge { bytes: 9, limit: 8 }) = refused else { panic!("{refused:?}") };
    assert_eq!(queue.bus().counters().commands, before);
    assert!(matches!(queue.enqueue("12345678").await.unwrap(), Enqueued::Admitted(_)));
    assert_eq!(bus.payload_cap(), 64 * 1024);
}

#[tokio::test]
async fn claims_are_in_mint_order_and_each_has_a_ticket_of_its_own() {
    let (_bus, queue) = shared().await;
    let ids = [admit(&queue, "a").await, admit(&queue, "b").await];
    let (first, second) = (claim(&queue).await, claim(&queue).await);
    assert_eq!([first.id(), second.id()], ids);
    assert_eq!((first.token(), first.payload().as_ref()), (1, b"a".as_slice()));
    assert_ne!(first.ticket(), second.ticket());
    let holder = queue.get(first.id()).await.unwrap().unwrap().holder;
    assert_eq!(holder.as_deref(), first.ticket());
    assert!(queue.claim(LONG).await.unwrap().is_none());
}

#[tokio::test]
async fn only_the_holder_settles_and_a_second_settlement_is_told_so() {
    let (bus, queue) = shared().await;
    let id = admit(&queue, "x").await;
    let lease = claim(&queue).await;
    let hold = lease.hold().clone();
    for wrong in [
        Hold { token: 2, ..hold.clone() },
        Hold { ticket: None, ..hold.clone() },
        Hold { ticket: Some("other.1".into()), ..hold.clone() },
    ] {
        let stale = |error| matches!(error, Error::Stale { id: of } if of == id);
        assert!(stale(queue.complete(&wrong).await.unwrap_err()));
        assert!(stale(queue.retry(&wrong, &Failure::new("no")).await.unwrap_err()));
        assert!(stale(queue.release(&wrong).await.unwrap_err()));
        assert!(stale(queue.extend(&wrong, LONG).await.unwrap_err()));
        assert!(stale(queue.checkpoint(&wrong, b"no", None).await.unwrap_err()));
    }
    assert_eq!(state(&queue, id).await, JobState::Active);
    assert_eq!(lease.complete().await.unwrap(), Completed::Done);
    assert_eq!(lease.complete().await.unwrap(), Completed::NoRow);
    assert_eq!(row(&bus, &queue, id).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_failed_job_is_scheduled_promoted_and_served_with_the_next_token() {
    let (_bus, queue) = shared().await;
    let id = admit(&queue, "x").await;
    let lease = claim(&queue).await;
    let failure = Failure::new("card declined").delay(Duration::from_millis(1));
    assert_eq!(lease.retry(&failure).await.unwrap(), Retried::Scheduled);
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!(record.state, JobState::Scheduled);
    assert_eq!(record.last_error.as_deref(), Some("card declined"));
    assert_eq!(record.holder, None);
    until("promotion", async || queue.promote(10).await.unwrap() == 1).await;
    assert_eq!(claim(&queue).await.token(), 2);
    // The lease of the first attempt is worth nothing now.
    assert!(matches!(lease.retry(&failure).await, Err(Error::Stale { .. })));
}

#[tokio::test]
async fn a_job_at_its_cap_is_dead_browsable_and_has_another_life() {
    let (_bus, queue) = shared().await;
    let morgue = queue.morgue();
    let options = EnqueueOptions::new().max_attempts(1);
    let id = queue.enqueue_with("x", &options).await.unwrap().id();
    let other = admit(&queue, "y").await;
    let died = claim(&queue).await.retry(&Failure::new("first")).await.unwrap();
    assert_eq!(died, Retried::Dead);
    let died = claim(&queue).await.retry(&Failure::new("second").dead()).await.unwrap();
    assert_eq!(died, Retried::Dead);
    let letters = morgue.browse(10).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.id).collect::<Vec<_>>(), [other, id]);
    assert_eq!(letters[1].last_error.as_deref(), Some("first"));
    assert_eq!(morgue.depth().await.unwrap(), 2);
    assert!(matches!(queue.cancel(id).await, Err(Error::State { id: Some(_), .. })));
    assert_eq!(morgue.requeue(id).await.unwrap(), Requeued::Done);
    assert!(matches!(morgue.requeue(id).await, Err(Error::State { .. })));
    assert_eq!(claim(&queue).await.token(), 2);
    assert_eq!(morgue.purge().await.unwrap(), 1);
    assert_eq!(morgue.requeue(other).await.unwrap(), Requeued::NoRow);
}

#[tokio::test]
async fn a_purge_by_mint_time_spares_what_is_younger() {
    let (bus, queue) = shared().await;
    let old = BrandedId::derive_at(Namespace::JOB, 1_750_000_000_000, b"old").unwrap();
    let young = bus.mint_job().await.unwrap();
    for id in [old, young] {
        let _ = queue.enqueue_with("x", &EnqueueOptions::new().id(id)).await.unwrap();
        let died = claim(&queue).await.retry(&Failure::new("no").dead()).await.unwrap();
        assert_eq!(died, Retried::Dead);
    }
    let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    assert_eq!(queue.morgue().purge_minted_before(hour_ago).await.unwrap(), 1);
    assert_eq!(queue.get(old).await.unwrap(), None);
    assert_eq!(state(&queue, young).await, JobState::Dead);
}

#[tokio::test]
async fn a_released_job_waits_again_without_blame() {
    let (_bus, queue) = shared().await;
    let id = admit(&queue, "x").await;
    claim(&queue).await.release().await.unwrap();
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.state.clone(), record.forgiven), (JobState::Pending, 1));
    assert_eq!(record.failures(), 0);
    assert_eq!(claim(&queue).await.token(), 2);
}

#[tokio::test]
async fn an_expired_lease_is_reaped_and_at_the_lost_cap_buried() {
    let (_bus, queue) = shared().await;
    let id = admit(&queue, "x").await;
    for (cap, returned, buried) in [(2, 1, 0), (2, 0, 1)] {
        let held = queue.claim(Duration::from_millis(1)).await.unwrap();
        assert!(held.is_some());
        let mut moved = (0, 0);
        until("the reaper", async || {
            let reaped = queue.reap(10, cap).await.unwrap();
            moved = (reaped.returned, reaped.buried);
            moved != (0, 0)
        })
        .await;
        assert_eq!(moved, (returned, buried));
    }
    let record = queue.get(id).await.unwrap().unwrap();
    assert_eq!((record.state, record.lost), (JobState::Dead, 2));
}

#[tokio::test]
async fn an_extension_keeps_a_lease_and_carries_a_cancel() {
    let (_bus, queue) = shared().await;
    let id = admit(&queue, "x").await;
    let lease = queue.claim(Duration::from_secs(2)).await.unwrap().unwrap();
    assert_eq!(lease.extend(LONG).await.unwrap(), Extended::Held);
    let score = queue.bus().fenced().connection();
    let cmd = emq_wire::Cmd::new("ZSCORE").arg(queue.keys().active()).arg(id);
    let deadline = score.command(cmd).await.unwrap();
    let deadline: f64 = std::str::from_utf8(deadline.as_bytes().unwrap()).unwrap().parse().unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert!(deadline - now.as_millis() as f64 > 60_000.0, "{deadline}");
    assert_eq!(queue.cancel(id).await.unwrap(), Cancelled::Asked);
    assert_eq!(lease.extend(LONG).await.unwrap(), Extended::CancelAsked);
    assert!(queue.get(id).await.unwrap().unwrap().cancel_asked);
}

#[tokio::test]
async fn a_checkpoint_survives_its_holder() {
    let (_bus, queue) = shared().await;
    admit(&queue, "x").await;
    let lease = claim(&queue).await;
    assert_eq!(lease.checkpoint(), None);
    assert_eq!(lease.save(b"page 7", None).await.unwrap(), Extended::Held);
    let large = vec![0; 64 * 1024 + 1];
    assert!(matches!(lease.save(&large, None).await, Err(Error::PayloadTooLarge { .. })));
    lease.release().await.unwrap();
    let next = claim(&queue).await;
    assert_eq!(next.checkpoint().unwrap().as_ref(), b"page 7");
}

#[tokio::test]
async fn a_delayed_job_waits_for_its_time_and_a_time_that_passed_is_now() {
    let (_bus, queue) = shared().await;
    let later = queue.enqueue_in("later", LONG).await.unwrap().id();
    let past = SystemTime::now() - Duration::from_secs(60);
    let now = queue.enqueue_at("now", past).await.unwrap().id();
    let at = SystemTime::now() + LONG;
    let then = queue.enqueue_at("then", at).await.unwrap().id();
    assert_eq!(state(&queue, later).await, JobState::Scheduled);
    assert_eq!(state(&queue, now).await, JobState::Pending);
    assert_eq!(state(&queue, then).await, JobState::Scheduled);
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.pending, counts.scheduled), (1, 2));
    let soon = queue.enqueue_in("soon", Duration::from_millis(1)).await.unwrap().id();
    until("promotion", async || queue.promote(200).await.unwrap() == 1).await;
    assert_eq!(state(&queue, soon).await, JobState::Pending);
}

#[tokio::test]
async fn what_waits_is_cancelled_or_removed_and_what_is_held_is_not_removed() {
    let (_bus, queue) = shared().await;
    let held = admit(&queue, "held").await;
    let lease = claim(&queue).await;
    let waiting = admit(&queue, "waiting").await;
    let scheduled = queue.enqueue_in("scheduled", LONG).await.unwrap().id();
    assert!(matches!(queue.remove(held).await, Err(Error::State { .. })));
    assert_eq!(queue.cancel(waiting).await.unwrap(), Cancelled::Gone);
    assert_eq!(queue.cancel(waiting).await.unwrap(), Cancelled::NoRow);
    assert_eq!(queue.remove(scheduled).await.unwrap(), Removed::Done);
    assert_eq!(queue.remove(scheduled).await.unwrap(), Removed::NoRow);
    assert_eq!(lease.complete().await.unwrap(), Completed::Done);
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.pending, counts.active), (0, 0));
    assert_eq!((counts.scheduled, counts.dead), (0, 0));
}

#[tokio::test]
async fn a_paused_queue_serves_nothing_and_loses_nothing() {
    let (_bus, queue) = shared().await;
    admit(&queue, "x").await;
    assert_eq!(queue.pause().await.unwrap(), Switched::Changed);
    assert_eq!(queue.pause().await.unwrap(), Switched::Already);
    assert!(queue.counts().await.unwrap().paused);
    assert!(queue.claim(LONG).await.unwrap().is_none());
    assert_eq!(queue.resume().await.unwrap(), Switched::Changed);
    assert_eq!(claim(&queue).await.token(), 1);
}

#[tokio::test]
async fn a_drain_deletes_what_waits_and_spares_what_is_held() {
    let (bus, queue) = shared().await;
    let mut jobs = Vec::new();
    for _ in 0..2_500 {
        jobs.push(emq_core::NewJob::new(bus.mint_job().await.unwrap(), "x"));
    }
    assert_eq!(queue.enqueue_many(&jobs).await.unwrap().len(), 2_500);
    let lease = claim(&queue).await;
    let scheduled = queue.enqueue_in("later", LONG).await.unwrap().id();
    assert_eq!(queue.drain(DrainScope::Waiting).await.unwrap(), 2_499);
    assert_eq!(state(&queue, scheduled).await, JobState::Scheduled);
    assert_eq!(queue.drain(DrainScope::WaitingAndScheduled).await.unwrap(), 1);
    assert_eq!(lease.complete().await.unwrap(), Completed::Done);
}

#[tokio::test]
async fn browsing_is_newest_first_and_a_window_is_by_mint_time() {
    let (_bus, queue) = shared().await;
    let at = |ms: u64, n: u64| {
        BrandedId::derive_at(Namespace::JOB, ms, n.to_string().as_bytes()).unwrap()
    };
    let start = 1_790_000_000_000;
    let mut ids: Vec<BrandedId> = (0..2_100).map(|n| at(start + n, n)).collect();
    let jobs: Vec<_> = ids.iter().map(|id| emq_core::NewJob::new(*id, "x")).collect();
    assert_eq!(queue.enqueue_many(&jobs).await.unwrap().len(), 2_100);
    let time = |ms: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
    let window = queue.window(time(start + 10)..time(start + 2_090)).await.unwrap();
    assert_eq!(window, ids[10..2_090]);
    assert_eq!(queue.window(time(0)..time(start)).await.unwrap(), []);
    assert_eq!(queue.window(time(start)..time(u64::from(u32::MAX) * 10_000)).await.unwrap(), ids);
    ids.reverse();
    assert_eq!(queue.browse(5).await.unwrap(), ids[..5]);
    assert_eq!(queue.browse(0).await.unwrap(), []);
}

#[tokio::test]
async fn a_typed_queue_encodes_and_decodes_and_says_when_it_cannot() {
    let (_bus, queue) = shared().await;
    let typed = queue.typed::<Vec<u32>>();
    let id = typed.enqueue(&vec![1, 2, 3]).await.unwrap().id();
    assert_eq!(typed.payload(id).await.unwrap(), [1, 2, 3]);
    assert_eq!(queue.payload(id).await.unwrap(), "[1,2,3]");
    let other = queue.typed::<String>();
    assert!(matches!(other.payload(id).await, Err(Error::Codec(_))));
    let lease = claim(&queue).await;
    assert_eq!(typed.decode(lease.payload()).unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn the_name_of_a_queue_is_checked_before_anything_else() {
    let (bus, _) = shared().await;
    for name in ["", "emq", "a:b", "a b", "{x}"] {
        assert!(matches!(bus.queue(name), Err(Error::QueueName(_))), "{name}");
    }
}

#[tokio::test]
async fn a_setting_out_of_range_is_refused_by_the_script_and_nothing_is_written() {
    let (_bus, queue) = shared().await;
    admit(&queue, "x").await;
    let refused = queue.claim(Duration::ZERO).await;
    assert!(matches!(refused, Err(Error::Call(_))), "{refused:?}");
    assert!(matches!(queue.promote(201).await, Err(Error::Call(_))));
    let empty = EnqueueOptions::new().kind("");
    assert!(matches!(queue.enqueue_with("x", &empty).await, Err(Error::Call(_))));
    assert_eq!(queue.depth().await.unwrap(), 1);
}
