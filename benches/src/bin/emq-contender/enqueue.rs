//! Jobs into a queue, in the three ways of a producer, and as preparation of other rows.

use std::time::{Duration, Instant};

use contender::payload;
use emq_core::{Durability, EnqueueOptions, Enqueued, NewJob, Queue, Verdict};
use emq_keys::{BrandedId, namespace};
use tokio::task::JoinSet;

use crate::Failure;

const TASKS: usize = 50;
const TENANTS: usize = 100;
/// Jobs of one bulk call.
const BULK: usize = 1_000;

/// Each call awaited before the next.
pub(crate) async fn one_by_one(
    queue: &Queue,
    n: usize,
    options: &EnqueueOptions,
) -> Result<Duration, Failure> {
    let begun = Instant::now();
    for i in 0..n {
        one(queue, i, options).await?;
    }
    Ok(begun.elapsed())
}

/// From fifty tasks that share the queue's one connection.
pub(crate) async fn from_tasks(
    queue: &Queue,
    n: usize,
    options: &EnqueueOptions,
) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (queue, options) = (queue.clone(), options.clone());
        tasks.spawn(async move {
            for i in (task..n).step_by(TASKS) {
                one(&queue, i, &options).await?;
            }
            Ok::<_, Failure>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(begun.elapsed())
}

/// One job, acknowledged as asked or an error.
pub(crate) async fn one(queue: &Queue, i: usize, options: &EnqueueOptions) -> Result<(), Failure> {
    match queue.enqueue_with(payload(i), options).await?.confirmed()? {
        Enqueued::Admitted(_) => Ok(()),
        other => Err(format!("job {i} is new, yet the answer is {other:?}").into()),
    }
}

/// A thousand jobs a call.
pub(crate) async fn bulk(
    queue: &Queue,
    n: usize,
    durability: Durability,
) -> Result<Duration, Failure> {
    let begun = Instant::now();
    for first in (0..n).step_by(BULK) {
        let jobs = list(queue, first..(first + BULK).min(n), |_| None).await?;
        admitted(queue.enqueue_many_with(&jobs, durability).await?)?;
    }
    Ok(begun.elapsed())
}

/// Jobs 0 to n - 1, as preparation: no clock runs.
pub(crate) async fn fill(queue: &Queue, n: usize) -> Result<(), Failure> {
    bulk(queue, n, Durability::Volatile).await.map(|_| ())
}

/// The same over a hundred lanes in turn.
pub(crate) async fn fill_lanes(queue: &Queue, n: usize) -> Result<(), Failure> {
    let lanes = (0..TENANTS).map(tenant).collect::<Result<Vec<_>, _>>()?;
    let jobs = list(queue, 0..n, |i| Some(lanes[i % TENANTS])).await?;
    admitted(queue.enqueue_many(&jobs).await?)
}

/// Jobs for one bulk call.
pub(crate) async fn list(
    queue: &Queue,
    numbers: std::ops::Range<usize>,
    lane: impl Fn(usize) -> Option<BrandedId>,
) -> Result<Vec<NewJob>, Failure> {
    let mut jobs = Vec::with_capacity(numbers.len());
    for i in numbers {
        let job = NewJob::new(queue.bus().mint_job().await?, payload(i));
        jobs.push(match lane(i) {
            Some(lane) => job.lane(lane),
            None => job,
        });
    }
    Ok(jobs)
}

/// The lane of a tenant.
pub(crate) fn tenant(number: usize) -> Result<BrandedId, Failure> {
    Ok(BrandedId::derive(namespace!("TEN"), format!("tenant-{number}").as_bytes())?)
}

/// Every job of a list is new.
pub(crate) fn admitted(verdicts: Vec<Verdict>) -> Result<(), Failure> {
    match verdicts.into_iter().find(|verdict| !matches!(verdict, Verdict::Admitted(_))) {
        None => Ok(()),
        Some(other) => Err(format!("a job is new, yet the answer is {other:?}").into()),
    }
}
