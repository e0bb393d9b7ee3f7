//! graphile_worker on PostgreSQL, as one side of the referee: the class of queues whose enqueue is
//! part of the caller's transaction. Every commit is on disk.
//!
//! At its defaults: 20 connections; woken by NOTIFY, and a poll each second besides; a job that is
//! done is deleted; a lock is held for four hours, because nothing looks for dead workers unless
//! told to.
//!
//! One setting isn't a default: its local queue, which fetches 100 jobs at once. A worker without
//! it takes one job a slot at each poll or NOTIFY, so it works a backlog at its concurrency a
//! second. Each job is completed by a query of its own; `RIVAL_TUNED=1` completes in batches of a
//! millisecond.

use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use course::{Fault, Handler, Job, Rival, Worker, tuned, version};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, Worker as GraphileWorker,
    WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};

/// How long completions are collected when tuned.
const COMPLETE_EVERY: Duration = Duration::from_millis(1);

#[tokio::main]
async fn main() -> ExitCode {
    course::run::<Graphile>().await
}

/// The job; its payload is [`Job`]'s.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Task(Job);

impl TaskHandler for Task {
    const IDENTIFIER: &'static str = "job";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let handler = context.get_ext::<Handler>().ok_or("no handler")?.clone();
        handler.handle(self.0.id).await;
        Ok::<(), &'static str>(())
    }
}

struct Graphile {
    url: String,
    /// Each row has a schema of its own.
    schema: String,
    utils: WorkerUtils,
    pool: PgPool,
}

impl Rival for Graphile {
    fn versions() -> Value {
        let settings = if tuned() { "local queue, batched completion" } else { "local queue" };
        json!({
            "graphile_worker": version("graphile_worker"),
            "sqlx": version("sqlx"),
            "settings": settings,
        })
    }

    fn lacks(row: &str) -> Option<&'static str> {
        match row {
            "process_lanes" | "fairness" => {
                Some("no tenants that take turns: its named queues only run one job at a time")
            }
            _ => None,
        }
    }

    async fn open(url: &str, queue: &str) -> Result<Graphile, Fault> {
        let pool = PgPool::connect(url).await?;
        let drop = format!("drop schema if exists {queue} cascade");
        sqlx::query(AssertSqlSafe(drop)).execute(&pool).await?;
        let migrated = options(url, queue).init().await?;
        let utils = migrated.create_utils();
        Ok(Graphile { url: url.to_owned(), schema: queue.to_owned(), utils, pool })
    }

    async fn enqueue(&self, i: usize) -> Result<(), Fault> {
        self.utils.add_job(Task(Job::of(i)), JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_bulk(&self, jobs: Range<usize>) -> Result<(), Fault> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = jobs.map(|i| (Task(Job::of(i)), &spec)).collect();
        self.utils.add_jobs(&jobs).await?;
        Ok(())
    }

    async fn work(&self, concurrency: usize, handler: Handler) -> Result<Worker, Fault> {
        let mut options = options(&self.url, &self.schema)
            .concurrency(concurrency)
            .local_queue(LocalQueueConfig::default())
            .add_extension(handler);
        if tuned() {
            options = options.complete_job_batch_delay(COMPLETE_EVERY);
        }
        let worker = options.init().await?;
        Ok(Worker::spawn(|stop| run(worker, stop)))
    }

    async fn acknowledged(&self, enqueued: usize) -> Result<usize, Fault> {
        // A job that is done is gone.
        let left = format!("select count(*) from {}._private_jobs", self.schema);
        let left: i64 = sqlx::query_scalar(AssertSqlSafe(left)).fetch_one(&self.pool).await?;
        Ok(enqueued.saturating_sub(usize::try_from(left)?))
    }

    async fn stored_bytes(&self) -> Result<u64, Fault> {
        // Tables with their indexes and what is stored out of line.
        let grown = "select sum(pg_total_relation_size(c.oid))::bigint \
            from pg_class c join pg_namespace n on n.oid = c.relnamespace \
            where n.nspname = $1 and c.relkind = 'r'";
        let bytes: i64 = sqlx::query_scalar(grown).bind(&self.schema).fetch_one(&self.pool).await?;
        Ok(u64::try_from(bytes)?)
    }

    async fn transactional(&self, n: usize) -> Result<Value, Fault> {
        let fills = format!("{}.fills", self.schema);
        let create = format!("create table {fills} (id bigint primary key)");
        sqlx::query(AssertSqlSafe(create)).execute(&self.pool).await?;
        let insert = format!("insert into {fills} (id) values ($1)");
        let mut committed = 0;
        for i in 0..n {
            let mut transaction = self.pool.begin().await?;
            sqlx::query(AssertSqlSafe(insert.as_str()))
                .bind(i64::try_from(i)?)
                .execute(&mut *transaction)
                .await?;
            self.utils
                .clone()
                .with_executor(&mut transaction)
                .add_job(Task(Job::of(i)), JobSpec::default())
                .await?;
            if i % 2 == 0 {
                transaction.commit().await?;
                committed += 1;
            } else {
                transaction.rollback().await?;
            }
        }
        let fills = format!("select count(*) from {fills}");
        let fills: i64 = sqlx::query_scalar(AssertSqlSafe(fills)).fetch_one(&self.pool).await?;
        let jobs = format!("select count(*) from {}._private_jobs", self.schema);
        let jobs: i64 = sqlx::query_scalar(AssertSqlSafe(jobs)).fetch_one(&self.pool).await?;
        Ok(json!({ "attempted": n, "committed": committed, "fills": fills, "jobs": jobs }))
    }
}

fn options(url: &str, schema: &str) -> WorkerOptions {
    WorkerOptions::default().database_url(url).schema(schema).define_job::<Task>()
}

async fn run(worker: GraphileWorker, stop: course::Stop) -> Result<(), Fault> {
    let mut running = std::pin::pin!(worker.run());
    tokio::select! {
        ended = &mut running => return Ok(ended?),
        _ = stop => worker.request_shutdown(),
    }
    Ok(running.await?)
}
