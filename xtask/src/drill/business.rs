//! The business's side of the relay's drill: fills as rows, and their jobs in the outbox.

use std::collections::HashMap;

use emq_core::NewJob;
use emq_keys::BrandedId;
use emq_stores::StoreError;
use emq_stores::outbox::{Outbox, OutboxError, Placed, Shelf};
use emq_stores::postgres::Postgres;
use emq_stores::sqlite::Sqlite;

use crate::Failure;
use crate::books::{Fill, Place};

/// Connections of one program to PostgreSQL.
const CONNECTIONS: usize = 4;
/// Fills of one transaction, and of how many transactions one is rolled back.
const TOGETHER: usize = 10;
const ONE_BACK_OF: usize = 5;
/// The queue that the outbox's jobs are for.
pub(super) const QUEUE: &str = "drill-relay";

const TABLE: &str = "CREATE TABLE fills (job text PRIMARY KEY)";
const FILL: &str = "INSERT INTO fills VALUES ($1)";
const WAITING: &str = "SELECT count(*) FROM emq_outbox";
const SEIZE: &str = "
    DELETE FROM emq_outbox WHERE (queue, id) IN (
        SELECT queue, id FROM emq_outbox ORDER BY id LIMIT $1
    )
    RETURNING id, payload, lane";

/// A connection of the pool. It is of a crate that this one doesn't depend on by name.
macro_rules! client {
    ($db:expr) => {
        match $db {
            Postgres::Tokio(pool) => pool.get().await?,
            _ => return Err("the pool is another client's".into()),
        }
    };
}

/// The database that the business's rows, the outbox and the books lie in.
#[derive(Clone)]
pub(super) enum Business {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Business {
    pub(super) async fn open(place: &Place) -> Result<Business, Failure> {
        Ok(match place {
            Place::File(path) => {
                let db = Sqlite::open(path).await?;
                db.migrate_outbox().await?;
                Business::Sqlite(db)
            }
            Place::Url(url) => {
                let db = Postgres::tokio(url, CONNECTIONS)?;
                db.migrate_outbox().await?;
                Business::Postgres(db)
            }
        })
    }

    pub(super) fn outbox(&self) -> Shelf {
        match self {
            Business::Sqlite(db) => db.clone().into(),
            Business::Postgres(db) => db.clone().into(),
        }
    }

    /// Writes fills and their jobs, some in each transaction, and rolls some of these back. Answers
    /// the fills that were committed: those, and no others, must be booked.
    pub(super) async fn write(
        &self,
        fills: HashMap<BrandedId, Fill>,
    ) -> Result<HashMap<BrandedId, Fill>, Failure> {
        self.make_table().await?;
        let fills: Vec<(BrandedId, Fill)> = fills.into_iter().collect();
        let mut committed = HashMap::new();
        for (n, fills) in fills.chunks(TOGETHER).enumerate() {
            let mut jobs = Vec::with_capacity(fills.len());
            for (id, fill) in fills {
                jobs.push(NewJob::new(*id, serde_json::to_vec(fill)?).lane(fill.portfolio));
            }
            let commit = n % ONE_BACK_OF != 0;
            match self {
                Business::Sqlite(db) => in_sqlite(db, jobs, commit).await?,
                Business::Postgres(db) => in_postgres(db, &jobs, commit).await?,
            }
            if commit {
                committed.extend(fills.iter().cloned());
            }
        }
        Ok(committed)
    }

    async fn make_table(&self) -> Result<(), Failure> {
        match self {
            Business::Sqlite(db) => {
                db.with(|db| db.execute_batch(TABLE).map_err(StoreError::from)).await?;
            }
            Business::Postgres(db) => client!(db).batch_execute(TABLE).await?,
        }
        Ok(())
    }

    /// How many rows the outbox has, refused ones included.
    pub(super) async fn waiting(&self) -> Result<i64, Failure> {
        match self {
            Business::Sqlite(db) => {
                let count = db.with(|db| {
                    db.query_row(WAITING, (), |row| row.get(0)).map_err(StoreError::from)
                });
                Ok(count.await?)
            }
            Business::Postgres(db) => Ok(client!(db).query_one(WAITING, &[]).await?.get(0)),
        }
    }

    /// Deletes rows before anybody has their jobs: what a relay must never do.
    pub(super) async fn seize(&self, limit: i64) -> Result<Vec<NewJob>, Failure> {
        type Columns = (String, Vec<u8>, Option<String>);
        let rows: Vec<Columns> = match self {
            Business::Sqlite(db) => {
                let seized = db.with(move |db| {
                    let mut seize = db.prepare(SEIZE)?;
                    let rows = seize
                        .query_map([limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                    Ok::<Vec<Columns>, StoreError>(rows.collect::<Result<_, _>>()?)
                });
                seized.await?
            }
            Business::Postgres(db) => {
                let rows = client!(db).query(SEIZE, &[&limit]).await?;
                rows.into_iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
            }
        };
        let mut jobs = Vec::with_capacity(rows.len());
        for (id, payload, lane) in rows {
            let job = NewJob::new(id.parse()?, payload);
            jobs.push(match lane {
                Some(lane) => job.lane(lane.parse()?),
                None => job,
            });
        }
        Ok(jobs)
    }
}

/// A transaction on the database's thread: an error rolls it back.
async fn in_sqlite(db: &Sqlite, jobs: Vec<NewJob>, commit: bool) -> Result<(), Failure> {
    let outcome = db.transaction(move |tx| {
        for job in &jobs {
            tx.execute(FILL, [job.id().as_str()]).map_err(StoreError::from)?;
            let Placed::Written = Outbox::new().enqueue_sqlite(tx, QUEUE, job)? else {
                return Err(OutboxError::Kind { id: job.id() });
            };
        }
        // Any error does.
        if commit { Ok(()) } else { Err(OutboxError::NoMinter) }
    });
    match outcome.await {
        Err(OutboxError::NoMinter) if !commit => Ok(()),
        outcome => Ok(outcome?),
    }
}

async fn in_postgres(db: &Postgres, jobs: &[NewJob], commit: bool) -> Result<(), Failure> {
    let mut client = client!(db);
    let mut tx = client.transaction().await?;
    for job in jobs {
        tx.execute(FILL, &[&job.id().as_str()]).await?;
        let Placed::Written = Outbox::new().enqueue(&mut tx, QUEUE, job).await? else {
            return Err(format!("{} is written twice", job.id()).into());
        };
    }
    if commit {
        tx.commit().await?
    } else {
        tx.rollback().await?
    }
    Ok(())
}
