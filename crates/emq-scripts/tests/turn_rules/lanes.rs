//! The rotation: lanes in turn, shares by weight, the flat set as one more lane, ceilings.

use emq_scripts::{
    LanePause, LaneResume, QueuePause, QueueResume, SettleOutcome, SettleVerdict, Turn,
};

use super::queue::{InHand, LEASE, Queue, TURN};
use crate::support::lane;

/// However the claims are cut into calls, the rotation is the same: these are the cuts.
const CUTS: [(u32, usize); 6] = [(200, 1), (1, 40), (2, 20), (3, 14), (5, 8), (7, 6)];

async fn everywhere(plant: impl AsyncFn(&Queue), expected: &[Option<u64>]) {
    for (n, turns) in CUTS {
        let queue = Queue::new().await;
        plant(&queue).await;
        assert_eq!(queue.served(n, turns).await, expected, "{n} at a time");
        assert_eq!(queue.ring().await, [0; 0]);
    }
}

const F: Option<u64> = None;
const A: Option<u64> = Some(0);
const B: Option<u64> = Some(1);
const C: Option<u64> = Some(2);

#[tokio::test]
async fn lanes_take_turns_and_the_flat_set_is_one_of_them() {
    let plant = async |queue: &Queue| {
        for g in 0..3 {
            queue.admit_all(100 * (g + 1), 3, Some(g)).await;
        }
        queue.admit_all(0, 4, None).await;
    };
    everywhere(plant, &[F, A, B, C, F, A, B, C, F, A, B, C, F]).await;
}

#[tokio::test]
async fn a_weight_is_a_share_of_the_ring_s_turn() {
    let plant = async |queue: &Queue| {
        queue.weigh(1, 3).await;
        for g in 0..3 {
            queue.admit_all(100 * (g + 1), 5, Some(g)).await;
        }
        queue.admit_all(0, 3, None).await;
    };
    let expected = [F, A, B, B, B, C, F, A, B, B, C, F, A, C, A, C, A, C];
    everywhere(plant, &expected).await;
}

#[tokio::test]
async fn a_lane_alone_takes_its_share_and_then_the_flat_set_comes() {
    let plant = async |queue: &Queue| {
        queue.weigh(0, 2).await;
        queue.admit_all(100, 7, Some(0)).await;
        queue.admit_all(0, 3, None).await;
    };
    everywhere(plant, &[F, A, A, F, A, A, F, A, A, A]).await;
}

#[tokio::test]
async fn lanes_that_leave_bring_the_flat_set_nearer() {
    let plant = async |queue: &Queue| {
        queue.admit(100, Some(0)).await;
        queue.admit(200, Some(1)).await;
        queue.admit_all(300, 6, Some(2)).await;
        queue.admit_all(0, 4, None).await;
    };
    // Behind the first flat job the ring has three lanes; from then on it is C's alone.
    everywhere(plant, &[F, A, B, C, F, C, F, C, F, C, C, C]).await;
}

/// The flat set waits for one turn of the ring as it is, not as it was when it was served last.
#[tokio::test]
async fn a_ring_that_got_shorter_owes_the_flat_set_no_more_than_its_own_turn() {
    for (n, turns) in CUTS {
        let queue = Queue::new().await;
        for g in 0..6 {
            queue.admit(100 * (g + 1), Some(g)).await;
        }
        queue.admit(0, None).await;
        assert_eq!(queue.served(6, 1).await, [F, A, B, C, Some(3), Some(4)]);
        queue.admit_all(1_000, 5, Some(5)).await;
        queue.admit_all(1, 2, None).await;
        let alone = Some(5);
        let expected = [alone, F, alone, F, alone, alone, alone, alone];
        assert_eq!(queue.served(n, turns).await, expected, "{n} at a time");
    }
}

#[tokio::test]
async fn a_lane_is_served_to_its_ceiling_and_never_past_it() {
    for (n, turns) in CUTS {
        let queue = Queue::new().await;
        queue.limit(0, 2).await;
        queue.weigh(0, 3).await;
        queue.admit_all(100, 5, Some(0)).await;
        queue.admit_all(200, 2, Some(1)).await;
        assert_eq!(queue.served(n, turns).await, [A, A, B, B], "{n} at a time");
        assert_eq!(queue.ring().await, [0; 0], "full, and empty");
        assert_eq!(queue.field("gactive", lane(0).as_str()).await.unwrap(), "2");
    }
}

/// A lane at its ceiling comes back by a settle only, and the same call serves it.
#[tokio::test]
async fn a_settle_opens_the_lane_for_the_claims_of_its_own_call() {
    for outcome in [
        SettleOutcome::Complete,
        SettleOutcome::Release,
        SettleOutcome::Retry { delay: LEASE, error: "", force_dead: false },
        SettleOutcome::Retry { delay: LEASE, error: "no", force_dead: true },
    ] {
        let queue = Queue::new().await;
        queue.limit(0, 2).await;
        queue.admit_all(100, 5, Some(0)).await;
        queue.admit_all(200, 3, Some(1)).await;
        let held = queue.claim(3).await;
        assert_eq!(held.iter().map(InHand::lane).collect::<Vec<_>>(), [A, B, A]);
        assert_eq!(queue.ring().await, [1]);
        // Nothing but the settle makes room: what is due for the lane waits.
        queue.admit(105, Some(0)).await;
        assert_eq!(queue.served(1, 1).await, [B]);

        let settles = [held[0].settle(outcome)];
        let turned = queue.turn(Turn { claim: 9, settles: &settles, ..TURN }).await;
        assert_ne!(turned.verdicts[0], SettleVerdict::Stale);
        let lanes: Vec<_> = turned.jobs.iter().map(|job| job.group).collect();
        // At the tail: B, which was in the ring, comes first.
        assert_eq!(lanes, [Some(lane(1)), Some(lane(0))], "{outcome:?}");
        assert_eq!(queue.ring().await, [0; 0], "{outcome:?}");
    }
}

#[tokio::test]
async fn an_interrupted_share_is_resumed_and_voided() {
    let queue = Queue::new().await;
    queue.weigh(0, 3).await;
    for g in 0..2 {
        queue.admit_all(100 * (g + 1), 20, Some(g)).await;
    }
    let spent = async || queue.field("meta", "spent").await;
    assert_eq!(queue.served(1, 1).await, [A]);
    assert_eq!(spent().await, Some(format!("{}|1", lane(0))));
    assert_eq!(queue.served(2, 1).await, [A, A], "resumed");
    assert!(spent().await.is_none(), "a share that is used up is no more");
    assert_eq!(queue.served(2, 1).await, [B, A]);

    // It changes weight: a full new share.
    queue.weigh(0, 2).await;
    assert!(spent().await.is_none());
    assert_eq!(queue.served(4, 1).await, [A, A, B, A]);
    assert!(spent().await.is_some());
    // It leaves: the other comes next, and it starts anew when it is back.
    queue.call(LanePause { group: lane(0) }).await;
    queue.call(LaneResume { group: lane(0) }).await;
    assert!(spent().await.is_none());
    assert_eq!(queue.served(4, 1).await, [B, A, A, B]);
}

#[tokio::test]
async fn a_paused_queue_settles_and_moves_but_claims_nothing() {
    let queue = Queue::new().await;
    queue.admit_all(100, 3, Some(0)).await;
    queue.admit_all(0, 2, None).await;
    let held = queue.claim(2).await;
    queue.schedule(50, None, emq_scripts::When::In(LEASE)).await;
    queue.make_due(50).await;
    queue.call(QueuePause).await;
    queue.wakes().await;
    let settles = [held[0].settle(SettleOutcome::Complete)];
    let extensions =
        [emq_scripts::Extension { id: held[1].job.id, token: held[1].job.token, ticket: None }];
    let turn = Turn { claim: 9, promote: 9, reap: 9, settles: &settles, ..TURN };
    let turned = queue.turn(Turn { extensions: &extensions, ..turn }).await;
    assert_eq!(turned.verdicts, [SettleVerdict::Done]);
    assert_eq!(turned.extensions, [emq_scripts::ExtendVerdict::Held]);
    assert!(turned.jobs.is_empty());
    let pending = queue.ask("ZCARD", "pending", &[]).await;
    assert_eq!(pending.as_int(), Some(2), "what was due waits with the other one");
    assert_eq!(queue.wakes().await, 1, "for what became runnable, not for what was left");
    queue.turn(turn).await;
    assert_eq!(queue.wakes().await, 0);
    queue.call(QueueResume).await;
    assert_eq!(queue.claim(9).await.len(), 4);
}
