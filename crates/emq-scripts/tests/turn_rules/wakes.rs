//! Tokens: one for what became runnable, up to 64 for a batch, and one when work is left behind.

use emq_scripts::{LanePause, QueuePause, SettleOutcome, Turn, When};

use super::queue::{LEASE, Queue, TURN};
use crate::support::lane;

const RETRY: SettleOutcome<'static> =
    SettleOutcome::Retry { delay: LEASE, error: "no", force_dead: false };

#[tokio::test]
async fn work_left_behind_passes_the_wake_on() {
    let queue = Queue::new().await;
    queue.turn(TURN).await;
    assert_eq!(queue.wakes().await, 0, "there is no work");
    queue.admit_all(0, 3, None).await;
    queue.wakes().await;
    // Also from a worker whose slots are full.
    for claim in [0, 2] {
        queue.turn(Turn { claim, ..TURN }).await;
        assert_eq!(queue.wakes().await, 1, "after a claim of {claim}");
    }
    queue.turn(Turn { claim: 1, ..TURN }).await;
    assert_eq!(queue.wakes().await, 0, "nothing is left");
    queue.admit_all(10, 3, Some(0)).await;
    queue.turn(Turn { claim: 1, ..TURN }).await;
    queue.turn(Turn { claim: 1, ..TURN }).await;
    assert_eq!(queue.wakes().await, 1, "one token stands, no second one is pushed");
}

#[tokio::test]
async fn what_nobody_may_claim_wakes_nobody() {
    let queue = Queue::new().await;
    // A parked lane, a full one, a job that isn't due.
    queue.admit_all(0, 2, Some(0)).await;
    queue.call(LanePause { group: lane(0) }).await;
    queue.limit(1, 1).await;
    queue.admit_all(10, 2, Some(1)).await;
    assert_eq!(queue.claim(9).await.len(), 1);
    queue.schedule(20, None, When::In(LEASE)).await;
    queue.wakes().await;
    queue.turn(Turn { claim: 1, ..TURN }).await;
    queue.turn(TURN).await;
    assert_eq!(queue.wakes().await, 0);

    queue.admit(30, None).await;
    queue.call(QueuePause).await;
    queue.wakes().await;
    queue.turn(Turn { claim: 1, ..TURN }).await;
    queue.turn(TURN).await;
    assert_eq!(queue.wakes().await, 0, "a paused queue would spin");
}

#[tokio::test]
async fn a_batch_pushes_up_to_sixty_four_tokens() {
    let queue = Queue::new().await;
    for n in 0..70 {
        queue.schedule(n, (n < 30).then_some(0), When::In(LEASE)).await;
        queue.make_due(n).await;
    }
    queue.wakes().await;
    queue.turn(Turn { promote: 5, ..TURN }).await;
    assert_eq!(queue.wakes().await, 5);
    queue.turn(Turn { promote: 200, ..TURN }).await;
    assert_eq!(queue.wakes().await, 64);

    let held = queue.claim(70).await;
    assert_eq!(held.len(), 70);
    queue.wakes().await;
    for held in &held {
        queue.expire(held).await;
    }
    queue.turn(Turn { reap: 7, ..TURN }).await;
    assert_eq!(queue.wakes().await, 7);
    // The reaped ones and the promoted ones count each for itself, and the most stands.
    for n in 100..110 {
        queue.schedule(n, None, When::In(LEASE)).await;
        queue.make_due(n).await;
    }
    queue.wakes().await;
    queue.turn(Turn { reap: 3, promote: 9, ..TURN }).await;
    assert_eq!(queue.wakes().await, 9);
    queue.turn(Turn { reap: 200, promote: 9, ..TURN }).await;
    assert_eq!(queue.wakes().await, 60);
}

#[tokio::test]
async fn jobs_of_a_lane_that_stays_shut_wake_nobody() {
    let queue = Queue::new().await;
    queue.limit(0, 1).await;
    queue.admit_all(0, 9, Some(0)).await;
    let held = queue.claim(1).await;
    for n in 10..20 {
        queue.schedule(n, Some(0), When::In(LEASE)).await;
        queue.make_due(n).await;
    }
    queue.wakes().await;
    queue.turn(Turn { promote: 200, ..TURN }).await;
    assert_eq!(queue.wakes().await, 0);
    // Buried, not returned: it opens the lane, and that is one.
    queue.expire(&held[0]).await;
    queue.turn(Turn { reap: 9, lost_cap: 1, ..TURN }).await;
    assert_eq!(queue.wakes().await, 1);
}

#[tokio::test]
async fn a_settle_wakes_for_what_it_opens_and_for_a_new_first_due() {
    let queue = Queue::new().await;
    queue.admit_all(0, 4, None).await;
    let held = queue.claim(4).await;
    queue.wakes().await;
    let settle = async |n: usize, outcome| {
        queue.turn(Turn { settles: &[held[n].settle(outcome)], ..TURN }).await;
        queue.wakes().await
    };
    assert_eq!(settle(0, SettleOutcome::Complete).await, 0);
    assert_eq!(settle(1, RETRY).await, 1, "it is the first to be due");
    let later = SettleOutcome::Retry { delay: 2 * LEASE, error: "no", force_dead: false };
    assert_eq!(settle(2, later).await, 0, "it is the second");
    let dead = SettleOutcome::Retry { delay: LEASE / 2, error: "no", force_dead: true };
    assert_eq!(settle(3, dead).await, 0, "the dead are not due");

    queue.limit(0, 1).await;
    queue.admit_all(10, 3, Some(0)).await;
    for outcome in [SettleOutcome::Complete, SettleOutcome::Release] {
        let held = queue.claim(1).await;
        queue.wakes().await;
        queue.turn(Turn { settles: &[held[0].settle(outcome)], ..TURN }).await;
        assert_eq!(queue.wakes().await, 1, "{outcome:?} opens the lane");
    }
    // What a call opens and takes again itself leaves its token: somebody looks in vain, once.
    let held = queue.claim(1).await;
    queue.wakes().await;
    let settles = [held[0].settle(SettleOutcome::Complete)];
    let turned = queue.turn(Turn { claim: 1, settles: &settles, ..TURN }).await;
    assert_eq!((turned.jobs.len(), queue.wakes().await), (1, 1));
}
