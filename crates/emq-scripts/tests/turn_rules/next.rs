//! How long until the next job is due or the next lease over: it counts what the very call wrote.

use std::time::Duration;

use emq_scripts::{Extension, SettleOutcome, Turn, When};

use super::queue::{LEASE, Queue, TURN};

const HOUR: Duration = Duration::from_secs(3600);

/// At most `most`, and not by more than a slow machine's worth less.
fn about(next: Option<Duration>, most: Duration) {
    let next = next.expect("there is a next");
    assert!(next <= most && next + LEASE / 2 > most, "{next:?} for {most:?}");
}

#[tokio::test]
async fn nothing_scheduled_and_nobody_holding_means_none() {
    let queue = Queue::new().await;
    assert_eq!(queue.turn(TURN).await.next, None);
    queue.admit_all(1, 3, Some(0)).await;
    assert_eq!(queue.turn(TURN).await.next, None, "what waits has no time");
}

#[tokio::test]
async fn a_lease_of_this_call_counts_and_its_settle_ends_it() {
    let queue = Queue::new().await;
    queue.admit(1, None).await;
    let turned = queue.turn(Turn { claim: 1, ..TURN }).await;
    about(turned.next, LEASE);
    let [id, token] = [(turned.jobs[0].id, turned.jobs[0].token); 2];
    let extensions = [Extension { id: id.0, token: token.1, ticket: None }];
    let turned = queue.turn(Turn { lease: HOUR, extensions: &extensions, ..TURN }).await;
    about(turned.next, HOUR);
    let held = super::queue::InHand {
        job: emq_scripts::TurnJob {
            id: id.0,
            payload: Default::default(),
            token: token.1,
            group: None,
            checkpoint: None,
            kind: None,
        },
    };
    let settles = [held.settle(SettleOutcome::Complete)];
    assert_eq!(queue.turn(Turn { settles: &settles, ..TURN }).await.next, None);
}

#[tokio::test]
async fn a_retry_of_this_call_counts() {
    let queue = Queue::new().await;
    queue.admit_all(1, 2, None).await;
    let held = queue.claim(2).await;
    let (delay, error) = (LEASE / 2, "no");
    let settles = [
        held[0].settle(SettleOutcome::Retry { delay, error, force_dead: false }),
        held[1].settle(SettleOutcome::Retry { delay: HOUR, error, force_dead: false }),
    ];
    about(queue.turn(Turn { settles: &settles, ..TURN }).await.next, delay);
}

#[tokio::test]
async fn the_earlier_of_schedule_and_leases_counts() {
    let queue = Queue::new().await;
    queue.schedule(1, None, When::In(HOUR)).await;
    about(queue.turn(TURN).await.next, HOUR);
    queue.admit(2, None).await;
    about(queue.turn(Turn { claim: 1, ..TURN }).await.next, LEASE);
    about(queue.turn(TURN).await.next, LEASE);
    queue.schedule(3, Some(0), When::In(LEASE / 4)).await;
    about(queue.turn(TURN).await.next, LEASE / 4);
}

#[tokio::test]
async fn what_is_due_or_over_and_was_left_is_now() {
    let queue = Queue::new().await;
    for n in 0..3 {
        queue.schedule(n, None, When::In(HOUR)).await;
        queue.make_due(n).await;
    }
    assert_eq!(queue.turn(TURN).await.next, Some(Duration::ZERO), "nobody moved it");
    let turned = queue.turn(Turn { promote: 2, ..TURN }).await;
    assert_eq!(turned.next, Some(Duration::ZERO), "one is left");
    let turned = queue.turn(Turn { promote: 2, ..TURN }).await;
    assert_eq!(turned.next, None);

    let held = queue.claim(3).await;
    queue.expire(&held[0]).await;
    queue.expire(&held[1]).await;
    let turned = queue.turn(Turn { reap: 1, ..TURN }).await;
    assert_eq!(turned.next, Some(Duration::ZERO));
    about(queue.turn(Turn { reap: 1, ..TURN }).await.next, LEASE);
}
