//! Rung 3.3: the state machine in Lua.

use std::time::Duration;

use emq_core::{Completed, Error, Failure as JobFailure, JobState, Lease, Queue, Retried};
use emq_wire::{Cmd, Connection, Reply};

use super::ground::{Ground, require};
use super::surface::{private_names, verbs};
use super::{Finding, Gate, gate};
use crate::Failure;

pub(super) const GATES: &[Gate] = &[
    gate!("L1 surface", surface),
    gate!("L2 happy", happy),
    gate!("L3 fence", fence),
    gate!("L4 schedule", schedule),
    gate!("L5 dead", dead),
    gate!("L6 reap", reap),
];

const LEASE: Duration = Duration::from_secs(60);

/// The verbs of this chapter are there; scripts and the shapes of keys are not in sight.
async fn surface(_ground: &Ground) -> Finding {
    let chapter = verbs![
        Queue::claim,
        Queue::complete,
        Queue::retry,
        Queue::release,
        Queue::extend,
        Queue::checkpoint,
        Queue::promote,
        Queue::reap,
        Queue::cancel,
        Queue::remove,
        Queue::pause,
        Queue::resume,
        Queue::drain,
        Lease::complete,
        Lease::retry,
        Lease::release,
    ];
    let exported = private_names()?;
    Ok(format!(
        "{} public verbs; none of {exported} names of scripts and keys is exported",
        chapter.len()
    ))
}

/// Token 1 under a lease of the server's clock; completion leaves nothing.
async fn happy(ground: &Ground) -> Finding {
    let (_bus, queue) = ground.queue("rung-3-3-happy").await?;
    let raw = ground.connect().await?;
    let id = queue.enqueue("work").await?.id();
    let before = server_ms(&raw).await?;
    let lease = claim(&queue, LEASE).await?;
    let after = server_ms(&raw).await?;
    let score = raw.command(Cmd::new("ZSCORE").arg(queue.keys().active()).arg(id)).await?;
    let deadline = text(&score)?.parse::<u64>()?;
    let lease_ms = LEASE.as_millis() as u64;
    require(
        lease.token() == 1 && (before + lease_ms..=after + lease_ms).contains(&deadline),
        || format!("token {}, deadline {deadline}, claimed in {before}..={after}", lease.token()),
    )?;
    let completed = lease.complete().await?;
    raw.command(Cmd::new("DEL").arg(queue.keys().wake())).await?;
    let left = ground.keys(&queue).await?;
    require(completed == Completed::Done && left.is_empty(), || {
        format!("{completed:?}, {left:?} left")
    })?;
    Ok(format!(
        "token 1, deadline {} ms after the claim by the server's clock; complete left 0 keys",
        deadline - before
    ))
}

/// A wrong token is refused, and the holder's work survives.
async fn fence(ground: &Ground) -> Finding {
    let (_bus, queue) = ground.queue("rung-3-3-fence").await?;
    let id = queue.enqueue("work").await?.id();
    let lease = claim(&queue, LEASE).await?;
    let mut wrong = lease.hold().clone();
    wrong.token += 1;
    let mut refused = Vec::new();
    for (verb, outcome) in [
        ("complete", queue.complete(&wrong).await.map(drop)),
        ("retry", queue.retry(&wrong, &JobFailure::new("not mine")).await.map(drop)),
        ("release", queue.release(&wrong).await.map(drop)),
        ("extend", queue.extend(&wrong, LEASE).await.map(drop)),
        ("checkpoint", queue.checkpoint(&wrong, b"x", None).await.map(drop)),
    ] {
        match outcome {
            Err(Error::Stale { .. }) => refused.push(verb),
            other => return Err(format!("{verb} with a wrong token: {other:?}").into()),
        }
    }
    let record = queue.get(id).await?.ok_or("the row is gone")?;
    require(record.state == JobState::Active && record.checkpoint.is_none(), || {
        format!("{record:?}")
    })?;
    let completed = lease.complete().await?;
    require(completed == Completed::Done, || format!("the holder's own settle: {completed:?}"))?;
    ground.remove(&queue).await?;
    Ok(format!(
        "EMQSTALE for {} under a wrong token; the holder still completed",
        refused.join(", ")
    ))
}

/// Retried into the schedule, promoted when due, claimed again under token 2.
async fn schedule(ground: &Ground) -> Finding {
    let (_bus, queue) = ground.queue("rung-3-3-schedule").await?;
    let id = queue.enqueue("work").await?.id();
    let lease = claim(&queue, LEASE).await?;
    let delay = Duration::from_millis(30);
    let retried = lease.retry(&JobFailure::new("not yet").delay(delay).max_attempts(5)).await?;
    let record = queue.get(id).await?.ok_or("the row is gone")?;
    require(retried == Retried::Scheduled && record.state == JobState::Scheduled, || {
        format!("{retried:?}, {record:?}")
    })?;
    require(record.last_error.as_deref() == Some("not yet"), || format!("{record:?}"))?;
    until("the job is due", || async { Ok(queue.promote(10).await? == 1) }).await?;
    let again = claim(&queue, LEASE).await?;
    require(again.id() == id && again.token() == 2, || {
        format!("{} token {}", again.id(), again.token())
    })?;
    let completed = again.complete().await?;
    ground.remove(&queue).await?;
    Ok(format!("retry scheduled it with last_error, promote moved 1, token 2 ({completed:?})"))
}

/// At the cap a job goes to the morgue and can be read there, in mint order.
async fn dead(ground: &Ground) -> Finding {
    let (_bus, queue) = ground.queue("rung-3-3-dead").await?;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(queue.enqueue(n.to_string()).await?.id());
    }
    for attempt in 1..=2 {
        for _ in &ids {
            let lease = claim(&queue, LEASE).await?;
            let failure = JobFailure::new(format!("failed {attempt} of 2")).max_attempts(2);
            let retried = lease.retry(&failure).await?;
            let expected = if attempt == 2 { Retried::Dead } else { Retried::Scheduled };
            require(retried == expected, || format!("attempt {attempt}: {retried:?}"))?;
        }
        if attempt == 1 {
            let mut promoted = 0;
            until("all are due", || async { Ok(queue.promote(10).await?) })
                .await
                .map(|n| promoted += n)?;
            while promoted < 3 {
                promoted += queue.promote(10).await?;
            }
        }
    }
    let morgue = queue.morgue().browse(10).await?;
    let newest_first: Vec<_> = ids.iter().rev().copied().collect();
    let found: Vec<_> = morgue.iter().map(|record| record.id).collect();
    let errors = morgue.iter().all(|r| r.last_error.as_deref() == Some("failed 2 of 2"));
    require(found == newest_first && errors, || format!("{morgue:?}"))?;
    let counts = queue.counts().await?;
    require(counts.dead == 3 && counts.pending == 0 && counts.active == 0, || {
        format!("{counts:?}")
    })?;
    ground.remove(&queue).await?;
    Ok("attempts 2 of 2 is the morgue; 3 dead browsable in mint order, last_error \"failed 2 of 2\" kept".into())
}

/// A short lease ends, the reaper returns the job, the next claim holds token 2.
async fn reap(ground: &Ground) -> Finding {
    let (_bus, queue) = ground.queue("rung-3-3-reap").await?;
    let id = queue.enqueue("work").await?.id();
    let lost = claim(&queue, Duration::from_millis(40)).await?;
    until("the lease ends", || async { Ok(queue.reap(10, 10).await?.returned == 1) }).await?;
    let again = claim(&queue, LEASE).await?;
    require(again.id() == id && (lost.token(), again.token()) == (1, 2), || {
        format!("{} token {}", again.id(), again.token())
    })?;
    let late = lost.complete().await;
    require(matches!(late, Err(Error::Stale { .. })), || format!("the late holder: {late:?}"))?;
    let record = queue.get(id).await?.ok_or("the row is gone")?;
    require(record.lost == 1, || format!("{record:?}"))?;
    let completed = again.complete().await?;
    ground.remove(&queue).await?;
    Ok(format!(
        "a 40 ms lease ended, reap returned 1, token 2 ({completed:?}); the late holder is EMQSTALE"
    ))
}

async fn claim(queue: &Queue, lease: Duration) -> Result<Lease, Failure> {
    queue.claim(lease).await?.ok_or_else(|| "nothing to claim".into())
}

async fn server_ms(raw: &Connection) -> Result<u64, Failure> {
    match raw.command(Cmd::new("TIME")).await? {
        Reply::Array(parts) if parts.len() == 2 => {
            let (seconds, micros): (u64, u64) =
                (text(&parts[0])?.parse()?, text(&parts[1])?.parse()?);
            Ok(seconds * 1000 + micros / 1000)
        }
        other => Err(format!("{other:?} for TIME").into()),
    }
}

fn text(reply: &Reply) -> Result<String, Failure> {
    let bytes = reply.as_bytes().ok_or_else(|| format!("{reply:?} where text was expected"))?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// What a question may answer with: "not yet" until it is something.
trait Answer: Default + PartialEq {}
impl Answer for bool {}
impl Answer for u64 {}

/// Asks again until the server's own clock has come that far.
async fn until<A, F, T>(what: &str, mut ask: A) -> Result<T, Failure>
where
    A: FnMut() -> F,
    F: Future<Output = Result<T, Failure>>,
    T: Answer,
{
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let answer = ask().await?;
        if answer != T::default() {
            return Ok(answer);
        }
        if tokio::time::Instant::now() > deadline {
            return Err(format!("waited 20 s until {what}").into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
