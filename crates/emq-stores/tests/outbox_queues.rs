//! Rows that their queue, or the bus, doesn't take, beside rows that it does.
#![cfg(all(feature = "outbox", feature = "sqlite"))]

mod outbox_ground;

use std::time::Duration;

use emq_stores::outbox::{Refused, Ruling, Shelf};
use outbox_ground::{Ground, said, start};

/// No test sees a sweep of this.
const NEVER: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_damaged_queue_keeps_its_rows_and_stops_no_other_and_is_tried_until_it_is_mended() {
    let ground = Ground::syncing().await;
    let damaged = ground.bus.queue("damaged").unwrap();
    let pending = damaged.keys().pending();
    ground.valkey.cli(&["SET", pending, "no set"]).unwrap();
    // The damaged queue's rows are the older ones, and more than some batches.
    ground.put("damaged", 100).await;
    ground.put("fills", 30).await;
    let relay = ground.relay().batch(10).sweep(NEVER);
    let mut status = relay.status();
    let (stop, running) = start(relay.clone());
    let stuck = said(&mut status, |status| status.admitted == 30 && status.depth == 100).await;
    assert_eq!(stuck.stuck.keys().collect::<Vec<_>>(), ["damaged"]);
    assert!(stuck.stuck["damaged"].contains("WRONGTYPE"), "{stuck:?}");
    assert_eq!((stuck.last_error, stuck.refused), (None, 0));
    assert_eq!(ground.queue.depth().await.unwrap(), 30);

    // What comes later passes, too, while the damaged queue is tried again and again.
    said(&mut status, |status| status.failures >= 4).await;
    ground.put("fills", 1).await;
    relay.wake();
    said(&mut status, |status| status.admitted == 31).await;
    assert_eq!(ground.rows("emq_outbox").await, 100);

    ground.valkey.cli(&["DEL", pending]).unwrap();
    ground.empty().await;
    let mended = said(&mut status, |status| status.admitted == 131 && status.depth == 0).await;
    assert!(mended.stuck.is_empty(), "{mended:?}");
    assert_eq!(damaged.depth().await.unwrap(), 100);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_the_bus_refused_is_listed_and_sent_again_or_thrown_away_by_hand() {
    let ground = Ground::syncing().await;
    ground.put("fills", 3).await;
    let mine = "UPDATE emq_outbox SET kind = '' WHERE payload = CAST('0' AS BLOB)";
    ground.spoil(mine).await;
    ground
        .spoil(
            "UPDATE emq_outbox SET id = 'ORD' || substr(id, 4) WHERE payload = CAST('1' AS BLOB)",
        )
        .await;
    ground.spoil("UPDATE emq_outbox SET id = '-' WHERE payload = CAST('2' AS BLOB)").await;
    ground.put("fills", 1).await;
    let relay = ground.relay();
    let mut status = relay.status();
    let (stop, running) = start(relay);
    said(&mut status, |status| status.refused == 3 && status.admitted == 1).await;

    let outbox = Shelf::from(ground.db.clone());
    let all = outbox.refused(9, None).await.unwrap();
    assert_eq!(all.len(), 3);
    let mut paged: Vec<Refused> = Vec::new();
    while let [row] = &outbox.refused(1, paged.last()).await.unwrap()[..] {
        paged.push(row.clone());
    }
    assert_eq!(paged, all);
    let of = |payload: &str| all.iter().find(|row| row.payload == payload.as_bytes()).unwrap();
    assert!(of("0").reason.contains("EMQARG"), "{all:?}");
    assert_eq!(of("1").reason, "the id names no job");
    assert!(of("2").reason.starts_with("no job can be read"), "{all:?}");
    let age = of("0").written_at.elapsed().unwrap();
    assert!(age < Duration::from_secs(3_600), "{age:?}");

    // One is mended, one is sent again as it is, one is thrown away.
    ground.spoil("UPDATE emq_outbox SET kind = 'mended' WHERE payload = CAST('0' AS BLOB)").await;
    for row in [of("0"), of("1")] {
        assert_eq!(outbox.readmit(&row.queue, &row.id).await.unwrap(), Ruling::Readmitted);
    }
    let gone = of("2");
    assert_eq!(outbox.discard(&gone.queue, &gone.id).await.unwrap(), Ruling::Discarded);
    assert_eq!(outbox.discard(&gone.queue, &gone.id).await.unwrap(), Ruling::NotRefused);
    assert_eq!(outbox.readmit(&gone.queue, &gone.id).await.unwrap(), Ruling::NotRefused);
    said(&mut status, |status| (status.admitted, status.refused, status.depth) == (2, 1, 0)).await;
    let left = outbox.refused(9, None).await.unwrap();
    assert_eq!(left, [of("1").clone()], "refused again, for the same reason");
    let record = ground.queue.get(of("0").id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(record.kind.as_deref(), Some("mended"));
    stop.cancel();
    running.await.unwrap().unwrap();

    // A row that waits isn't anybody's to rule on.
    ground.put("fills", 1).await;
    let waiting = ground.db.with(|connection| {
        let id = "SELECT id FROM emq_outbox WHERE refused IS NULL";
        Ok::<String, emq_stores::StoreError>(connection.query_row(id, (), |row| row.get(0))?)
    });
    let waiting = waiting.await.unwrap();
    assert_eq!(outbox.discard("fills", &waiting).await.unwrap(), Ruling::NotRefused);
    assert_eq!(outbox.readmit("fills", &waiting).await.unwrap(), Ruling::NotRefused);
    assert_eq!(ground.rows("emq_outbox").await, 2);
}
