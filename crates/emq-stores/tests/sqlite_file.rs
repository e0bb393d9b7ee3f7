//! What an SQLite file adds: transactions of the caller's, other connections, files as they are
//! found.
#![cfg(feature = "sqlite")]

use std::collections::BTreeSet;
use std::error::Error as _;
use std::path::PathBuf;
use std::time::Duration;

use emq_keys::{BrandedId, Namespace, namespace};
use emq_stores::sqlite::rusqlite::{Connection, TransactionBehavior};
use emq_stores::sqlite::{Sqlite, SqliteStore, Synchronous, prepare};
use emq_stores::{Absorbed, JobName, Store, StoreError};
use tempfile::TempDir;
use tokio::task::JoinSet;

const KIND: Namespace = namespace!("POS");

fn row(number: u64) -> BrandedId {
    BrandedId::encode(KIND, number).unwrap()
}

fn job(number: u64) -> BrandedId {
    BrandedId::encode(Namespace::JOB, number).unwrap()
}

struct File {
    directory: TempDir,
}

impl File {
    fn new() -> File {
        File { directory: TempDir::new().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("desk.db")
    }

    /// A connection that knows nothing of ours.
    fn foreign(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }
}

/// A database with a table of the user's own.
async fn with_fills() -> (File, Sqlite, SqliteStore) {
    let file = File::new();
    let db = Sqlite::open(file.path()).await.unwrap();
    db.with(|connection| -> Result<(), StoreError> {
        Ok(connection.execute_batch("CREATE TABLE fills (job TEXT)")?)
    })
    .await
    .unwrap();
    let store = SqliteStore::new(&db, KIND);
    (file, db, store)
}

async fn fills(db: &Sqlite) -> i64 {
    let count = "SELECT count(*) FROM fills";
    db.with(|connection| -> Result<i64, StoreError> {
        Ok(connection.query_row(count, (), |row| row.get(0))?)
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_row_and_the_callers_table_change_in_one_commit() {
    let (_file, db, store) = with_fills().await;
    let book = async |fails: bool| {
        let store = store.clone();
        db.transaction(move |tx| {
            let absorbed = store.absorb_in(tx, row(1), job(1), |sum: &mut u64| *sum += 12)?;
            let step =
                store.absorb_step_in(tx, row(2), job(1), "fee", |sum: &mut u64| *sum += 1)?;
            assert_eq!(absorbed, step);
            if absorbed == Absorbed::Applied {
                tx.execute("INSERT INTO fills VALUES ('one')", ())?;
            }
            match fails {
                true => Err(StoreError::Refused("the caller changed its mind".into())),
                false => Ok(absorbed),
            }
        })
        .await
    };
    let rows: Store<u64> = db.store(KIND);
    assert!(matches!(book(true).await, Err(StoreError::Refused(_))));
    assert_eq!((rows.get(row(1)).await.unwrap(), fills(&db).await), (None, 0));
    assert_eq!(book(false).await.unwrap(), Absorbed::Applied);
    assert_eq!(book(false).await.unwrap(), Absorbed::Declined);
    assert_eq!((rows.get(row(1)).await.unwrap(), fills(&db).await), (Some(12), 1));
    assert_eq!(rows.get(row(2)).await.unwrap(), Some(1));
}

#[tokio::test]
async fn an_absorb_that_fails_leaves_the_callers_transaction_as_it_was() {
    let (_file, db, store) = with_fills().await;
    // The row is written before the name, which this trigger lets fail.
    let trigger = "CREATE TRIGGER no_names BEFORE INSERT ON emq_names
                   WHEN NEW.step = 'bad' BEGIN SELECT raise(ABORT, 'no'); END;
                   CREATE TRIGGER all_gone BEFORE INSERT ON emq_names
                   WHEN NEW.step = 'worse' BEGIN SELECT raise(ROLLBACK, 'no'); END";
    db.with(|c| -> Result<(), StoreError> { Ok(c.execute_batch(trigger)?) }).await.unwrap();
    let caller = store.clone();
    db.transaction(move |tx| -> Result<(), StoreError> {
        tx.execute("INSERT INTO fills VALUES ('before')", ())?;
        let refusing = |_: Option<u64>| Err::<(u64, ()), _>("no");
        let refused = caller.try_absorb_in(tx, row(1), &JobName::new(job(1)), refusing);
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
        let failed = caller.absorb_step_in(tx, row(1), job(1), "bad", |sum: &mut u64| *sum += 1);
        assert!(matches!(failed, Err(StoreError::Database(_))), "{failed:?}");
        let wrong = caller.absorb_in(tx, job(1), job(1), |sum: &mut u64| *sum += 1);
        assert!(matches!(wrong, Err(StoreError::Kind { .. })), "{wrong:?}");
        tx.execute("INSERT INTO fills VALUES ('after')", ())?;
        Ok(())
    })
    .await
    .unwrap();
    let rows: Store<u64> = db.store(KIND);
    assert_eq!((rows.get(row(1)).await.unwrap(), fills(&db).await), (None, 2));

    // When SQLite itself undoes the transaction, all of it is gone, and the caller is told.
    let ended = db
        .transaction(move |tx| -> Result<(), StoreError> {
            tx.execute("INSERT INTO fills VALUES ('lost')", ())?;
            let _ = store.absorb_step_in(tx, row(1), job(1), "worse", |sum: &mut u64| *sum += 1)?;
            Ok(())
        })
        .await;
    assert!(matches!(ended, Err(StoreError::Database(_))), "{ended:?}");
    assert_eq!((rows.get(row(1)).await.unwrap(), fills(&db).await), (None, 2));
    // The same where a commit may be shared: the caller is told, and nothing stays.
    let failed = rows.absorb_step(row(3), job(1), "bad", |sum| *sum += 1).await;
    assert!(matches!(failed, Err(StoreError::Database(_))), "{failed:?}");
    assert_eq!(rows.get(row(3)).await.unwrap(), None);
    let ended = rows.absorb_step(row(1), job(1), "worse", |sum| *sum += 1).await;
    assert!(matches!(ended, Err(StoreError::Database(_))), "{ended:?}");
    assert_eq!(rows.absorb(row(1), job(1), |sum| *sum += 1).await.unwrap(), Absorbed::Applied);
}

#[tokio::test]
async fn a_panic_is_the_callers_and_undoes_its_transaction() {
    let (_file, db, store) = with_fills().await;
    let caller = db.clone();
    let ended = tokio::spawn(async move {
        caller
            .transaction(move |tx| -> Result<(), StoreError> {
                let _ = store.absorb_in(tx, row(1), job(1), |sum: &mut u64| *sum += 1)?;
                std::panic::resume_unwind(Box::new("broke"));
            })
            .await
    });
    assert!(ended.await.unwrap_err().is_panic());
    assert_eq!(db.store::<u64>(KIND).get(row(1)).await.unwrap(), None);
}

#[tokio::test]
async fn a_transaction_that_was_left_open_is_undone() {
    let (_file, db, _) = with_fills().await;
    db.with(|connection| -> Result<(), StoreError> {
        Ok(connection.execute_batch("BEGIN; INSERT INTO fills VALUES ('never')")?)
    })
    .await
    .unwrap();
    assert_eq!(fills(&db).await, 0);
    let rows: Store<u64> = db.store(KIND);
    assert_eq!(rows.absorb(row(1), job(1), |sum| *sum += 1).await.unwrap(), Absorbed::Applied);
}

#[tokio::test]
async fn a_connection_of_the_callers_own_absorbs_too() {
    let file = File::new();
    let mut own = file.foreign();
    prepare(&mut own).unwrap();
    let db = Sqlite::open(file.path()).await.unwrap();
    let (store, rows) = (SqliteStore::new(&db, KIND), db.store::<u64>(KIND));
    let tx = own.transaction().unwrap();
    let applied = store.absorb_in(&tx, row(1), job(1), |sum: &mut u64| *sum += 12).unwrap();
    assert_eq!(applied, Absorbed::Applied);
    assert_eq!(rows.get(row(1)).await.unwrap(), None, "it is not committed yet");
    tx.commit().unwrap();
    let again = rows.absorb(row(1), job(1), |sum| *sum += 12).await.unwrap();
    assert_eq!(again, Absorbed::Declined);

    // A transaction that looked before another wrote can't write on what it saw.
    let tx = own.transaction().unwrap();
    let _: i64 = tx.query_row("SELECT count(*) FROM emq_names", (), |row| row.get(0)).unwrap();
    let _ = rows.absorb(row(1), job(2), |sum| *sum += 5).await.unwrap();
    let late = store.absorb_in(&tx, row(1), job(2), |sum: &mut u64| *sum += 5);
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    drop(tx);
    assert_eq!(rows.get(row(1)).await.unwrap(), Some(17));
}

#[tokio::test]
async fn a_file_that_another_writes_is_unavailable_for_now() {
    let file = File::new();
    let db = Sqlite::builder(file.path()).busy_timeout(Duration::from_millis(10));
    let rows: Store<u64> = db.open().await.unwrap().store(KIND);
    rows.put(row(1), &1).await.unwrap();
    let mut other = file.foreign();
    let holding = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let busy = rows.absorb(row(1), job(1), |sum| *sum += 1).await.unwrap_err();
    assert!(matches!(busy, StoreError::Unavailable(_)) && busy.is_retryable(), "{busy:?}");
    assert_eq!(rows.get(row(1)).await.unwrap(), Some(1), "readers don't wait for the writer");
    drop(holding);
    assert_eq!(rows.absorb(row(1), job(1), |sum| *sum += 1).await.unwrap(), Absorbed::Applied);
}

#[tokio::test]
async fn a_writer_waits_for_another_and_sees_what_it_wrote() {
    let file = File::new();
    let rows: Store<u64> = Sqlite::open(file.path()).await.unwrap().store(KIND);
    rows.put(row(1), &1).await.unwrap();
    let mut other = file.foreign();
    let holding = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    holding.execute("UPDATE emq_rows SET body = '5'", ()).unwrap_err(); // A text is no blob.
    holding.execute("UPDATE emq_rows SET body = CAST('5' AS BLOB)", ()).unwrap();
    let caller = rows.clone();
    let waiting = tokio::spawn(async move { caller.absorb(row(1), job(1), |sum| *sum += 1).await });
    // Room for it to look too early, if it did.
    tokio::time::sleep(Duration::from_millis(30)).await;
    holding.commit().unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Absorbed::Applied);
    assert_eq!(rows.get(row(1)).await.unwrap(), Some(6));
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let file = File::new();
    let db = Sqlite::open(file.path()).await.unwrap();
    let limit = async |pages: &'static str| {
        db.with(move |connection| -> Result<(), StoreError> {
            Ok(connection.query_row(pages, (), |_| Ok(()))?)
        })
        .await
        .unwrap();
    };
    limit("PRAGMA max_page_count = 60").await;
    let rows: Store<String> = db.store(KIND);
    let book = async |rows: &Store<String>| {
        let mut calls = JoinSet::new();
        for by in 0..64 {
            let rows = rows.clone();
            calls.spawn(async move {
                let grow = |text: &mut String| text.push_str(&"x".repeat(8_000));
                (by, rows.absorb(row(by), job(by), grow).await)
            });
        }
        calls.join_all().await
    };
    let first = book(&rows).await;
    let reasons: BTreeSet<String> =
        first.iter().filter_map(|(_, answer)| answer.as_ref().err().map(reason)).collect();
    // The one that filled it, and those that shared its commit.
    let [full, shared] =
        ["database or disk is full", "the transaction was rolled back by the database"];
    assert!(reasons.contains(full), "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason == full || reason == shared), "{reasons:?}");
    for (by, answer) in &first {
        let (is_row, names) = (
            rows.get(row(*by)).await.unwrap().is_some(),
            rows.absorbed(row(*by), 9, None).await.unwrap().len(),
        );
        assert_eq!((is_row, names), (answer.is_ok(), usize::from(answer.is_ok())), "{answer:?}");
    }
    limit("PRAGMA max_page_count = 1000000").await;
    for ((by, before), (same, after)) in sorted(first).into_iter().zip(sorted(book(&rows).await)) {
        assert_eq!(by, same);
        let expected = if before.is_ok() { Absorbed::Declined } else { Absorbed::Applied };
        assert_eq!(after.unwrap(), expected);
    }
}

fn reason(error: &StoreError) -> String {
    assert!(matches!(error, StoreError::Database(_)), "{error:?}");
    error.source().unwrap().to_string()
}

fn sorted<T>(mut answers: Vec<(u64, T)>) -> Vec<(u64, T)> {
    answers.sort_by_key(|(by, _)| *by);
    answers
}

#[tokio::test]
async fn a_commit_waits_for_the_disk_unless_told_otherwise() {
    let pragma = async |builder: emq_stores::sqlite::SqliteBuilder| {
        let db = builder.open().await.unwrap();
        db.with(|c| -> Result<(i64, String), StoreError> {
            let synchronous = c.query_row("PRAGMA synchronous", (), |row| row.get(0))?;
            Ok((synchronous, c.query_row("PRAGMA journal_mode", (), |row| row.get(0))?))
        })
        .await
        .unwrap()
    };
    let file = File::new();
    let normal = Sqlite::builder(file.path()).synchronous(Synchronous::Normal);
    assert_eq!(pragma(Sqlite::builder(file.path())).await, (2, "wal".to_owned()));
    assert_eq!(pragma(normal).await, (1, "wal".to_owned()));
}

#[tokio::test]
async fn the_users_tables_and_version_are_left_alone() {
    let file = File::new();
    file.foreign()
        .execute_batch(
            "CREATE TABLE mine (a); INSERT INTO mine VALUES (1); PRAGMA user_version = 7",
        )
        .unwrap();
    drop(Sqlite::open(file.path()).await.unwrap());
    let version = file.foreign().query_row("PRAGMA user_version", (), |row| row.get::<_, i64>(0));
    assert_eq!(version.unwrap(), 7);
    let mine = file.foreign().query_row("SELECT a FROM mine", (), |row| row.get::<_, i64>(0));
    assert_eq!(mine.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_that_open_a_fresh_file_at_once_all_can() {
    for _ in 0..12 {
        let file = File::new();
        let opening = (0..12).map(|_| tokio::spawn(Sqlite::open(file.path())));
        for opened in opening.collect::<Vec<_>>() {
            let db = opened.await.unwrap().unwrap();
            db.store::<u64>(KIND).put(row(1), &1).await.unwrap();
        }
    }
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let file = File::new();
    drop(Sqlite::open(file.path()).await.unwrap());
    let newer = "UPDATE emq_schema SET version = 99 WHERE part = 'stores'";
    assert_eq!(file.foreign().execute(newer, ()).unwrap(), 1);
    let refused = Sqlite::open(file.path()).await;
    assert!(matches!(refused, Err(StoreError::Schema { found: 99, known: 1 })), "{refused:?}");
}

#[tokio::test]
async fn what_is_no_database_of_ours_is_refused() {
    #[track_caller]
    fn is_refused(opened: &Result<Sqlite, StoreError>) {
        assert!(matches!(opened, Err(StoreError::Database(_))), "{opened:?}");
    }
    // No database at all.
    let file = File::new();
    std::fs::write(file.path(), "what somebody wrote down ".repeat(400)).unwrap();
    is_refused(&Sqlite::open(file.path()).await);
    is_refused(&Sqlite::open(file.directory.path()).await);
    is_refused(&Sqlite::open(file.directory.path().join("no/such/directory.db")).await);
    is_refused(&Sqlite::open(":memory:").await);
    // A table of ours that isn't ours.
    let file = File::new();
    file.foreign().execute_batch("CREATE TABLE emq_rows (a)").unwrap();
    is_refused(&Sqlite::open(file.path()).await);
    let left = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'emq_%'";
    let left = file.foreign().query_row(left, (), |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(left, 1, "it made tables beside it");
    let file = File::new();
    file.foreign().execute_batch("CREATE TABLE emq_schema (a)").unwrap();
    is_refused(&Sqlite::open(file.path()).await);
}

#[tokio::test]
async fn a_damaged_file_is_told() {
    let file = File::new();
    let db = Sqlite::open(file.path()).await.unwrap();
    let rows: Store<String> = db.store(KIND);
    for at in 0..64 {
        rows.put(row(at), &"x".repeat(1_000)).await.unwrap();
    }
    let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
    db.with(move |c| -> Result<(), StoreError> { Ok(c.query_row(truncate, (), |_| Ok(()))?) })
        .await
        .unwrap();
    drop((rows, db));
    // All but the first page is overwritten.
    let mut bytes = std::fs::read(file.path()).unwrap();
    bytes[4096..].fill(0xA5);
    std::fs::write(file.path(), bytes).unwrap();
    let told = match Sqlite::open(file.path()).await {
        Ok(db) => db.store::<String>(KIND).page_desc(99, None).await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(matches!(told, Err(StoreError::Database(_))), "{told:?}");
}
