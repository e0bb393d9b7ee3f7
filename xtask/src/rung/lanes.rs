//! Rung 3.4: fair lanes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emq_core::{
    Backoff, Completed, Job, JobError, Lane, Lanes, Lease, NewJob, Phase, Queue, Switched,
    TypedLane, Worker,
};
use emq_keys::{BrandedId, Namespace, QueueKeys};
use emq_wire::{Cmd, Connection, Reply};
use tokio::sync::mpsc;

use super::ground::{Ground, int, require};
use super::surface::{private_names, verbs};
use super::{Finding, Gate, gate};
use crate::Failure;

pub(super) const GATES: &[Gate] = &[
    gate!("G1 surface", surface),
    gate!("G2 rotation", rotation),
    gate!("G3 starvation", starvation),
    gate!("G4 limit", limit),
    gate!("G5 pause", pause),
    gate!("G6 park", park),
    gate!("G7 rhythm", rhythm),
    gate!("G8 window", window),
];

const LEASE: Duration = Duration::from_secs(60);
/// How long a gate waits for something that comes at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The verbs of this chapter are there; scripts and the shapes of keys are not in sight.
async fn surface(_ground: &Ground) -> Finding {
    let chapter = verbs![
        Queue::lane,
        Queue::lanes,
        Queue::claim_lane,
        Queue::reassign,
        |l: Lane| drop(l.enqueue("")),
        Lane::limit,
        Lane::unlimited,
        Lane::weight,
        Lane::pause,
        Lane::resume,
        Lane::depth,
        Lane::browse,
        Lane::status,
        Lanes::page,
        TypedLane::<u8>::enqueue,
        NewJob::lane,
        Worker::stop,
    ];
    let exported = private_names()?;
    Ok(format!(
        "{} public verbs; none of {exported} names of scripts and keys is exported",
        chapter.len()
    ))
}

/// Three lanes, twelve claims: four strict turns, each lane in mint order.
async fn rotation(ground: &Ground) -> Finding {
    let (bus, queue) = ground.queue("rung-3-4-rotation").await?;
    let lanes = named_lanes(&["north", "east", "south"])?;
    let mut minted = vec![Vec::new(); lanes.len()];
    for _ in 0..4 {
        for (lane, minted) in lanes.iter().zip(&mut minted) {
            minted.push(queue.lane(*lane).enqueue("x").await?.id());
        }
    }
    let mut served = Vec::new();
    for _ in 0..12 {
        let lease = claim(&queue).await?;
        served.push((lease.group(), lease.id()));
    }
    for (at, (group, id)) in served.iter().enumerate() {
        let (lane, turn) = (at % lanes.len(), at / lanes.len());
        require(*group == Some(lanes[lane]) && *id == minted[lane][turn], || {
            format!("claim {at} served {group:?} {id}, not {} {}", lanes[lane], minted[lane][turn])
        })?;
    }
    let sent = bus.counters().commands;
    let keys: &QueueKeys = queue.keys();
    let refused = keys.lane_from_bytes(b"not-a-valid-id");
    require(refused.is_err() && bus.counters().commands == sent, || format!("{refused:?}"))?;
    ground.remove(&queue).await?;
    Ok("12 claims over 3 lanes: 4 strict turns of the ring, each lane in mint order; a lane not named by an id is refused before the wire".into())
}

/// A storm of 400 beside 20 quiet jobs, on lanes and on a flat queue.
async fn starvation(ground: &Ground) -> Finding {
    const STORM: usize = 400;
    const QUIET: usize = 20;
    let (bus, queue) = ground.queue("rung-3-4-starvation").await?;
    let [storm, quiet] = named_lanes(&["storm", "quiet"])?[..] else {
        return Err("two lanes were named".into());
    };
    let mut jobs = Vec::new();
    for n in 0..STORM + QUIET {
        let lane = if n < STORM { storm } else { quiet };
        jobs.push(NewJob::new(bus.mint_job().await?, "x").lane(lane));
    }
    let quiet_ids: Vec<BrandedId> = jobs[STORM..].iter().map(NewJob::id).collect();
    queue.enqueue_many(&jobs).await?;
    let mut positions = Vec::new();
    for at in 1..=STORM + QUIET {
        let lease = claim(&queue).await?;
        if lease.group() == Some(quiet) {
            positions.push(at);
        }
        settle(&lease).await?;
    }
    let expected: Vec<usize> = (1..=QUIET).map(|n| n * 2).collect();
    require(positions == expected, || format!("quiet jobs at {positions:?}"))?;

    let (_bus, flat) = ground.queue("rung-3-4-flat").await?;
    let jobs: Vec<NewJob> = jobs.iter().map(|job| NewJob::new(job.id(), "x")).collect();
    flat.enqueue_many(&jobs).await?;
    let mut first_quiet = None;
    for at in 1..=STORM + QUIET {
        let lease = flat.claim(LEASE).await?.ok_or("the flat queue ran dry")?;
        if first_quiet.is_none() && quiet_ids.contains(&lease.id()) {
            first_quiet = Some(at);
        }
        settle(&lease).await?;
    }
    require(first_quiet == Some(STORM + 1), || format!("flat: first quiet at {first_quiet:?}"))?;
    ground.remove(&queue).await?;
    ground.remove(&flat).await?;
    Ok(format!(
        "{STORM} storm jobs and {QUIET} quiet ones: the quiet lane's positions are 2, 4, ... {}; flat in the same order serves its first quiet job at {}",
        QUIET * 2,
        STORM + 1
    ))
}

/// A ceiling of 2 holds, and one completion reopens the lane.
async fn limit(ground: &Ground) -> Finding {
    let (_bus, queue) = ground.queue("rung-3-4-limit").await?;
    let lane = queue.lane(named_lanes(&["capped"])?[0]);
    let set = lane.limit(2).await?;
    for _ in 0..4 {
        let _ = lane.enqueue("x").await?;
    }
    let first = claim(&queue).await?;
    let _second = claim(&queue).await?;
    let third = queue.claim_lane(LEASE).await?;
    require(set == Switched::Changed && third.is_none(), || {
        format!("a third was served: {third:?}")
    })?;
    settle(&first).await?;
    let reopened = queue.claim_lane(LEASE).await?;
    let fourth = queue.claim_lane(LEASE).await?;
    require(reopened.is_some() && fourth.is_none(), || format!("{reopened:?} then {fourth:?}"))?;
    let status = lane.status().await?;
    require(status.leases == 2 && status.depth == 1, || format!("{status:?}"))?;
    ground.remove(&queue).await?;
    Ok("2 leases out, the third claim empty; one complete reopens the lane for exactly one".into())
}

/// A paused lane keeps its backlog; resumed, it is served in order.
async fn pause(ground: &Ground) -> Finding {
    let (_bus, queue) = ground.queue("rung-3-4-pause").await?;
    let lane = queue.lane(named_lanes(&["held"])?[0]);
    let mut minted = Vec::new();
    for _ in 0..5 {
        minted.push(lane.enqueue("x").await?.id());
    }
    let paused = lane.pause().await?;
    let meanwhile = queue.claim_lane(LEASE).await?;
    let depth = lane.depth().await?;
    require(paused == Switched::Changed && meanwhile.is_none() && depth == 5, || {
        format!("{paused:?}, {meanwhile:?}, depth {depth}")
    })?;
    let resumed = lane.resume().await?;
    let mut served = Vec::new();
    for _ in 0..5 {
        served.push(claim(&queue).await?.id());
    }
    require(resumed == Switched::Changed && served == minted, || format!("{served:?}"))?;
    ground.remove(&queue).await?;
    Ok("paused: nothing served, backlog of 5 intact; resumed: the 5 in mint order".into())
}

/// A parked worker sends nothing, and starts work long before its beat.
async fn park(ground: &Ground) -> Finding {
    const WINDOW: Duration = Duration::from_millis(400);
    const BEAT: Duration = Duration::from_secs(5);
    const WAKES: usize = 50;
    let (_bus, queue) = ground.queue("rung-3-4-park").await?;
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::builder(&queue)
        .beat(BEAT)
        .handler(move |_job: Job<bytes::Bytes>| {
            let _ = started.send(Instant::now());
            async { Ok(()) }
        })
        .start()?;
    let raw = ground.connect().await?;
    parked(&worker).await?;
    // The beat may fall into one window; it can't fall into each of three.
    let mut idle = i64::MAX;
    for _ in 0..3 {
        let before = commands_processed(&raw).await?;
        tokio::time::sleep(WINDOW).await;
        // The question itself is one of those counted.
        idle = idle.min(commands_processed(&raw).await? - before - 1);
    }
    let polls = poll_for(&raw, &queue, WINDOW).await?;
    require(idle == 0, || format!("{idle} commands in an idle window"))?;

    let mut latencies = Vec::with_capacity(WAKES);
    for _ in 0..WAKES {
        parked(&worker).await?;
        let sent = Instant::now();
        let _ = queue.enqueue("x").await?;
        let started = tokio::time::timeout(PATIENCE, starts.recv()).await?;
        latencies.push(started.ok_or("the worker is gone")?.saturating_duration_since(sent));
    }
    worker.stop(PATIENCE).await;
    ground.remove(&queue).await?;
    latencies.sort();
    let (median, last) = (latencies[WAKES / 2], latencies[WAKES - 1]);
    require(last < BEAT / 2, || format!("a wake took {last:?} at a beat of {BEAT:?}"))?;
    Ok(format!(
        "{idle} commands in {} ms idle, a 10 ms poller sent {polls}; {WAKES} wakes against a beat of {} ms: median {:.2} ms, slowest {:.2} ms",
        WINDOW.as_millis(),
        BEAT.as_millis(),
        median.as_secs_f64() * 1000.0,
        last.as_secs_f64() * 1000.0,
    ))
}

/// An orphan is reaped on the beat, a flaky job comes back through the schedule.
async fn rhythm(ground: &Ground) -> Finding {
    let (_bus, queue) = ground.queue("rung-3-4-rhythm").await?;
    let lane = queue.lane(named_lanes(&["steady"])?[0]);
    let orphan = lane.enqueue("orphan").await?.id();
    let lost = queue.claim_lane(Duration::from_millis(60)).await?.ok_or("nothing to claim")?;
    let flaky = lane.enqueue("flaky").await?.id();
    let (done, mut outcomes) = mpsc::unbounded_channel();
    let done = Arc::new(done);
    let worker = Worker::builder(&queue)
        .beat(Duration::from_millis(50))
        .backoff(Backoff::fixed(Duration::from_millis(20)))
        .handler(move |job: Job<bytes::Bytes>| {
            let done = Arc::clone(&done);
            async move {
                if *job.payload == *b"flaky" && job.token() == 1 {
                    return Err(JobError::new("not the first time"));
                }
                let _ = done.send((job.id(), job.token()));
                Ok(())
            }
        })
        .start()?;
    let mut tokens = Vec::new();
    for _ in 0..2 {
        tokens.push(tokio::time::timeout(PATIENCE, outcomes.recv()).await?.ok_or("no worker")?);
    }
    let report = worker.stop(PATIENCE).await;
    tokens.sort();
    let mut expected = vec![(orphan, 2), (flaky, 2)];
    expected.sort();
    require(tokens == expected && lost.id() == orphan, || format!("{tokens:?}, {report:?}"))?;
    let raw = ground.connect().await?;
    let leases = raw.command(Cmd::new("EXISTS").arg(queue.keys().gactive())).await?;
    let ring = raw.command(Cmd::new("LLEN").arg(queue.keys().ring())).await?;
    require((int(&leases)?, int(&ring)?) == (0, 0), || format!("{leases:?}, ring {ring:?}"))?;
    ground.remove(&queue).await?;
    Ok(format!(
        "orphaned 60 ms lease reaped on the beat and served with token 2; the flaky job came back through the schedule with token 2 ({} retried); no lease counted, ring empty",
        report.totals.retried
    ))
}

/// A late holder after the reaper retires the job everywhere.
async fn window(ground: &Ground) -> Finding {
    let (_bus, queue) = ground.queue("rung-3-4-window").await?;
    let lane = queue.lane(named_lanes(&["late"])?[0]);
    let short = Duration::from_millis(40);
    for on_lane in [true, false] {
        let id =
            if on_lane { lane.enqueue("x").await?.id() } else { queue.enqueue("x").await?.id() };
        let held =
            if on_lane { queue.claim_lane(short).await? } else { queue.claim(short).await? };
        let held = held.ok_or("nothing to claim")?;
        let deadline = Instant::now() + PATIENCE;
        while queue.reap(10, 10).await?.returned == 0 {
            require(Instant::now() < deadline, || "the lease never ended".into())?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let completed = held.complete().await?;
        let again = queue.claim_lane(LEASE).await?.is_some() || queue.claim(LEASE).await?.is_some();
        let row = queue.get(id).await?;
        require(completed == Completed::Done && !again && row.is_none(), || {
            format!("lane {on_lane}: {completed:?}, served again {again}, row {row:?}")
        })?;
    }
    let left: Vec<String> =
        ground.keys(&queue).await?.into_iter().filter(|key| key != queue.keys().wake()).collect();
    require(left.is_empty(), || format!("{left:?} left"))?;
    ground.remove(&queue).await?;
    Ok("reaped, then completed late by its holder: gone from lane, ring and flat set, row deleted, never served again".into())
}

fn named_lanes(names: &[&str]) -> Result<Vec<BrandedId>, Failure> {
    let tenant = Namespace::new("TEN")?;
    names.iter().map(|name| Ok(BrandedId::derive(tenant, name.as_bytes())?)).collect()
}

async fn claim(queue: &Queue) -> Result<Lease, Failure> {
    queue.claim_lane(LEASE).await?.ok_or_else(|| "nothing to claim".into())
}

async fn settle(lease: &Lease) -> Result<(), Failure> {
    match lease.complete().await? {
        Completed::Done => Ok(()),
        Completed::NoRow => Err(format!("{} is gone", lease.id()).into()),
    }
}

/// Waits until a worker parks.
async fn parked(worker: &Worker) -> Result<(), Failure> {
    let mut status = worker.status();
    let waiting = status.wait_for(|status| status.phase == Phase::Parked);
    tokio::time::timeout(PATIENCE, waiting).await??;
    Ok(())
}

/// How many commands the server has run.
async fn commands_processed(raw: &Connection) -> Result<i64, Failure> {
    let info = raw.command(Cmd::new("INFO").arg("stats")).await?;
    let info = info.as_bytes().cloned().unwrap_or_default();
    String::from_utf8_lossy(&info)
        .lines()
        .find_map(|line| line.strip_prefix("total_commands_processed:")?.trim().parse().ok())
        .ok_or_else(|| "INFO doesn't say how many commands were processed".into())
}

/// What polling every 10 ms would have sent in the same window.
async fn poll_for(raw: &Connection, queue: &Queue, window: Duration) -> Result<u32, Failure> {
    let ends = Instant::now() + window;
    let mut polls = 0;
    while Instant::now() < ends {
        let reply = raw.command(Cmd::new("ZCARD").arg(queue.keys().pending())).await?;
        require(reply == Reply::Int(0), || format!("{reply:?}"))?;
        polls += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(polls)
}
