//! Torn pasts: ids without rows, lanes that have no business in the ring, foreign values. A turn
//! goes on, mends what it meets, and loses nothing.

use emq_keys::BrandedId;
use emq_scripts::{LaneEnqueue, Turn};

use super::queue::{InHand, OPTIONS, Queue, TURN};
use crate::support::{job, lane};

impl Queue {
    /// The row of the `n`th job is lost; its id stays where it is.
    async fn tear(&self, n: u64) {
        self.ask("DEL", &format!("job:{}", job(n)), &[]).await;
    }

    async fn set_ring(&self, lanes: &[u64]) {
        self.ask("DEL", "ring", &[]).await;
        let lanes: Vec<_> = lanes.iter().map(|g| lane(*g)).collect();
        let names: Vec<&str> = lanes.iter().map(BrandedId::as_str).collect();
        self.ask("RPUSH", "ring", &names).await;
    }

    async fn depth(&self, g: u64) -> i64 {
        self.ask("ZCARD", &format!("g:{}:pending", lane(g)), &[]).await.as_int().unwrap()
    }
}

fn ids(held: &[InHand]) -> Vec<BrandedId> {
    held.iter().map(|held| held.job.id).collect()
}

#[tokio::test]
async fn ids_without_rows_are_dropped_on_the_way() {
    let queue = Queue::new().await;
    queue.admit_all(0, 5, None).await;
    queue.admit_all(10, 5, Some(0)).await;
    queue.admit_all(20, 2, Some(1)).await;
    for n in [0, 1, 3, 10, 12, 13, 20, 21] {
        queue.tear(n).await;
    }
    let held = queue.claim(9).await;
    // Lane 1 had nothing, so lane 0 had the two turns that the ring owed.
    assert_eq!(ids(&held), [2, 11, 14, 4].map(job));
    assert_eq!(queue.ring().await, [0; 0]);
    assert_eq!(queue.ask("ZCARD", "pending", &[]).await.as_int(), Some(0));
    assert_eq!((queue.depth(0).await, queue.depth(1).await), (0, 0));
    let leases = queue.field("gactive", lane(1).as_str()).await;
    assert_eq!(leases, None, "none of lane 1 was leased");
    assert_eq!(queue.ask("KEYS", "job:*", &[]).await.as_array().unwrap().len(), 4);
}

/// A lane that is named twice is served twice a turn, as single claims would do: no job leaves it
/// with nobody holding it, and its ceiling isn't passed.
#[tokio::test]
async fn a_lane_that_is_in_the_ring_twice_loses_nothing() {
    for (ceiling, n) in [0, 1, 3].into_iter().flat_map(|ceiling| [(ceiling, 9), (ceiling, 3)]) {
        let queue = Queue::new().await;
        queue.limit(0, ceiling).await;
        queue.admit_all(0, 6, Some(0)).await;
        queue.admit_all(10, 2, Some(1)).await;
        queue.set_ring(&[0, 1, 0, 0]).await;
        let mut held = queue.claim(n).await;
        held.extend(queue.claim(9).await);
        let of_lane = held.iter().filter(|held| held.lane() == Some(0)).count();
        let most = if ceiling == 0 { 6 } else { ceiling as usize };
        assert_eq!(of_lane, most, "ceiling {ceiling}");
        let leases = queue.field("gactive", lane(0).as_str()).await;
        assert_eq!(leases, Some(most.to_string()));
        assert_eq!(queue.depth(0).await, 6 - most as i64, "what wasn't claimed is still there");
        assert_eq!(queue.ring().await, [0; 0]);
        let mut claimed = ids(&held);
        claimed.sort();
        claimed.dedup();
        assert_eq!(claimed.len(), held.len(), "no job twice");
    }
    let queue = Queue::new().await;
    queue.admit_all(0, 6, Some(0)).await;
    queue.set_ring(&[0, 0]).await;
    assert_eq!(ids(&queue.claim(3).await), [0, 1, 2].map(job));
    assert_eq!(queue.depth(0).await, 3);
}

#[tokio::test]
async fn lanes_that_are_empty_full_or_of_another_type_leave_the_ring() {
    let queue = Queue::new().await;
    queue.limit(1, 1).await;
    queue.admit_all(10, 2, Some(1)).await;
    assert_eq!(queue.claim(1).await.len(), 1);
    queue.admit_all(20, 2, Some(2)).await;
    queue.ask("SET", &format!("g:{}:pending", lane(3)), &["foreign"]).await;
    queue.set_ring(&[0, 1, 2, 3]).await;
    assert_eq!(ids(&queue.claim(9).await), [20, 21].map(job));
    assert_eq!(queue.ring().await, [0; 0]);
    assert_eq!(queue.depth(1).await, 1);
}

/// The ring's length counts as it is when a lane's turn is over, whether a lane before it emptied
/// or had no business there.
#[tokio::test]
async fn lanes_that_left_for_either_reason_bring_the_flat_set_nearer() {
    let queue = Queue::new().await;
    queue.admit(0, Some(0)).await;
    queue.admit_all(10, 2, Some(1)).await;
    queue.admit_all(20, 2, None).await;
    queue.set_ring(&[0, 2, 1]).await;
    queue.ask("HSET", "meta", &["left", "3"]).await;
    let lanes: Vec<_> = queue.claim(3).await.iter().map(InHand::lane).collect();
    assert_eq!(lanes, [Some(0), Some(1), None]);
}

#[tokio::test]
async fn foreign_weights_and_counts_take_no_lane_out_of_the_ring() {
    for weight in ["0", "-3", "0.5", "1.5", "many", "nan", "inf", ""] {
        let queue = Queue::new().await;
        queue.admit_all(0, 9, Some(0)).await;
        queue.admit_all(10, 9, Some(1)).await;
        queue.ask("HSET", "gweight", &[lane(0).as_str(), weight]).await;
        queue.ask("HSET", "meta", &["spent", weight, "left", weight]).await;
        let mut served = 0;
        for n in [1, 2, 3, 12] {
            served += queue.claim(n).await.len();
        }
        assert_eq!(served, 18, "weight {weight:?}");
    }
}

/// The look at torn ids is bounded; the rest is met by the next calls, which the wake brings.
#[tokio::test]
async fn a_backlog_of_torn_ids_takes_several_calls_and_none_of_them_long() {
    for g in [None, Some(0)] {
        let queue = Queue::new().await;
        let set = g.map_or("pending".to_owned(), |g| format!("g:{}:pending", lane(g)));
        let members: Vec<_> = (0..1_000).map(job).collect();
        let scored: Vec<&str> = members.iter().flat_map(|id| ["0", id.as_str()]).collect();
        queue.ask("ZADD", &set, &scored).await;
        queue.admit(5_000, g).await;
        if g.is_some() {
            queue.set_ring(&[0]).await;
        }
        let mut calls = 0;
        let found = loop {
            let depth = queue.ask("ZCARD", &set, &[]).await.as_int().unwrap();
            queue.wakes().await;
            let turned = queue.turn(Turn { claim: 2, ..TURN }).await;
            calls += 1;
            if let Some(found) = turned.jobs.first() {
                break found.id;
            }
            let now = queue.ask("ZCARD", &set, &[]).await.as_int().unwrap();
            assert!(now < depth && depth - now <= 102, "{depth} became {now}");
            assert_eq!(queue.wakes().await, 1, "somebody looks again");
        };
        assert_eq!(found, job(5_000));
        assert!((9..12).contains(&calls), "{calls} calls");
        assert_eq!(queue.ring().await, [0; 0]);
    }
}

/// A row that is another kind of key is passed over by every part.
#[tokio::test]
async fn a_foreign_row_fails_no_turn() {
    let queue = Queue::new().await;
    queue.admit_all(0, 3, None).await;
    queue.admit_all(10, 3, Some(0)).await;
    let held = queue.claim(6).await;
    for (n, of) in held.iter().enumerate() {
        if n % 2 == 0 {
            let row = format!("job:{}", of.job.id);
            queue.ask("SET", &row, &["foreign"]).await;
        }
    }
    use emq_scripts::SettleOutcome::{Complete, Release};
    use emq_scripts::SettleVerdict::{Done, NoRow, Stale};
    let settles: Vec<_> = held[..2].iter().map(|held| held.settle(Complete)).collect();
    let more: Vec<_> = held[2..4].iter().map(|held| held.settle(Release)).collect();
    let settles = [settles, more].concat();
    for held in &held[4..] {
        queue.expire(held).await;
    }
    let turned = queue.turn(Turn { claim: 9, reap: 9, settles: &settles, ..TURN }).await;
    assert_eq!(turned.verdicts, [NoRow, Done, Stale, Done]);
    let mut again: Vec<_> = turned.jobs.iter().map(|job| job.id).collect();
    again.sort();
    let mut wanted = [held[3].job.id, held[5].job.id];
    wanted.sort();
    assert_eq!(again, wanted, "the one released and the one reaped");
}

/// A lane whose key is foreign fails nobody: its jobs stay where they are until it is mended.
#[tokio::test]
async fn a_foreign_lane_fails_no_turn() {
    use emq_scripts::SettleOutcome::{Complete, Release};
    use emq_scripts::SettleVerdict::{Done, Stale};
    let queue = Queue::new().await;
    queue.limit(0, 3).await;
    for n in 0..3 {
        let (id, payload, group) = (job(n), &b"p"[..], lane(0));
        queue.call(LaneEnqueue { id, payload, group, options: OPTIONS, durable: false }).await;
    }
    queue.admit(10, None).await;
    let held = queue.claim(4).await;
    queue.ask("SET", &format!("g:{}:pending", lane(0)), &["foreign"]).await;
    let [flat, laned]: [Vec<_>; 2] = {
        let (laned, flat) = held.iter().cloned().partition(|held: &InHand| held.lane().is_some());
        [flat, laned]
    };
    queue.expire(&laned[2]).await;
    let settles = [laned[0].settle(Release), laned[1].settle(Complete), flat[0].settle(Complete)];
    let turn = Turn { claim: 9, reap: 9, settles: &settles, ..TURN };
    let turned = queue.turn(turn).await;
    assert_eq!(turned.verdicts, [Stale, Done, Done]);
    assert!(turned.jobs.is_empty());
    let still = queue.ask("ZCARD", "active", &[]).await;
    assert_eq!(still.as_int(), Some(2), "the released one and the expired one");
    queue.ask("DEL", &format!("g:{}:pending", lane(0)), &[]).await;
    let turned = queue.turn(Turn { claim: 9, reap: 9, ..TURN }).await;
    assert_eq!(turned.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [laned[2].job.id]);
}
