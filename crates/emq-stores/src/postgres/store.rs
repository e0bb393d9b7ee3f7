//! The store of one kind.

use bytes::Bytes;
use emq_keys::{BrandedId, Namespace};

use super::handle::Postgres;
use super::tables::{ABSORBED, FOLDED, GET, HORIZON, MOVE_HORIZON, PAGE_DESC, PUT, WINDOW, WRITE};
use super::transaction::{Param, Value};
use super::{compact, guard, id_from, next};
use crate::effect::{Absorbed, Compacted, Contribution, Effect, JobName};
use crate::error::StoreError;
use crate::property::{Answer, PropertyStore};

/// The rows of one kind in PostgreSQL: see [`Postgres::store`].
#[derive(Clone, Debug)]
pub struct PostgresStore {
    database: Postgres,
    kind: Namespace,
}

impl PostgresStore {
    pub(super) fn new(database: Postgres, kind: Namespace) -> PostgresStore {
        PostgresStore { database, kind }
    }
}

impl PropertyStore for PostgresStore {
    fn kind(&self) -> Namespace {
        self.kind
    }

    fn get(&self, id: BrandedId) -> Answer<'_, Option<Bytes>> {
        Box::pin(async move {
            let rows = self.database.query(GET, &[Param::Text(id.as_str())]).await?;
            let body = rows.into_iter().flatten().next().map(Value::into_bytes).transpose()?;
            Ok(body.map(Bytes::from))
        })
    }

    fn put(&self, id: BrandedId, row: Bytes) -> Answer<'_, ()> {
        Box::pin(async move {
            let params = [Param::Text(id.as_str()), Param::Bytes(&row)];
            self.database.execute(PUT, &params).await.map(drop)
        })
    }

    fn page_desc(
        &self,
        limit: usize,
        before: Option<BrandedId>,
    ) -> Answer<'_, Vec<(BrandedId, Bytes)>> {
        Box::pin(async move {
            let end = before.map_or_else(|| after_all_of(self.kind), |id| id.to_string());
            self.rows_of(PAGE_DESC, self.kind.as_str(), &end, limit).await
        })
    }

    fn window(
        &self,
        lo: BrandedId,
        hi: BrandedId,
        limit: usize,
    ) -> Answer<'_, Vec<(BrandedId, Bytes)>> {
        Box::pin(async move { self.rows_of(WINDOW, lo.as_str(), hi.as_str(), limit).await })
    }

    fn absorb(&self, id: BrandedId, name: JobName, effect: Effect) -> Answer<'_, Absorbed> {
        Box::pin(async move {
            let mut tx = self.database.begin().await?;
            let written = match guard::decide(&mut tx, id, &name, effect).await {
                Ok(Some(written)) => written,
                Ok(None) => {
                    tx.rollback().await;
                    return Ok(Absorbed::Declined);
                }
                Err(error) => {
                    tx.rollback().await;
                    return Err(error);
                }
            };
            let job = name.job();
            let params = guard::write_params(&id, &job, &name, &written);
            Ok(match tx.commit_with(WRITE, &params).await? {
                0 => Absorbed::Declined,
                _ => Absorbed::Applied,
            })
        })
    }

    fn absorbed(
        &self,
        id: BrandedId,
        limit: usize,
        after: Option<JobName>,
    ) -> Answer<'_, Vec<Contribution>> {
        Box::pin(async move {
            let job = after.as_ref().map(JobName::job);
            let params = [
                Param::Text(id.as_str()),
                Param::Text(job.as_ref().map_or("", BrandedId::as_str)),
                Param::Bytes(after.as_ref().map_or(b"", |name| name.step_name().as_bytes())),
                at_most(limit),
            ];
            self.database.query(ABSORBED, &params).await?.into_iter().map(contribution).collect()
        })
    }

    fn folded(&self, id: BrandedId) -> Answer<'_, u64> {
        Box::pin(async move {
            let rows = self.database.query(FOLDED, &[Param::Text(id.as_str())]).await?;
            let folded = rows.into_iter().flatten().next().map_or(Ok(0), Value::into_big_int)?;
            Ok(u64::try_from(folded).unwrap_or(0))
        })
    }

    fn compact(&self, horizon: BrandedId) -> Answer<'_, Compacted> {
        Box::pin(async move {
            let params = [Param::Text(self.kind.as_str()), Param::Text(horizon.as_str())];
            let moved = self.database.query(MOVE_HORIZON, &params).await?;
            let horizon = id_from(next(&mut moved.into_iter().flatten())?)?;
            compact::names_before(&self.database, self.kind, horizon).await
        })
    }

    fn horizon(&self) -> Answer<'_, Option<BrandedId>> {
        Box::pin(async move {
            let rows = self.database.query(HORIZON, &[Param::Text(self.kind.as_str())]).await?;
            rows.into_iter().flatten().next().map(id_from).transpose()
        })
    }
}

impl PostgresStore {
    async fn rows_of(
        &self,
        sql: &'static str,
        from: &str,
        to: &str,
        limit: usize,
    ) -> Result<Vec<(BrandedId, Bytes)>, StoreError> {
        let params = [Param::Text(from), Param::Text(to), at_most(limit)];
        self.database.query(sql, &params).await?.into_iter().map(id_and_row).collect()
    }
}

fn at_most(limit: usize) -> Param<'static> {
    Param::BigInt(i64::try_from(limit).unwrap_or(i64::MAX))
}

/// Greater than every id of a kind, whose letters all come before it.
pub(super) fn after_all_of(kind: Namespace) -> String {
    format!("{kind}~")
}

fn id_and_row(row: Vec<Value>) -> Result<(BrandedId, Bytes), StoreError> {
    let mut row = row.into_iter();
    Ok((id_from(next(&mut row)?)?, next(&mut row)?.into_bytes()?.into()))
}

fn contribution(row: Vec<Value>) -> Result<Contribution, StoreError> {
    let mut row = row.into_iter();
    let job = id_from(next(&mut row)?)?;
    let step = String::from_utf8(next(&mut row)?.into_bytes()?);
    let step = step.map_err(|error| StoreError::Database(error.into()))?;
    Ok(Contribution {
        name: JobName::step(job, &step),
        contribution: next(&mut row)?.into_bytes()?.into(),
    })
}
