//! What the server can promise, and what a relay does with a server that can't.
#![cfg(all(feature = "outbox", feature = "sqlite"))]

mod outbox_ground;

use std::time::Duration;

use emq_core::{Bus, NotDurable};
use emq_stores::outbox::Relay;
use emq_testkit::Valkey;
use outbox_ground::{Ground, said, start};

/// Longer than any test needs, in microseconds, for each key that goes into a new append-only file.
const SLOW_SAVE: &str = "20000000";

impl Ground {
    fn set(&self, setting: &str, value: &str) {
        self.valkey.cli(&["CONFIG", "SET", setting, value]).unwrap();
    }
}

#[tokio::test]
async fn a_row_stays_until_the_server_has_confirmed_that_its_job_is_on_disk() {
    let ground = Ground::on(Valkey::start().unwrap()).await;
    let id = ground.fill(1, true).await;
    // The server syncs by its own word, but nothing is confirmed before its first file is whole.
    ground.set("rdb-key-save-delay", SLOW_SAVE);
    ground.set("appendonly", "yes");
    let hasty = Bus::builder(&ground.valkey.url()).unwrap();
    let hasty = hasty.durable_within(Duration::from_millis(20)).connect().await.unwrap();
    let relay = Relay::new(ground.db.clone(), hasty).sweep(Duration::from_millis(20));
    let mut status = relay.status();
    let (stop, running) = start(relay);
    let said = said(&mut status, |status| status.failures >= 2).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert!(said.last_error.is_some_and(|error| error.contains("not confirmed")));
    assert_eq!((said.admitted, said.duplicates), (0, 0));
    assert_eq!(ground.queue.browse(9).await.unwrap(), [id], "admitted all the same");
    assert_eq!(ground.rows("emq_outbox").await, 1);

    // A crash now takes the job, and the row brings it again.
    ground.set("appendonly", "no"); // This ends the process that saves.
    ground.valkey.kill9().unwrap();
    ground.valkey.start_again().unwrap();
    ground.set("appendonly", "yes");
    let (stop, running) = start(ground.relay());
    ground.empty().await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(ground.queue.browse(9).await.unwrap(), [id]);
}

#[tokio::test]
async fn a_server_that_comes_back_without_its_file_has_the_rows_held_until_it_syncs_again() {
    let ground = Ground::syncing().await;
    let relay = ground.relay();
    let mut status = relay.status();
    let (stop, running) = start(relay);
    ground.fill(1, true).await;
    ground.empty().await;

    ground.set("appendonly", "no");
    ground.valkey.cli(&["CONFIG", "REWRITE"]).unwrap();
    ground.valkey.kill9().unwrap();
    ground.valkey.start_again().unwrap();
    // A batch on its way at this moment would be sent, and not be confirmed.
    said(&mut status, |status| status.not_durable.is_some()).await;
    let id = ground.fill(2, true).await;
    let held = said(&mut status, |status| status.not_durable.is_some() && status.depth == 1).await;
    assert_eq!(held.not_durable, Some(NotDurable::NoAppendOnlyFile));
    assert!(held.last_error.is_some_and(|error| error.contains("appendonly no")));
    assert!(!running.is_finished(), "it waits, and its tree has nothing to restart");
    assert_eq!(ground.rows("emq_outbox").await, 1);
    assert_eq!(ground.queue.browse(9).await.unwrap(), [], "nothing was sent");

    ground.set("appendonly", "yes");
    ground.empty().await;
    said(&mut status, |status| status.not_durable.is_none() && status.depth == 0).await;
    assert_eq!(ground.queue.browse(9).await.unwrap(), [id]);
    stop.cancel();
    running.await.unwrap().unwrap();
}
