//! The server that a part works on, and what is done there again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use contender::payload;
use emq_core::{Bus, NewJob, Queue};
use emq_keys::{BrandedId, Namespace, NodeId};
use emq_testkit::{Builder, Valkey};
use emq_wire::Cmd;

use crate::{Failure, require};

/// So long that nothing expires in a run.
pub(crate) const LEASE: Duration = Duration::from_secs(600);
/// A bound that only a lost job reaches.
pub(crate) const HANG: Duration = Duration::from_secs(300);
/// Jobs handed over in one list when a queue is filled.
const FILL: usize = 10_000;

/// One part's own server, and a bus there.
pub(crate) struct Ground {
    pub(crate) valkey: Arc<Valkey>,
    pub(crate) bus: Bus,
}

impl Ground {
    pub(crate) async fn start() -> Result<Ground, Failure> {
        Self::with(Valkey::builder()).await
    }

    pub(crate) async fn with(server: Builder) -> Result<Ground, Failure> {
        let valkey = server.start()?;
        let bus = bus(&valkey).await?;
        Ok(Ground { valkey: Arc::new(valkey), bus })
    }

    /// A queue that nobody has used.
    pub(crate) fn queue(&self, name: &str) -> Result<Queue, Failure> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Ok(self.bus.queue(format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed)))?)
    }

    /// Forgets every job, so that the server's memory stays as it is from round to round. The bus
    /// mints on a node of its own, which nobody else may take meanwhile.
    pub(crate) async fn empty(&self) -> Result<(), Failure> {
        self.command(Cmd::new("FLUSHALL").arg("SYNC")).await?;
        Ok(())
    }

    pub(crate) async fn mint(&self, n: usize) -> Result<Vec<BrandedId>, Failure> {
        let mut ids = Vec::with_capacity(n);
        for _ in 0..n {
            ids.push(self.bus.mint_job().await?);
        }
        Ok(ids)
    }

    pub(crate) async fn lanes(&self, n: usize) -> Result<Vec<BrandedId>, Failure> {
        let namespace = Namespace::new("TEN")?;
        let mut lanes = Vec::with_capacity(n);
        for _ in 0..n {
            lanes.push(self.bus.mint(namespace).await?);
        }
        Ok(lanes)
    }

    /// Jobs 0 to n - 1 with the payloads that name them, over the lanes in turn if there are any.
    pub(crate) async fn fill(
        &self,
        queue: &Queue,
        n: usize,
        lanes: &[BrandedId],
    ) -> Result<Vec<BrandedId>, Failure> {
        let ids = self.mint(n).await?;
        for begin in (0..n).step_by(FILL) {
            let jobs = (begin..n.min(begin + FILL)).map(|i| {
                let job = NewJob::new(ids[i], payload(i));
                if lanes.is_empty() { job } else { job.lane(lanes[i % lanes.len()]) }
            });
            queue.enqueue_many(&jobs.collect::<Vec<_>>()).await?;
        }
        Ok(ids)
    }

    /// How often the server has run each command, those of scripts included.
    pub(crate) async fn commands(&self) -> Result<BTreeMap<String, i64>, Failure> {
        let of = |line: &str| {
            let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((command.to_owned(), rest.split(',').next()?.parse().ok()?))
        };
        Ok(self.info("commandstats").await?.lines().filter_map(of).collect())
    }

    /// A number of the server's INFO.
    pub(crate) async fn number(&self, section: &str, field: &str) -> Result<f64, Failure> {
        let info = self.info(section).await?;
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let line = line.ok_or_else(|| format!("INFO {section} has no {field}"))?;
        Ok(line.trim().parse()?)
    }

    async fn info(&self, section: &str) -> Result<String, Failure> {
        let info = self.command(Cmd::new("INFO").arg(section)).await?;
        Ok(String::from_utf8_lossy(info.as_bytes().ok_or("INFO is text")?).into_owned())
    }

    pub(crate) async fn command(&self, cmd: Cmd) -> Result<emq_wire::Reply, Failure> {
        let reply = self.bus.fenced().connection().command(cmd).await?;
        match reply.as_error() {
            Some(error) => Err(error.to_string().into()),
            None => Ok(reply),
        }
    }
}

/// A bus on a node of its own.
async fn bus(valkey: &Valkey) -> Result<Bus, Failure> {
    // A quiet connection is probed; where commands are counted, nothing but the worker may send.
    let calm = Duration::from_secs(60);
    Ok(Bus::builder(&valkey.url())?
        .node(NodeId::new(7)?)
        .configure(|config| config.heartbeat(calm, Duration::from_secs(5)))
        .connect()
        .await?)
}

/// Every job of a queue is where it belongs: so many wait, and nobody holds one.
pub(crate) async fn waiting(queue: &Queue, n: usize) -> Result<(), Failure> {
    let counts = queue.counts().await?;
    require(counts.pending == n as u64 && counts.active == 0, || {
        format!("{n} jobs should wait in {}, and nothing else: {counts:?}", queue.name())
    })
}

/// What one run came to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Run {
    pub(crate) per_s: f64,
    /// Time on a processor in microseconds a job, which a busy machine lengthens less.
    pub(crate) client_us: f64,
    pub(crate) server_us: f64,
}

impl Run {
    pub(crate) fn median(runs: &[Run]) -> Run {
        let of = |figure: fn(&Run) -> f64| super::figures::median(runs.iter().map(figure));
        Run {
            per_s: of(|run| run.per_s),
            client_us: of(|run| run.client_us),
            server_us: of(|run| run.server_us),
        }
    }

    pub(crate) fn says(&self) -> String {
        let Run { per_s, client_us, server_us } = self;
        format!("{per_s:.0}/s, {client_us:.1} us here and {server_us:.1} us there each")
    }
}

/// Takes the time of `n` pieces of work, on the clock and on both processors.
pub(crate) async fn timed(
    ground: &Ground,
    n: usize,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<Run, Failure> {
    let (here, there) = spent(ground).await?;
    let begun = Instant::now();
    work.await?;
    let took = begun.elapsed().as_secs_f64();
    let (here_after, there_after) = spent(ground).await?;
    let each = |us: f64| us / n as f64;
    Ok(Run {
        per_s: n as f64 / took,
        client_us: each(here_after - here),
        server_us: each(there_after - there),
    })
}

/// Time on a processor so far, in microseconds: of this thread, and of the server's main one.
async fn spent(ground: &Ground) -> Result<(f64, f64), Failure> {
    // Linux only; elsewhere this side reads as nothing.
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let here = stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    let user = ground.number("cpu", "used_cpu_user_main_thread").await?;
    let system = ground.number("cpu", "used_cpu_sys_main_thread").await?;
    Ok((here.unwrap_or(0.0) / 1e3, (user + system) * 1e6))
}
