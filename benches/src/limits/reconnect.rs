//! From a server that accepts again to the first job served.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use contender::{Effects, id_of};
use emq_core::{Job, JobError, Queue, Worker};
use emq_testkit::{Fsync, Valkey};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::board::{Board, Bound};
use crate::figures::{ms, quantile};
use crate::ground::{Ground, HANG, LEASE};
use crate::{Failure, Plan, require};

/// How long the server stays away; the longer, the longer are the pauses between attempts.
const AWAY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// Served within this of the server accepting.
const WITHIN: Duration = Duration::from_millis(250);
/// How often it is tried whether the server accepts.
const LOOK: Duration = Duration::from_millis(1);
/// More than are worked in all rounds.
const JOBS: usize = 100_000;
/// Jobs served before the server is killed.
const SERVED: usize = 50;

pub(crate) async fn measure(plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    let ground = Ground::with(Valkey::builder().append_only(Fsync::EverySec)).await?;
    let queue = ground.queue("reconnect")?;
    ground.fill(&queue, JOBS, &[]).await?;
    let effects = Arc::new(Effects::of(JOBS));
    let (worker, mut begun) = working(&queue, &effects)?;
    for away in AWAY {
        let mut waits = Vec::new();
        for _ in 0..plan.rounds {
            let wait = tokio::time::timeout(HANG, restarted(&ground, &mut begun, away));
            waits.push(wait.await.map_err(|_| "no job was served after a restart")??);
        }
        let [half, most] = [0.5, 1.0].map(|q| quantile(&mut waits, q));
        let target = format!("first job after {away:?} away and a restart, to 250 ms");
        let measured = format!("{} after the server accepts, at most {}", ms(half), ms(most));
        let share = half.as_secs_f64() / WITHIN.as_secs_f64();
        board.judge(&target, measured, share, Bound::AtMost(1.0));
    }
    worker.stop(Duration::from_secs(10)).await;
    // The leases outlast the run: whoever had its effect may not have it again.
    require(effects.twice() == 0, || format!("{} jobs ran twice", effects.twice()))
}

/// A worker that tells when it begins a job.
fn working(
    queue: &Queue,
    effects: &Arc<Effects>,
) -> Result<(Worker, mpsc::UnboundedReceiver<Instant>), Failure> {
    let (tell, begun) = mpsc::unbounded_channel();
    let effects = Arc::clone(effects);
    let handler = move |job: Job<Bytes>| {
        // The receiver goes last.
        let _ = tell.send(Instant::now());
        let id = id_of(&job.payload);
        if let Some(i) = id {
            effects.happened(i);
        }
        async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            id.map(|_| ()).ok_or_else(|| JobError::dead("not our payload"))
        }
    };
    Ok((Worker::builder(queue).lease(LEASE).handler(handler).start()?, begun))
}

/// Kills the server and starts it again. Answers how long it accepted before a job began.
async fn restarted(
    ground: &Ground,
    begun: &mut mpsc::UnboundedReceiver<Instant>,
    away: Duration,
) -> Result<Duration, Failure> {
    while begun.try_recv().is_ok() {}
    for _ in 0..SERVED {
        begun.recv().await.ok_or("the worker ended")?;
    }
    let valkey = Arc::clone(&ground.valkey);
    spawn_blocking(move || valkey.kill9()).await??;
    tokio::time::sleep(away).await;
    // What had been claimed before has begun by now.
    while begun.try_recv().is_ok() {}
    let port = ground.valkey.port();
    let accepts = spawn_blocking(move || accepts(port));
    let valkey = Arc::clone(&ground.valkey);
    let starts = spawn_blocking(move || valkey.start_again());
    let first = begun.recv().await.ok_or("the worker ended")?;
    let accepted = accepts.await?;
    starts.await??;
    Ok(first.saturating_duration_since(accepted?))
}

/// When the server has loaded its data and answers.
fn accepts(port: u16) -> Result<Instant, Failure> {
    let deadline = Instant::now() + HANG;
    while Instant::now() < deadline {
        if pong(port).unwrap_or(false) {
            return Ok(Instant::now());
        }
        std::thread::sleep(LOOK);
    }
    Err("the server doesn't come back".into())
}

fn pong(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"*1\r\n$4\r\nPING\r\n")?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply)?;
    Ok(reply == *b"+PONG\r\n")
}
