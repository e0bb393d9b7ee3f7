//! What a relay tells the `metrics` facade.
#![cfg(all(feature = "outbox", feature = "sqlite"))]

mod outbox_ground;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use outbox_ground::{Ground, PATIENCE, said, start};

/// A row whose id names no job.
const SPOILT: &str = "INSERT INTO emq_outbox (queue, id, payload, created_ms)
                      VALUES ('fills', 'ORD0NgWEfAEJfs', x'78', 0)";

/// Keeps what is told, by name.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<HashMap<String, Arc<AtomicU64>>>>);

impl Kept {
    fn number(&self, name: &str) -> Arc<AtomicU64> {
        Arc::clone(self.0.lock().unwrap().entry(name.to_owned()).or_default())
    }

    fn count(&self, name: &str) -> u64 {
        self.number(name).load(Ordering::SeqCst)
    }

    fn gauge(&self, name: &str) -> f64 {
        f64::from_bits(self.count(name))
    }

    async fn until(&self, what: &str, holds: impl Fn(&Kept) -> bool) {
        let wait = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.unwrap_or_else(|_| panic!("{what}: {:?}", self.0.lock().unwrap()));
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.number(key.name()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.number(key.name()))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// All tasks of this test run on its thread, and so tell its recorder.
#[tokio::test]
async fn depth_and_lag_grow_while_the_bus_is_away_and_fall_when_it_is_back() {
    let kept = Kept::default();
    let _recorder = metrics::set_default_local_recorder(&kept);
    let ground = Ground::syncing().await;
    ground.put("fills", 2).await;
    let relay = ground.relay();
    let mut status = relay.status();
    let (stop, running) = start(relay);
    kept.until("two admitted", |kept| kept.count("emq_outbox_admitted_total") == 2).await;
    said(&mut status, |status| status.depth == 0).await;

    ground.valkey.kill9().unwrap();
    ground.put("fills", 7).await;
    kept.until("the depth", |kept| kept.gauge("emq_outbox_depth") == 7.0).await;
    let lag = kept.gauge("emq_outbox_lag_seconds");
    kept.until("the lag", |kept| kept.gauge("emq_outbox_lag_seconds") > lag.max(0.5)).await;
    assert!(kept.count("emq_outbox_failures_total") > 0);
    let told = said(&mut status, |status| status.lag >= Duration::from_millis(500)).await;
    assert_eq!((told.depth, told.admitted), (7, 2));

    ground.valkey.start_again().unwrap();
    kept.until("the rest admitted", |kept| kept.gauge("emq_outbox_depth") == 0.0).await;
    assert_eq!(kept.gauge("emq_outbox_lag_seconds"), 0.0);
    // One batch may have been on its way when the server went.
    let sent = kept.count("emq_outbox_admitted_total") + kept.count("emq_outbox_duplicates_total");
    assert_eq!(sent, 9);

    ground.spoil(SPOILT).await;
    kept.until("a refusal", |kept| kept.gauge("emq_outbox_refused") == 1.0).await;
    let pending = ground.queue.keys().pending().to_owned();
    ground.valkey.cli(&["DEL", &pending]).unwrap();
    ground.valkey.cli(&["SET", &pending, "no set"]).unwrap();
    ground.put("fills", 1).await;
    kept.until("a stuck queue", |kept| kept.gauge("emq_outbox_stuck_queues") == 1.0).await;
    stop.cancel();
    running.await.unwrap().unwrap();
}
