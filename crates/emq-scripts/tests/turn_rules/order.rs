//! The order of a turn's parts: each sees what the ones before it did, in the same call.

use emq_scripts::{ExtendVerdict, Extension, SettleOutcome, SettleVerdict, Turn, When};

use super::queue::{InHand, LEASE, Queue, TURN};
use crate::support::{job, lane};

const NOW: SettleOutcome<'static> =
    SettleOutcome::Retry { delay: std::time::Duration::ZERO, error: "again", force_dead: false };

fn extension(held: &InHand) -> Extension<'static> {
    Extension { id: held.job.id, token: held.job.token, ticket: None }
}

#[tokio::test]
async fn what_a_retry_makes_due_at_once_is_promoted_and_claimed() {
    let queue = Queue::new().await;
    queue.admit(1, None).await;
    let held = queue.claim(1).await;
    let settles = [held[0].settle(NOW)];
    let turned = queue.turn(Turn { claim: 1, promote: 1, settles: &settles, ..TURN }).await;
    assert_eq!(turned.verdicts, [SettleVerdict::Scheduled]);
    assert_eq!((turned.jobs[0].id, turned.jobs[0].token), (job(1), 2));
}

#[tokio::test]
async fn an_expired_lease_that_is_extended_is_not_reaped_in_the_same_call() {
    let queue = Queue::new().await;
    queue.admit_all(1, 2, None).await;
    let held = queue.claim(2).await;
    queue.expire(&held[0]).await;
    queue.expire(&held[1]).await;
    let extensions = [extension(&held[0])];
    let turned = queue.turn(Turn { reap: 9, claim: 9, extensions: &extensions, ..TURN }).await;
    assert_eq!(turned.extensions, [ExtendVerdict::Held]);
    // The other was reaped, and claimed again.
    assert_eq!(turned.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [job(2)]);
    assert_eq!(turned.jobs[0].token, 2);
}

#[tokio::test]
async fn a_settle_comes_before_the_reaper() {
    let queue = Queue::new().await;
    queue.admit(1, Some(0)).await;
    let held = queue.claim(1).await;
    queue.expire(&held[0]).await;
    let settles = [held[0].settle(SettleOutcome::Complete)];
    let turned = queue.turn(Turn { reap: 9, claim: 9, settles: &settles, ..TURN }).await;
    assert_eq!(turned.verdicts, [SettleVerdict::Done]);
    assert!(turned.jobs.is_empty());
    assert_eq!(queue.ask("EXISTS", &format!("job:{}", job(1)), &[]).await.as_int(), Some(0));
}

/// Reaped in one call, finished after all in a later one, and its lane refilled by the schedule in
/// that same call: the lane left and came back, its interrupted share is void.
#[tokio::test]
async fn a_lane_that_empties_and_fills_again_in_one_call_starts_anew_at_the_tail() {
    let queue = Queue::new().await;
    queue.weigh(0, 3).await;
    queue.admit_all(100, 2, Some(0)).await;
    queue.admit_all(200, 9, Some(1)).await;
    let first = queue.claim(1).await;
    queue.expire(&first[0]).await;
    let second = queue.turn(Turn { reap: 9, claim: 1, ..TURN }).await;
    // Job 100 is back; its second holder took it again, and 101 waits.
    assert_eq!((second.jobs[0].id, second.jobs[0].token), (job(100), 2));
    let third = queue.claim(1).await;
    assert_eq!(third[0].job.id, job(101), "the share goes on");
    assert_eq!(queue.ring().await, [1]);
    queue.expire(&third[0]).await;
    queue.turn(Turn { reap: 9, ..TURN }).await;
    assert_eq!(queue.ring().await, [1, 0]);
    let (spent, zero) = (format!("{}|2", lane(0)), lane(0));
    queue.ask("DEL", "ring", &[]).await;
    queue.ask("RPUSH", "ring", &[zero.as_str(), lane(1).as_str()]).await;
    queue.ask("HSET", "meta", &["spent", &spent]).await;

    for n in 102..106 {
        queue.schedule(n, Some(0), When::In(LEASE)).await;
        queue.make_due(n).await;
    }
    let settles = [third[0].settle(SettleOutcome::Complete)];
    let turned = queue.turn(Turn { promote: 9, claim: 5, settles: &settles, ..TURN }).await;
    assert_eq!(turned.verdicts, [SettleVerdict::Done], "late, but its own");
    let lanes: Vec<_> = turned.jobs.iter().map(|job| job.group).collect();
    let [a, b] = [Some(lane(0)), Some(lane(1))];
    assert_eq!(lanes, [b, a, a, a, b], "a share of three, not what was left of the old one");
}

#[tokio::test]
async fn one_id_may_come_more_than_once() {
    let queue = Queue::new().await;
    queue.admit_all(1, 2, Some(0)).await;
    let held = queue.claim(2).await;
    let [one, two] = [&held[0], &held[1]];
    let settles = [
        one.settle(SettleOutcome::Complete),
        one.settle(SettleOutcome::Complete),
        two.settle(SettleOutcome::Release),
        two.settle(SettleOutcome::Release),
        two.settle(SettleOutcome::Complete),
        two.settle(NOW),
        one.settle(SettleOutcome::Release),
    ];
    let extensions = [extension(two), extension(two)];
    let turn = Turn { settles: &settles, extensions: &extensions, ..TURN };
    let turned = queue.turn(turn).await;
    use SettleVerdict::{Done, NoRow, Stale};
    // A release takes no holder's word any more, but a complete by the token still counts.
    assert_eq!(turned.verdicts, [Done, NoRow, Done, Stale, Done, NoRow, Stale]);
    assert_eq!(turned.extensions, [ExtendVerdict::Stale; 2]);
    assert_eq!(queue.ask("EXISTS", "gactive", &[]).await.as_int(), Some(0));
    assert_eq!(queue.ring().await, [0; 0]);
}

#[tokio::test]
async fn a_refused_item_stops_no_other() {
    let queue = Queue::new().await;
    queue.admit_all(1, 4, None).await;
    let held = queue.claim(4).await;
    let mut settles: Vec<_> =
        held.iter().map(|held| held.settle(SettleOutcome::Complete)).collect();
    settles[0].token += 1;
    settles[1].ticket = Some("other.1");
    settles[2].id = job(99);
    let turned = queue.turn(Turn { settles: &settles, ..TURN }).await;
    use SettleVerdict::{Done, NoRow, Stale};
    assert_eq!(turned.verdicts, [Stale, Stale, NoRow, Done]);
}

#[tokio::test]
async fn two_hundred_of_everything() {
    let queue = Queue::new().await;
    queue.admit_all(0, 200, Some(0)).await;
    queue.admit_all(200, 200, Some(1)).await;
    let first = queue.claim(200).await;
    let second = queue.claim(200).await;
    assert_eq!((first.len(), second.len()), (200, 200));
    queue.admit_all(400, 200, None).await;
    for n in 600..800 {
        queue.schedule(n, Some(n % 3), When::In(LEASE)).await;
        queue.make_due(n).await;
    }
    let settles: Vec<_> = first.iter().map(|held| held.settle(SettleOutcome::Complete)).collect();
    let extensions: Vec<_> = second.iter().map(extension).collect();
    let (claim, promote, reap) = (200, 200, 200);
    let turn = Turn { claim, promote, reap, settles: &settles, ..TURN };
    let turned = queue.turn(Turn { extensions: &extensions, ..turn }).await;
    assert_eq!(turned.verdicts, [SettleVerdict::Done; 200]);
    assert_eq!(turned.extensions, [ExtendVerdict::Held; 200]);
    assert_eq!(turned.jobs.len(), 200);
    for held in &second {
        queue.expire(held).await;
    }
    let turned = queue.turn(Turn { claim, promote, reap, ..TURN }).await;
    assert_eq!(turned.jobs.len(), 200);
    let active = queue.ask("ZCARD", "active", &[]).await;
    assert_eq!(active.as_int(), Some(400), "those claimed in the last two turns");
}
