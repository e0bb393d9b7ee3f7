//! Rows that change in the caller's own transaction, together with the caller's tables.
#![cfg(any(feature = "tokio-postgres", feature = "sqlx"))]

mod postgres_ground;

use std::convert::Infallible;

use emq_keys::{BrandedId, Namespace, namespace};
use emq_stores::postgres::{Param, PgStore, PgTransaction, Postgres};
use emq_stores::{Absorbed, JobName, Store, StoreError};
use emq_testkit::Database;
use postgres_ground::{Client, migrated};

const KIND: Namespace = namespace!("POS");
const ISOLATIONS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

fn row(number: u64) -> BrandedId {
    BrandedId::encode(KIND, number).unwrap()
}

fn job(number: u64) -> BrandedId {
    BrandedId::encode(Namespace::JOB, number).unwrap()
}

/// The database, its rows as others see them, and as the transactions do.
async fn open<C: Client>() -> (Database, Postgres, Store<i64>, PgStore<i64>) {
    let (database, pool) = migrated::<C>().await;
    database.sql("CREATE TABLE ledger (quantity bigint)").unwrap();
    let store = Store::new(pool.store(KIND));
    (database, pool, store, PgStore::new(KIND))
}

async fn fill(tx: &mut impl PgTransaction, by: u64) -> Absorbed {
    let rows = PgStore::<i64>::new(KIND);
    let done = rows.absorb_in(tx, row(1), job(by), |sum| *sum += 5).await.unwrap();
    if done == Absorbed::Applied {
        let insert = "INSERT INTO ledger (quantity) VALUES ($1)";
        assert_eq!(tx.execute(insert, &[Param::BigInt(5)]).await.unwrap(), 1);
    }
    done
}

/// What every client's transaction does; `begin`, `commit` and `rollback` are the client's own.
macro_rules! with_transactions {
    ($name:ident, $client:ty, $connect:expr, $connection:ident => $begin:expr) => {
        mod $name {
            use super::*;

            #[tokio::test]
            async fn rolled_back_leaves_neither_and_committed_both() {
                let (database, _pool, store, _) = open::<$client>().await;
                let sum = "SELECT coalesce(sum(quantity), 0) FROM ledger";
                #[allow(unused_mut)]
                let mut $connection = $connect(database.url()).await;
                for isolation in ISOLATIONS {
                    let before = (store.get(row(1)).await.unwrap(), database.sql(sum).unwrap());
                    let by = before.0.unwrap_or_default().unsigned_abs();
                    let mut tx = $begin;
                    tx.batch(as_of(isolation)).await.unwrap();
                    assert_eq!(fill(&mut tx, by).await, Absorbed::Applied);
                    tx.rollback().await.unwrap();
                    let after = (store.get(row(1)).await.unwrap(), database.sql(sum).unwrap());
                    assert_eq!(before, after);

                    let mut tx = $begin;
                    tx.batch(as_of(isolation)).await.unwrap();
                    assert_eq!(fill(&mut tx, by).await, Absorbed::Applied);
                    // Declined, and the transaction goes on.
                    assert_eq!(fill(&mut tx, by).await, Absorbed::Declined);
                    tx.execute("INSERT INTO ledger (quantity) VALUES (0)", &[]).await.unwrap();
                    tx.commit().await.unwrap();
                    let after = (store.get(row(1)).await.unwrap(), database.sql(sum).unwrap());
                    let sum = before.0.unwrap_or_default() + 5;
                    assert_eq!(after, (Some(sum), sum.to_string()));
                }
                assert_eq!(database.sql("SELECT count(*) FROM ledger").unwrap(), "6");
            }

            #[tokio::test]
            async fn a_refusal_leaves_the_transaction_usable_and_no_row() {
                let (database, _pool, store, rows) = open::<$client>().await;
                store.compact(job(100)).await.unwrap();
                #[allow(unused_mut)]
                let mut $connection = $connect(database.url()).await;
                let mut tx = $begin;
                let name = JobName::new(job(200));
                let refused = rows
                    .try_absorb_in(&mut tx, row(1), name.clone(), |_| Err::<(i64, ()), _>("no"))
                    .await;
                assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
                let old = rows.absorb_in(&mut tx, row(2), job(1), |sum| *sum += 1).await;
                assert!(matches!(old, Err(StoreError::BeyondHorizon { .. })), "{old:?}");
                let slug = rows.get_in(&mut tx, "not-an-id-at-all").await;
                assert!(matches!(slug, Err(StoreError::Id(_))), "{slug:?}");
                rows.put_in(&mut tx, row(3), &7).await.unwrap();
                assert_eq!(rows.get_in(&mut tx, row(3)).await.unwrap(), Some(7));
                assert_eq!(rows_in(&mut tx).await, 1);
                tx.commit().await.unwrap();
                assert_eq!(database.sql("SELECT count(*) FROM emq_rows").unwrap(), "1");
                assert_eq!(store.get(row(3)).await.unwrap(), Some(7));

                // Not remembered, so it may come again.
                let mut tx = $begin;
                let done = rows
                    .try_absorb_in(&mut tx, row(1), name, |_| Ok::<_, Infallible>((1, ())))
                    .await;
                assert_eq!(done.unwrap(), Absorbed::Applied);
                let step = rows.absorb_step_in(&mut tx, row(1), job(200), "fee", |s| *s += 1);
                assert_eq!(step.await.unwrap(), Absorbed::Applied);
                tx.commit().await.unwrap();
                assert_eq!(store.get(row(1)).await.unwrap(), Some(2));
            }

            /// The other one absorbs the name between our transaction's beginning and our absorb.
            #[tokio::test]
            async fn a_transaction_with_an_old_view_never_applies_twice() {
                let (database, _pool, store, rows) = open::<$client>().await;
                #[allow(unused_mut)]
                let mut $connection = $connect(database.url()).await;
                for (at, isolation) in (0..).zip(ISOLATIONS) {
                    // A row that is there, and one that isn't.
                    store.put(row(2 * at), &0).await.unwrap();
                    for id in [row(2 * at), row(2 * at + 1)] {
                        let mut tx = $begin;
                        tx.batch(as_of(isolation)).await.unwrap();
                        rows_in(&mut tx).await;
                        let first = store.absorb(id, job(1), |sum| *sum += 1).await.unwrap();
                        assert_eq!(first, Absorbed::Applied);
                        let second = rows
                            .absorb_in(&mut tx, id, job(1), |_: &mut i64| -> () {
                                panic!("{isolation}")
                            })
                            .await;
                        match (isolation, second) {
                            ("READ COMMITTED", Ok(Absorbed::Declined)) => {}
                            ("REPEATABLE READ" | "SERIALIZABLE", Err(error)) => {
                                assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
                            }
                            (_, other) => panic!("{isolation}: {other:?}"),
                        }
                        tx.rollback().await.unwrap();
                        assert_eq!(store.get(id).await.unwrap(), Some(1));
                    }
                }
            }

            #[tokio::test]
            async fn every_type_of_parameter_comes_back() {
                let (database, _pool, ..) = open::<$client>().await;
                #[allow(unused_mut)]
                let mut $connection = $connect(database.url()).await;
                let mut tx = $begin;
                every_type(&mut tx).await;
                tx.rollback().await.unwrap();
            }
        }
    };
}

/// The transaction's view of the database begins here, if not before.
async fn rows_in(tx: &mut impl PgTransaction) -> i64 {
    let rows = tx.query("SELECT count(*) FROM emq_rows", &[]).await.unwrap();
    rows[0][0].clone().into_big_int().unwrap()
}

fn as_of(isolation: &str) -> &'static str {
    match isolation {
        "REPEATABLE READ" => "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SERIALIZABLE" => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        _ => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    }
}

async fn every_type(tx: &mut impl PgTransaction) {
    use emq_stores::postgres::Value;

    let echo = "SELECT $1, $2, $3, $4[2], $5[2], $6[2], $7, $8, $9, true, 7::int, 7::smallint";
    let params = [
        Param::Text("ä'\""),
        Param::Bytes(&[0, 255]),
        Param::BigInt(i64::MIN),
        Param::TextArray(&["a", "b"]),
        Param::BytesArray(&[b"a", b"\0b"]),
        Param::BigIntArray(&[1, 2]),
        Param::text(None),
        Param::bytes(None),
        Param::big_int(None),
    ];
    let row = tx.query(echo, &params).await.unwrap().remove(0);
    let expected = [
        Value::Text("ä'\"".to_owned()),
        Value::Bytes(vec![0, 255]),
        Value::BigInt(i64::MIN),
        Value::Text("b".to_owned()),
        Value::Bytes(b"\0b".to_vec()),
        Value::BigInt(2),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Bool(true),
        Value::BigInt(7),
        Value::BigInt(7),
    ];
    assert_eq!(row, expected);
    assert!(tx.query("SELECT 1.5", &[]).await.is_err(), "a type that there is no value for");
}

#[cfg(feature = "tokio-postgres")]
async fn tokio_connection(url: String) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[cfg(feature = "tokio-postgres")]
async fn deadpool_connection(url: String) -> deadpool_postgres::Object {
    match postgres_ground::Tokio::pool(&url, postgres_ground::CONNECTIONS) {
        Postgres::Tokio(pool) => pool.get().await.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[cfg(feature = "sqlx")]
async fn sqlx_pool(url: String) -> sqlx::PgPool {
    sqlx::PgPool::connect(&url).await.unwrap()
}

#[cfg(feature = "tokio-postgres")]
with_transactions!(tokio_postgres_alone, postgres_ground::Tokio, tokio_connection,
    connection => connection.transaction().await.unwrap());
#[cfg(feature = "tokio-postgres")]
with_transactions!(deadpool, postgres_ground::Tokio, deadpool_connection,
    connection => connection.transaction().await.unwrap());
#[cfg(feature = "sqlx")]
with_transactions!(sqlx_pools, postgres_ground::Sqlx, sqlx_pool,
    pool => pool.begin().await.unwrap());
