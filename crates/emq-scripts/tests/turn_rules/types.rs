//! A fixed key of another type: the turn is refused before its first write, whatever else the queue
//! has or hasn't got.

use std::time::Duration;

use emq_scripts::{AdmitOptions, LaneEnqueue, SettleOutcome, Turn};

use super::queue::{InHand, OPTIONS, Queue, TURN};
use crate::support::keyspace::{Snapshot, snapshot};
use crate::support::{job, lane};

/// The fixed keys that many queues haven't got.
const RARE: [&str; 6] = ["dead", "paused", "glimit", "gactive", "gweight", "unique"];
const COMMON: [&str; 6] = ["pending", "active", "schedule", "wake", "ring", "meta"];
const BURIED: SettleOutcome<'static> =
    SettleOutcome::Retry { delay: Duration::ZERO, error: "x", force_dead: true };

impl Queue {
    async fn everything(&self) -> Snapshot {
        snapshot(self.fenced.connection(), &format!("{}*", self.keys.base())).await
    }

    /// Three jobs in hand: a flat one, one with a unique key, and one of a lane; more of the lane
    /// and of the flat set wait.
    async fn in_hand(&self) -> Vec<InHand> {
        self.admit_all(0, 3, None).await;
        let options = AdmitOptions { unique: Some("key"), ..OPTIONS };
        let (payload, durable) = (&b"p"[..], false);
        self.call(LaneEnqueue { id: job(10), payload, group: lane(0), options, durable }).await;
        self.admit_all(11, 2, Some(0)).await;
        let mut held = self.claim(2).await;
        held.sort_by_key(|held| held.job.id);
        assert_eq!(held.iter().map(|held| held.job.id).collect::<Vec<_>>(), [0, 10].map(job));
        held
    }
}

/// The first settle writes its row at once; what a later part of the turn would trip over must
/// have been seen by then.
#[tokio::test]
async fn a_fixed_key_of_another_type_is_seen_before_the_first_write() {
    for foreign in RARE.into_iter().chain(COMMON) {
        // Beside all that is there without it, or without what many queues haven't got.
        let without = [&[][..], &RARE, &["active"]];
        for (missing, reap) in without.into_iter().flat_map(|keys| [(keys, 0), (keys, 5)]) {
            let queue = Queue::new().await;
            let held = queue.in_hand().await;
            for key in missing {
                queue.ask("DEL", key, &[]).await;
            }
            queue.ask("DEL", foreign, &[]).await;
            queue.ask("SET", foreign, &["of another type"]).await;
            let before = queue.everything().await;
            let settles = [held[0].settle(BURIED), held[1].settle(SettleOutcome::Complete)];
            let turn = Turn { claim: 5, promote: 5, reap, settles: &settles, ..TURN };
            let refused = queue.fenced.call(&queue.keys, &turn).await;
            let error = format!("{:?}", refused.expect_err(foreign));
            assert!(error.contains("WRONGTYPE"), "{foreign}, without {missing:?}: {error}");
            assert_eq!(queue.everything().await, before, "{foreign}, without {missing:?}");
        }
    }
}
