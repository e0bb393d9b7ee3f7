//! The tables of the stores in PostgreSQL, by version.
#![cfg(any(feature = "tokio-postgres", feature = "sqlx"))]

mod postgres_ground;

use emq_keys::{BrandedId, Namespace, namespace};
use emq_stores::{Store, StoreError};
use postgres_ground::{Client, for_each_client, migrated, new_database};

const KIND: Namespace = namespace!("POS");

for_each_client!(
    first_starts_that_race_are_all_served,
    tables_of_a_newer_program_are_refused_and_left_alone,
    up_to_date_tables_need_no_right_to_create,
    another_default_of_isolation_changes_nothing,
    without_tables_the_database_refuses,
);

async fn first_starts_that_race_are_all_served<C: Client>() {
    let database = new_database();
    let starts: Vec<_> = (0..6)
        .map(|_| {
            let pool = C::pool(&database.url(), 1);
            tokio::spawn(async move { pool.migrate().await })
        })
        .collect();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    assert_eq!(database.sql("SELECT version FROM emq_schema").unwrap(), "1");
}

async fn tables_of_a_newer_program_are_refused_and_left_alone<C: Client>() {
    let (database, pool) = migrated::<C>().await;
    database.sql("UPDATE emq_schema SET version = 99").unwrap();
    for _ in 0..2 {
        match pool.migrate().await {
            Err(StoreError::Schema { found: 99, known: 1 }) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(database.sql("SELECT version FROM emq_schema").unwrap(), "99");
}

async fn up_to_date_tables_need_no_right_to_create<C: Client>() {
    let (database, pool) = migrated::<C>().await;
    drop(pool);
    let role = format!("plain_{}", database.name());
    database.sql(&format!("CREATE ROLE {role} LOGIN")).unwrap();
    database.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC").unwrap();
    let tables = "emq_rows, emq_names, emq_horizons";
    let rights = "SELECT, INSERT, UPDATE, DELETE";
    database.sql(&format!("GRANT {rights} ON {tables} TO {role}")).unwrap();
    database.sql(&format!("GRANT SELECT ON emq_schema TO {role}")).unwrap();
    let pool = C::pool(&database.url().replace("//postgres@", &format!("//{role}@")), 1);
    pool.migrate().await.unwrap();
    let store: Store<u64> = Store::new(pool.store(KIND));
    let id = BrandedId::encode(KIND, 1).unwrap();
    store.put(id, &7).await.unwrap();
    assert_eq!(store.get(id).await.unwrap(), Some(7));
    drop((store, pool));
    database.sql(&format!("DROP OWNED BY {role}")).unwrap();
    database.sql(&format!("DROP ROLE {role}")).unwrap();
}

/// The lock of the migration is waited for, so what is read behind it must not be older.
async fn another_default_of_isolation_changes_nothing<C: Client>() {
    let database = new_database();
    let name = database.name();
    let set = "SET default_transaction_isolation = 'serializable'";
    database.sql(&format!("ALTER DATABASE {name} {set}")).unwrap();
    let starts: Vec<_> = (0..4)
        .map(|_| {
            let pool = C::pool(&database.url(), 1);
            tokio::spawn(async move { pool.migrate().await })
        })
        .collect();
    for start in starts {
        start.await.unwrap().unwrap();
    }
    let pool = C::pool(&database.url(), 4);
    let store: Store<u64> = Store::new(pool.store(KIND));
    let id = BrandedId::encode(KIND, 1).unwrap();
    store.put(id, &0).await.unwrap();
    let calls: Vec<_> = (0..20)
        .map(|by| {
            let (store, by) = (store.clone(), BrandedId::encode(Namespace::JOB, by).unwrap());
            tokio::spawn(async move { store.absorb(id, by, |sum| *sum += 1).await })
        })
        .collect();
    for call in calls {
        let _ = call.await.unwrap().unwrap();
    }
    assert_eq!(store.get(id).await.unwrap(), Some(20));
}

async fn without_tables_the_database_refuses<C: Client>() {
    let database = new_database();
    let store: Store<u64> = Store::new(C::pool(&database.url(), 1).store(KIND));
    let id = BrandedId::encode(KIND, 1).unwrap();
    let job = BrandedId::encode(Namespace::JOB, 1).unwrap();
    for _ in 0..2 {
        match store.get(id).await {
            Err(error @ StoreError::Database(_)) => assert!(!error.is_retryable()),
            other => panic!("{other:?}"),
        }
        let absorbed = store.absorb(id, job, |sum| *sum += 1).await;
        assert!(matches!(absorbed, Err(StoreError::Database(_))), "{absorbed:?}");
    }
}
