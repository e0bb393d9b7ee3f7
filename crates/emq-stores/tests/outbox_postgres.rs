//! The outbox in PostgreSQL, through both clients.
#![cfg(all(feature = "outbox", any(feature = "tokio-postgres", feature = "sqlx")))]

mod postgres_ground;

use std::time::Duration;

use emq_core::{Bus, Queue};
use emq_keys::{Minter, NodeId};
use emq_stores::outbox::{Outbox, Placed, Relay, Ruling, Shelf};
use emq_stores::postgres::{Param, PgTransaction, Postgres};
use emq_testkit::{Database, Fsync, Valkey};
use postgres_ground::{CONNECTIONS, new_database};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(60);
/// No test sees a sweep of this.
const NEVER: Duration = Duration::from_secs(3_600);

struct Ground {
    valkey: Valkey,
    bus: Bus,
    queue: Queue,
    database: Database,
    pool: Postgres,
    outbox: Outbox,
}

async fn ground(pool: impl FnOnce(&str) -> Postgres) -> Ground {
    let valkey = Valkey::builder().append_only(Fsync::Always).start().unwrap();
    let bus = Bus::connect(&valkey.url()).await.unwrap();
    let queue = bus.queue("fills").unwrap();
    let database = new_database();
    database.sql("CREATE TABLE fills (ref bigint)").unwrap();
    let pool = pool(&database.url());
    pool.migrate_outbox().await.unwrap();
    pool.migrate_outbox().await.unwrap();
    let outbox = Outbox::with_minter(Minter::new(NodeId::new(9).unwrap()));
    Ground { valkey, bus, queue, database, pool, outbox }
}

impl Ground {
    fn count(&self, of: &str) -> String {
        self.database.sql(&format!("SELECT count(*) FROM {of}")).unwrap()
    }

    async fn empty(&self) {
        let wait = async {
            while self.count("emq_outbox") != "0" {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("the outbox is emptied");
    }

    /// A business row and its job, in the caller's transaction.
    async fn fill(&self, tx: &mut impl PgTransaction, n: i64) {
        self.put(tx, "fills", n).await;
    }

    async fn put(&self, tx: &mut impl PgTransaction, queue: &str, n: i64) {
        tx.execute("INSERT INTO fills VALUES ($1)", &[Param::BigInt(n)]).await.unwrap();
        let job = self.outbox.job(n.to_string()).unwrap();
        assert_eq!(self.outbox.enqueue(tx, queue, &job).await.unwrap(), Placed::Written);
        assert_eq!(self.outbox.enqueue(tx, queue, &job).await.unwrap(), Placed::Duplicate);
    }

    /// Five rows of a damaged queue, then three that are spoilt and two that are not.
    async fn put_bad_ones(&self, tx: &mut impl PgTransaction) {
        for n in 0..5 {
            self.put(tx, "damaged", n).await;
        }
        for n in 5..10 {
            self.put(tx, "fills", n).await;
        }
        for spoil in ["kind = ''", "id = 'ORD' || substr(id, 4)", "id = '-'"] {
            let which = "id = (SELECT min(id) FROM emq_outbox WHERE queue = 'fills' \
                         AND kind IS NULL AND id LIKE 'JOB%')";
            let spoil = format!("UPDATE emq_outbox SET {spoil} WHERE {which}");
            tx.batch(Box::leak(spoil.into_boxed_str())).await.unwrap();
        }
    }

    /// What [`Ground::put_bad_ones`] wrote, once it is committed.
    async fn bad_ones_stop_nobody(&self) {
        let pending = self.bus.queue("damaged").unwrap().keys().pending().to_owned();
        self.valkey.cli(&["SET", &pending, "no set"]).unwrap();
        let relay = self.relay().sweep(Duration::from_millis(20)).batch(2);
        let mut status = relay.status();
        let stop = CancellationToken::new();
        let running = tokio::spawn(relay.run(stop.clone()));
        let seen = status.wait_for(|s| (s.admitted, s.refused, s.depth) == (2, 3, 5));
        let seen = tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap().clone();
        assert!(seen.stuck.contains_key("damaged"), "{seen:?}");

        let shelf = Shelf::from(self.pool.clone());
        let refused = shelf.refused(9, None).await.unwrap();
        let [unread, kind, order] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!((&*unread.id, &*order.reason), ("-", "the id names no job"));
        assert!(kind.reason.contains("EMQARG"), "{kind:?}");
        assert_eq!(shelf.refused(1, Some(unread)).await.unwrap(), refused[1..2]);
        self.database.sql("UPDATE emq_outbox SET kind = NULL WHERE kind = ''").unwrap();
        assert_eq!(shelf.readmit("fills", &kind.id).await.unwrap(), Ruling::Readmitted);
        assert_eq!(shelf.discard("fills", &order.id).await.unwrap(), Ruling::Discarded);
        assert_eq!(shelf.discard("fills", &order.id).await.unwrap(), Ruling::NotRefused);
        assert_eq!(shelf.discard("fills", "-").await.unwrap(), Ruling::Discarded);
        self.valkey.cli(&["DEL", &pending]).unwrap();
        self.empty().await;
        stop.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(self.queue.depth().await.unwrap(), 3);
        assert_eq!(self.bus.queue("damaged").unwrap().depth().await.unwrap(), 5);
    }

    /// Ends the connection that listens, as the server's restart would.
    #[cfg(feature = "tokio-postgres")]
    fn cut_the_listener(&self) -> String {
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND query ILIKE 'LISTEN%'";
        self.database.sql(cut).unwrap()
    }

    fn relay(&self) -> Relay {
        Relay::new(self.pool.clone(), self.bus.clone())
    }

    /// The row that is left is sent again, and the bus knows it.
    #[cfg(feature = "sqlx")]
    async fn kill_before_the_delete(&self) {
        let reached = std::sync::Arc::new(tokio::sync::Notify::new());
        let told = std::sync::Arc::clone(&reached);
        let relay = self.relay().before_delete(move || {
            told.notify_one();
            std::future::pending()
        });
        let running = tokio::spawn(relay.run(CancellationToken::new()));
        tokio::time::timeout(PATIENCE, reached.notified()).await.unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
    }

    async fn relayed(&self) -> (u64, u64) {
        let stop = CancellationToken::new();
        let relay = self.relay().sweep(Duration::from_millis(20)).batch(7);
        let status = relay.status();
        let running = tokio::spawn(relay.run(stop.clone()));
        self.empty().await;
        stop.cancel();
        running.await.unwrap().unwrap();
        let status = status.borrow().clone();
        (status.admitted, status.duplicates)
    }
}

#[cfg(feature = "sqlx")]
mod through_sqlx {
    use super::*;

    async fn open() -> Ground {
        ground(|url| Postgres::sqlx(url, CONNECTIONS.into()).unwrap()).await
    }

    #[tokio::test]
    async fn a_rollback_leaves_neither_and_a_commit_both() {
        let ground = open().await;
        let pool = sqlx::PgPool::connect(&ground.database.url()).await.unwrap();
        for n in 0..20 {
            let mut tx = pool.begin().await.unwrap();
            ground.fill(&mut tx, n).await;
            if n % 2 == 0 { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        }
        assert_eq!((ground.count("fills"), ground.count("emq_outbox")), ("10".into(), "10".into()));
        assert_eq!(ground.relayed().await, (10, 0));
        assert_eq!(ground.queue.counts().await.unwrap().pending, 10);
    }

    #[tokio::test]
    async fn a_killed_relay_is_repeated_and_nothing_is_lost() {
        let ground = open().await;
        let pool = sqlx::PgPool::connect(&ground.database.url()).await.unwrap();
        for n in 0..10 {
            let mut tx = pool.begin().await.unwrap();
            ground.fill(&mut tx, n).await;
            tx.commit().await.unwrap();
            ground.kill_before_the_delete().await;
        }
        assert_eq!(ground.relayed().await, (0, 10));
        assert_eq!(ground.queue.counts().await.unwrap().pending, 10);
    }

    #[tokio::test]
    async fn a_commit_wakes_the_relay_without_a_sweep() {
        let ground = open().await;
        let pool = sqlx::PgPool::connect(&ground.database.url()).await.unwrap();
        let stop = CancellationToken::new();
        let relay = ground.relay().sweep(NEVER);
        let running = tokio::spawn(relay.run(stop.clone()));
        for n in 0..5 {
            let mut tx = pool.begin().await.unwrap();
            ground.fill(&mut tx, n).await;
            tx.commit().await.unwrap();
            ground.empty().await;
        }
        stop.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(ground.queue.counts().await.unwrap().pending, 5);
    }

    #[tokio::test]
    async fn bad_rows_and_damaged_queues_stop_nobody_and_are_ruled_on_by_hand() {
        let ground = open().await;
        let pool = sqlx::PgPool::connect(&ground.database.url()).await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        ground.put_bad_ones(&mut tx).await;
        tx.commit().await.unwrap();
        ground.bad_ones_stop_nobody().await;
    }
}

#[cfg(feature = "tokio-postgres")]
mod through_tokio_postgres {
    use super::*;

    async fn open() -> Ground {
        ground(|url| Postgres::tokio(url, CONNECTIONS.into()).unwrap()).await
    }

    async fn client(url: &str) -> tokio_postgres::Client {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    #[tokio::test]
    async fn a_rollback_leaves_neither_and_a_commit_both() {
        let ground = open().await;
        let mut client = client(&ground.database.url()).await;
        for n in 0..20 {
            let mut tx = client.transaction().await.unwrap();
            ground.fill(&mut tx, n).await;
            if n % 2 == 0 { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
        }
        assert_eq!((ground.count("fills"), ground.count("emq_outbox")), ("10".into(), "10".into()));
        assert_eq!(ground.relayed().await, (10, 0));
        assert_eq!(ground.queue.counts().await.unwrap().pending, 10);
    }

    #[tokio::test]
    async fn a_commit_wakes_a_relay_that_listens_also_after_its_connection_was_lost() {
        let ground = open().await;
        let url = ground.database.url();
        let mut client = client(&url).await;
        let relay = ground.relay().sweep(NEVER);
        let relay = relay.listen(url.parse().unwrap(), tokio_postgres::NoTls);
        let stop = CancellationToken::new();
        let running = tokio::spawn(relay.run(stop.clone()));
        for n in 0..6 {
            if n == 3 {
                assert_eq!(ground.cut_the_listener(), "1");
            }
            let tx = client.transaction().await.unwrap();
            ground.filled(tx, n).await;
            ground.empty().await;
        }
        stop.cancel();
        running.await.unwrap().unwrap();
        assert_eq!(ground.queue.counts().await.unwrap().pending, 6);
    }

    #[tokio::test]
    async fn bad_rows_and_damaged_queues_stop_nobody_and_are_ruled_on_by_hand() {
        let ground = open().await;
        let mut client = client(&ground.database.url()).await;
        let mut tx = client.transaction().await.unwrap();
        ground.put_bad_ones(&mut tx).await;
        tx.commit().await.unwrap();
        ground.bad_ones_stop_nobody().await;
    }

    #[tokio::test]
    async fn relays_at_once_do_no_work_twice() {
        let ground = open().await;
        let mut client = client(&ground.database.url()).await;
        let mut tx = client.transaction().await.unwrap();
        for n in 0..300 {
            ground.fill(&mut tx, n).await;
        }
        tx.commit().await.unwrap();
        let (a, b, c) = tokio::join!(ground.relayed(), ground.relayed(), ground.relayed());
        assert_eq!((a.0 + b.0 + c.0, a.1 + b.1 + c.1), (300, 0));
        assert_eq!(ground.queue.counts().await.unwrap().pending, 300);
    }

    impl Ground {
        async fn filled(&self, mut tx: tokio_postgres::Transaction<'_>, n: i64) {
            self.fill(&mut tx, n).await;
            tx.commit().await.unwrap();
        }
    }
}
