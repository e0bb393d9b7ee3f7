//! A server that syncs, an SQLite file with an outbox, and relays between them.
#![allow(dead_code)] // Each test binary uses a part of it.

use std::time::Duration;

use emq_core::{Bus, Queue};
use emq_keys::{BrandedId, Minter, NodeId};
use emq_stores::StoreError;
use emq_stores::outbox::{Outbox, OutboxError, Placed, Relay, RelayError, RelayStatus};
use emq_stores::sqlite::Sqlite;
use emq_testkit::{Fsync, Valkey};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a test waits for what must happen. Only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Ground {
    pub(crate) valkey: Valkey,
    pub(crate) bus: Bus,
    pub(crate) queue: Queue,
    pub(crate) db: Sqlite,
    pub(crate) outbox: Outbox,
    _directory: tempfile::TempDir,
}

impl Ground {
    pub(crate) async fn syncing() -> Ground {
        Ground::on(Valkey::builder().append_only(Fsync::Always).start().unwrap()).await
    }

    pub(crate) async fn on(valkey: Valkey) -> Ground {
        let directory = tempfile::tempdir().unwrap();
        let db = Sqlite::open(directory.path().join("desk.db")).await.unwrap();
        db.migrate_outbox().await.unwrap();
        db.with(|connection| {
            connection.execute_batch("CREATE TABLE fills (ref TEXT PRIMARY KEY)")?;
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
        let bus = Bus::connect(&valkey.url()).await.unwrap();
        let queue = bus.queue("fills").unwrap();
        let outbox = Outbox::with_minter(Minter::new(NodeId::new(9).unwrap()));
        Ground { valkey, bus, queue, db, outbox, _directory: directory }
    }

    pub(crate) fn relay(&self) -> Relay {
        // No test waits for a sweep, except where it says so.
        Relay::new(self.db.clone(), self.bus.clone()).sweep(Duration::from_millis(20))
    }

    /// A business row and its job, in one transaction that is committed or not.
    pub(crate) async fn fill(&self, n: usize, commit: bool) -> BrandedId {
        let outbox = self.outbox.clone();
        let job = outbox.job(n.to_string()).unwrap();
        let id = job.id();
        let outcome = self
            .db
            .transaction(move |tx| {
                tx.execute("INSERT INTO fills VALUES (?1)", [n.to_string()])
                    .map_err(StoreError::from)?;
                assert_eq!(outbox.enqueue_sqlite(tx, "fills", &job)?, Placed::Written);
                assert_eq!(outbox.enqueue_sqlite(tx, "fills", &job)?, Placed::Duplicate);
                if commit { Ok(()) } else { Err(OutboxError::NoMinter) }
            })
            .await;
        assert_eq!(outcome.is_ok(), commit);
        id
    }

    /// Jobs alone, in one transaction.
    pub(crate) async fn put(&self, queue: &'static str, count: usize) {
        let outbox = self.outbox.clone();
        let put = self.db.transaction(move |tx| {
            for n in 0..count {
                let _ = outbox.enqueue_sqlite(tx, queue, &outbox.job(n.to_string())?)?;
            }
            Ok::<_, OutboxError>(())
        });
        put.await.unwrap();
    }

    /// What only a hand, or another program, can have written.
    pub(crate) async fn spoil(&self, sql: &'static str) {
        let spoil =
            self.db.with(move |connection| Ok::<_, StoreError>(connection.execute(sql, ())?));
        assert_eq!(spoil.await.unwrap(), 1, "{sql}");
    }

    pub(crate) async fn rows(&self, of: &'static str) -> i64 {
        self.db
            .with(move |connection| {
                let count = format!("SELECT count(*) FROM {of}");
                Ok::<i64, StoreError>(connection.query_row(&count, (), |row| row.get(0))?)
            })
            .await
            .unwrap()
    }

    pub(crate) async fn empty(&self) {
        let wait = async {
            while self.rows("emq_outbox").await > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the outbox is emptied");
    }
}

/// Waits until a relay says of itself what is expected.
pub(crate) async fn said(
    status: &mut watch::Receiver<RelayStatus>,
    expected: impl FnMut(&RelayStatus) -> bool,
) -> RelayStatus {
    let seen = tokio::time::timeout(PATIENCE, status.wait_for(expected)).await;
    seen.expect("the relay says it").unwrap().clone()
}

/// Runs a relay until the test's end, and says how it ended.
pub(crate) fn start(
    relay: Relay,
) -> (CancellationToken, tokio::task::JoinHandle<Result<(), RelayError>>) {
    let stop = CancellationToken::new();
    (stop.clone(), tokio::spawn(relay.run(stop)))
}
