//! Connections, replies and servers that are lost in the middle, and calls that are dropped there.
#![cfg(any(feature = "tokio-postgres", feature = "sqlx"))]

mod postgres_ground;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use emq_keys::{BrandedId, Namespace, namespace};
use emq_stores::{Absorbed, Store, StoreError};
use emq_testkit::{Database, Postgres as Server};
use postgres_ground::proxy::{Cut, Proxy};
use postgres_ground::{Client, for_each_client, migrated};
use tokio::task::JoinHandle;

const KIND: Namespace = namespace!("POS");
/// Only bounds a failure.
const PATIENCE: Duration = Duration::from_secs(60);

for_each_client!(
    a_commit_whose_reply_is_lost_is_declined_at_the_repeat,
    a_commit_that_never_left_is_applied_at_the_repeat,
    a_server_that_is_killed_in_the_middle_undoes_it_and_serves_again,
    a_call_dropped_anywhere_leaves_no_transaction_in_the_pool,
    a_call_dropped_while_it_waits_for_a_lock_leaves_none_either,
    who_waited_for_the_lock_sees_what_its_holder_wrote,
);

fn row(number: u64) -> BrandedId {
    BrandedId::encode(KIND, number).unwrap()
}

fn job(number: u64) -> BrandedId {
    BrandedId::encode(Namespace::JOB, number).unwrap()
}

/// A store that reaches its database through a proxy, with one connection.
async fn through_a_proxy<C: Client>() -> (Database, Proxy, Store<i64>) {
    let (database, _pool) = migrated::<C>().await;
    let url = database.url();
    let port = url.rsplit_once(':').unwrap().1.split('/').next().unwrap().to_owned();
    let proxy = Proxy::before(port.parse().unwrap()).await;
    let url = url.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
    let store = Store::new(C::pool(&url, 1).store(KIND));
    // Connected, and the statements prepared.
    assert_eq!(absorb(&store, 1).await.unwrap(), Absorbed::Applied);
    (database, proxy, store)
}

async fn absorb(store: &Store<i64>, by: u64) -> Result<Absorbed, StoreError> {
    let call = store.absorb(row(1), job(by), |sum| *sum += 1);
    tokio::time::timeout(PATIENCE, call).await.expect("an answer")
}

async fn a_commit_whose_reply_is_lost_is_declined_at_the_repeat<C: Client>() {
    let (_database, proxy, store) = through_a_proxy::<C>().await;
    proxy.arm(Cut::AfterCommit);
    let lost = absorb(&store, 2).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert_eq!(absorb(&store, 2).await.unwrap(), Absorbed::Declined);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(2));
}

async fn a_commit_that_never_left_is_applied_at_the_repeat<C: Client>() {
    let (_database, proxy, store) = through_a_proxy::<C>().await;
    proxy.arm(Cut::BeforeCommit);
    let lost = absorb(&store, 2).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert_eq!(store.get(row(1)).await.unwrap(), Some(1));
    assert_eq!(absorb(&store, 2).await.unwrap(), Absorbed::Applied);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(2));
}

async fn a_server_that_is_killed_in_the_middle_undoes_it_and_serves_again<C: Client>() {
    let server = std::sync::Arc::new(Server::start().unwrap());
    let pool = C::pool(&server.url(), 2);
    pool.migrate().await.unwrap();
    let store: Store<i64> = Store::new(pool.store(KIND));
    assert_eq!(absorb(&store, 1).await.unwrap(), Absorbed::Applied);
    let killed = std::sync::Arc::clone(&server);
    let torn = store.absorb(row(1), job(2), move |sum| {
        *sum += 1;
        killed.kill9().unwrap();
    });
    let torn = torn.await;
    assert!(matches!(torn, Err(StoreError::Unavailable(_))), "{torn:?}");
    let down = store.get(row(1)).await;
    assert!(matches!(down, Err(StoreError::Unavailable(_))), "{down:?}");
    server.start_again().unwrap();
    assert_eq!(store.get(row(1)).await.unwrap(), Some(1));
    assert_eq!(absorb(&store, 1).await.unwrap(), Absorbed::Declined);
    assert_eq!(absorb(&store, 2).await.unwrap(), Absorbed::Applied);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(2));
}

/// With one connection, what comes next gets the very one that the dropped call had.
async fn a_call_dropped_anywhere_leaves_no_transaction_in_the_pool<C: Client>() {
    let (database, _pool) = migrated::<C>().await;
    let store: Store<i64> = Store::new(C::pool(&database.url(), 1).store(KIND));
    let mut next = 0;
    for polls in 0..30 {
        let mut call = Box::pin(store.absorb(row(1), job(polls), |sum| *sum += 1));
        for _ in 0..polls {
            tokio::select! {
                biased;
                _ = &mut call => break,
                () = tokio::task::yield_now() => {}
            }
        }
        drop(call);
        next += 1;
        put_is_committed(&database, &store, next).await;
    }
    await_no_transaction(&database).await;
    let names = database.sql("SELECT count(*) FROM emq_names").unwrap();
    assert_eq!(store.get(row(1)).await.unwrap().unwrap_or(0).to_string(), names);
}

/// Others see it, so it was no part of a transaction that somebody else had left behind.
async fn put_is_committed(database: &Database, store: &Store<i64>, value: i64) {
    store.put(row(2), &value).await.unwrap();
    let body = "SELECT convert_from(body, 'UTF8') FROM emq_rows WHERE id = ";
    let seen = database.sql(&format!("{body}'{}'", row(2))).unwrap();
    assert_eq!(seen, value.to_string());
}

async fn a_call_dropped_while_it_waits_for_a_lock_leaves_none_either<C: Client>() {
    let (database, pool) = migrated::<C>().await;
    let (held, release) = hold_row(&Store::new(pool.store(KIND)), 1).await;
    let store: Store<i64> = Store::new(C::pool(&database.url(), 1).store(KIND));
    let caller = store.clone();
    let waiting = tokio::spawn(async move { absorb(&caller, 2).await });
    await_waiter(&database).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    put_is_committed(&database, &store, 7).await;
    release.send(()).unwrap();
    assert_eq!(held.await.unwrap().unwrap(), Absorbed::Applied);
    await_no_transaction(&database).await;
    assert_eq!(store.get(row(1)).await.unwrap(), Some(1));
}

/// The statement that waits began before its holder committed: it must not decide by what it saw
/// then.
async fn who_waited_for_the_lock_sees_what_its_holder_wrote<C: Client>() {
    let (database, pool) = migrated::<C>().await;
    let store: Store<i64> = Store::new(pool.store(KIND));
    for (by, fresh) in [(1, true), (2, false)] {
        let (held, release) = hold_row(&store, by).await;
        let caller = store.clone();
        let waiting = tokio::spawn(async move {
            caller.absorb(row(1), job(by), |_: &mut i64| -> () { panic!("it ran twice") }).await
        });
        await_waiter(&database).await;
        release.send(()).unwrap();
        assert_eq!(held.await.unwrap().unwrap(), Absorbed::Applied);
        assert_eq!(waiting.await.unwrap().unwrap(), Absorbed::Declined, "fresh: {fresh}");
    }
    assert_eq!(store.get(row(1)).await.unwrap(), Some(2));
}

type Held = (JoinHandle<Result<Absorbed, StoreError>>, mpsc::Sender<()>);

/// Absorbs into the row, and is in the middle of that until it is released.
async fn hold_row(store: &Store<i64>, by: u64) -> Held {
    let (release, released) = mpsc::channel();
    let (entered, inside) = tokio::sync::oneshot::channel();
    let caller = store.clone();
    let held = tokio::spawn(async move {
        let effect = move |sum: &mut i64| {
            let _ = entered.send(());
            let _ = released.recv_timeout(PATIENCE);
            *sum += 1;
        };
        caller.absorb(row(1), job(by), effect).await
    });
    inside.await.unwrap();
    (held, release)
}

/// Waits until a session of the database waits for a lock.
async fn await_waiter(database: &Database) {
    let waiting = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    await_answer(database, waiting, "1").await;
}

/// Waits until no session but the one that asks is within a transaction. Closed connections take a
/// moment.
async fn await_no_transaction(database: &Database) {
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND pid <> pg_backend_pid() AND xact_start IS NOT NULL \
                AND backend_type = 'client backend'";
    await_answer(database, open, "0").await;
}

async fn await_answer(database: &Database, question: &str, answer: &str) {
    let deadline = Instant::now() + PATIENCE;
    while database.sql(question).unwrap() != answer {
        assert!(Instant::now() < deadline, "{question} never was {answer}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
