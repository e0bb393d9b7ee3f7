//! What one server can do at most, taken at the start of the run over the bare connection: what
//! the predictions are derived from.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use emq_core::{Bus, Queue};
use emq_keys::BrandedId;
use emq_scripts::{
    AdmitOptions, Enqueue, EnqueueMany, ManyItem, ScriptCall, Settle, SettleOutcome, Turn,
};
use emq_wire::{Cmd, Connection, Pipeline, Reply, Script};

use super::Failure;
use super::series::Series;

const LEASE: Duration = Duration::from_secs(600);
const TICKET: &str = "limits.1";
/// Jobs of one call of the bulk script.
const BULK: usize = 400;
/// How many bulk calls, and how many turns, are on their way at once.
const BULKS_UNDER_WAY: usize = 3;
const TURNS_UNDER_WAY: usize = 2;

/// What one server can do at most. Times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// An empty round trip, one after the other: the median.
    pub trip: f64,
    /// A call of an empty script, in pipelines of fifty.
    pub empty: f64,
    /// A round trip of the enqueue script.
    pub enqueue_trip: f64,
    /// A call of the enqueue script, in pipelines of fifty.
    pub enqueue: f64,
    /// A job of the bulk script.
    pub bulk: f64,
    /// A round trip of a turn that settles one job and claims one.
    pub turn_trip: f64,
    /// A job of turns of 5, 25 and 100 jobs, two turns on their way.
    pub turn: [f64; 3],
    /// Bytes of a waiting job as the server counts them: its row and its place in the set.
    pub bytes: f64,
}

/// The sizes of turns that [`Limits::turn`] is of: half the slots of c = 10, 50 and 200.
pub const TURN_JOBS: [usize; 3] = [5, 25, 100];

impl Limits {
    /// Takes them from an empty server, in about `effort` each.
    ///
    /// # Errors
    /// When the server refuses or is lost.
    pub async fn take(url: &str, effort: Duration) -> Result<Limits, Failure> {
        let bus = Bus::connect(url).await?;
        let taker = Taker { bus: &bus, effort };
        let trip = taker.trips(|| Cmd::new("PING")).await?;
        let bare = Script::new("bare", "return 1");
        let empty = taker.piped(|_| bare.call(0, 0)).await?;
        let enqueue_trip = taker.enqueue_trip().await?;
        let enqueue = taker.enqueue().await?;
        let (bulk, bytes) = taker.bulk().await?;
        let turn_trip = taker.turns(1, 1).await?;
        let mut turn = [0.0; TURN_JOBS.len()];
        for (time, jobs) in turn.iter_mut().zip(TURN_JOBS) {
            *time = taker.turns(jobs, TURNS_UNDER_WAY).await?;
        }
        bus.close().await;
        Ok(Limits { trip, empty, enqueue_trip, enqueue, bulk, turn_trip, turn, bytes })
    }
}

/// An empty round trip through the proxy, in microseconds: the median.
///
/// # Errors
/// When the server is lost.
pub async fn far_trip(url: &str, effort: Duration) -> Result<f64, Failure> {
    let bus = Bus::connect(url).await?;
    let trip = Taker { bus: &bus, effort }.trips(|| Cmd::new("PING")).await?;
    bus.close().await;
    Ok(trip)
}

struct Taker<'a> {
    bus: &'a Bus,
    effort: Duration,
}

impl Taker<'_> {
    fn connection(&self) -> &Connection {
        self.bus.fenced().connection()
    }

    /// Commands one after the other.
    async fn trips(&self, command: impl Fn() -> Cmd) -> Result<f64, Failure> {
        let begun = Instant::now();
        let mut trips = Series::default();
        while begun.elapsed() < self.effort {
            let sent = Instant::now();
            fine(&self.connection().command(command()).await?)?;
            trips.add(0, micros(sent.elapsed()));
        }
        Ok(trips.median().unwrap_or_default())
    }

    /// Commands in pipelines of fifty, two pipelines on their way.
    async fn piped(&self, command: impl Fn(usize) -> Cmd) -> Result<f64, Failure> {
        const DEPTH: usize = 50;
        let mut flights = Flights::new(2);
        let (begun, mut sent) = (Instant::now(), 0);
        while begun.elapsed() < self.effort {
            let pipeline: Pipeline = (sent..sent + DEPTH).map(&command).collect();
            flights.send(self.connection().clone(), pipeline).await?;
            sent += DEPTH;
        }
        flights.land().await?;
        Ok(a_job(begun.elapsed(), sent))
    }

    fn enqueue_of<'a>(id: BrandedId, payload: &'a str) -> Enqueue<'a> {
        let options = AdmitOptions::default();
        Enqueue { id, payload: payload.as_bytes(), options, durable: false }
    }

    async fn enqueue_trip(&self) -> Result<f64, Failure> {
        let queue = self.bus.queue("limit-trip")?;
        let begun = Instant::now();
        let (mut trips, mut i) = (Series::default(), 0);
        while begun.elapsed() < self.effort {
            let (id, payload) = (self.bus.mint_job().await?, contender::payload(i));
            let command = self.command(&queue, &Self::enqueue_of(id, &payload));
            let sent = Instant::now();
            fine(&self.connection().command(command).await?)?;
            trips.add(0, micros(sent.elapsed()));
            i += 1;
        }
        Ok(trips.median().unwrap_or_default())
    }

    async fn enqueue(&self) -> Result<f64, Failure> {
        let queue = self.bus.queue("limit-enqueue")?;
        // More ids than any server takes in that time; what lies ready costs no clock.
        let ids = self.ids(self.jobs(200_000.0)).await?;
        let payload = contender::payload(0);
        self.piped(|i| self.command(&queue, &Self::enqueue_of(ids[i % ids.len()], &payload))).await
    }

    /// The time and the bytes of a job.
    async fn bulk(&self) -> Result<(f64, f64), Failure> {
        let queue = self.bus.queue("limit-bulk")?;
        let ids = self.ids(self.jobs(200_000.0)).await?;
        let (mut flights, begun) = (Flights::new(BULKS_UNDER_WAY), Instant::now());
        let payload = contender::payload(0);
        for chunk in ids.chunks(BULK) {
            let items: Vec<ManyItem<'_>> = chunk.iter().map(|id| item(*id, &payload)).collect();
            let command = self.command(&queue, &EnqueueMany { items: &items, durable: false });
            flights.send(self.connection().clone(), [command].into_iter().collect()).await?;
        }
        flights.land().await?;
        let took = begun.elapsed();
        let keys = queue.keys();
        let set = self.memory(keys.pending()).await? / ids.len() as f64;
        let row = self.memory(&keys.job(&ids[0])).await?;
        Ok((a_job(took, ids.len()), row + set))
    }

    /// What a key takes, the server's own book-keeping of the key included.
    async fn memory(&self, key: &str) -> Result<f64, Failure> {
        let usage = Cmd::new("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").int(0);
        let reply = self.connection().command(usage).await?;
        Ok(reply.as_int().ok_or("MEMORY USAGE answered no number")? as f64)
    }

    /// Settles of `jobs` and claims of as many in one call, so many calls on their way.
    async fn turns(&self, jobs: usize, under_way: usize) -> Result<f64, Failure> {
        let queue = self.bus.queue(format!("limit-turn-{jobs}"))?;
        // A turn of one takes a round trip; those of many a few microseconds a job.
        let rate = if jobs == 1 { 10_000.0 } else { 60_000.0 };
        let ids = self.ids(self.jobs(rate).next_multiple_of(jobs)).await?;
        for chunk in ids.chunks(BULK) {
            let payload = contender::payload(0);
            let items: Vec<ManyItem<'_>> = chunk.iter().map(|id| item(*id, &payload)).collect();
            let command = self.command(&queue, &EnqueueMany { items: &items, durable: false });
            fine(&self.connection().command(command).await?)?;
        }
        let batches: Vec<&[BrandedId]> = ids.chunks(jobs).collect();
        // A batch is settled once the turn that claimed it was answered.
        let commands: Vec<Cmd> = (0..batches.len() + under_way)
            .map(|k| {
                let done = k.checked_sub(under_way).map_or(&[][..], |k| batches[k]);
                self.command(&queue, &turn(&settles(done), jobs))
            })
            .collect();
        let (mut flights, begun) = (Flights::new(under_way), Instant::now());
        for command in commands {
            flights.send(self.connection().clone(), [command].into_iter().collect()).await?;
        }
        flights.land().await?;
        let took = begun.elapsed();
        match queue.counts().await? {
            counts if counts.active == 0 && counts.pending == 0 => Ok(a_job(took, ids.len())),
            counts => Err(format!("the turns left jobs behind: {counts:?}").into()),
        }
    }

    fn command<C: ScriptCall>(&self, queue: &Queue, call: &C) -> Cmd {
        self.bus.fenced().command(queue.keys(), call)
    }

    /// How many jobs of a rate fit into the effort.
    fn jobs(&self, per_s: f64) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let jobs = (self.effort.as_secs_f64() * per_s) as usize;
        jobs.max(BULK)
    }

    async fn ids(&self, n: usize) -> Result<Vec<BrandedId>, Failure> {
        let mut ids = Vec::with_capacity(n);
        while ids.len() < n {
            ids.push(self.bus.mint_job().await?);
        }
        Ok(ids)
    }
}

fn item<'a>(id: BrandedId, payload: &'a str) -> ManyItem<'a> {
    let options = AdmitOptions::default();
    ManyItem { id, payload: payload.as_bytes(), group: None, run_at_ms: None, options }
}

fn settles(ids: &[BrandedId]) -> Vec<Settle<'_>> {
    let settle = |id: &BrandedId| Settle {
        id: *id,
        token: 1,
        ticket: Some(TICKET),
        outcome: SettleOutcome::Complete,
    };
    ids.iter().map(settle).collect()
}

fn turn<'a>(settles: &'a [Settle<'a>], jobs: usize) -> Turn<'a> {
    Turn {
        ticket: Some(TICKET),
        lease: LEASE,
        claim: u32::try_from(jobs).unwrap_or(u32::MAX),
        promote: 0,
        reap: 0,
        lost_cap: 10,
        max_attempts: 25,
        settles,
        extensions: &[],
    }
}

/// Calls on their way, so many at once.
struct Flights {
    at_once: usize,
    open: VecDeque<tokio::task::JoinHandle<Result<Vec<Reply>, emq_wire::WireError>>>,
}

impl Flights {
    fn new(at_once: usize) -> Flights {
        Flights { at_once, open: VecDeque::new() }
    }

    async fn send(&mut self, connection: Connection, pipeline: Pipeline) -> Result<(), Failure> {
        if self.open.len() == self.at_once {
            self.land_one().await?;
        }
        self.open.push_back(tokio::spawn(async move { connection.pipeline(pipeline).await }));
        Ok(())
    }

    async fn land(mut self) -> Result<(), Failure> {
        while !self.open.is_empty() {
            self.land_one().await?;
        }
        Ok(())
    }

    async fn land_one(&mut self) -> Result<(), Failure> {
        let Some(flight) = self.open.pop_front() else { return Ok(()) };
        flight.await??.iter().try_for_each(fine)
    }
}

fn fine(reply: &Reply) -> Result<(), Failure> {
    match reply.as_error() {
        None => Ok(()),
        Some(error) => Err(format!("the server answered {}", error.message()).into()),
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn a_job(took: Duration, jobs: usize) -> f64 {
    micros(took) / jobs.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use emq_testkit::Valkey;

    #[tokio::test]
    async fn every_limit_is_a_time_and_pipelines_beat_round_trips() {
        let valkey = Valkey::start().unwrap();
        let limits = Limits::take(&valkey.url(), Duration::from_millis(30)).await.unwrap();
        let Limits { trip, empty, enqueue_trip, enqueue, bulk, turn_trip, turn, bytes } = limits;
        for time in [trip, empty, enqueue, bulk, turn_trip, turn[0], turn[1], turn[2]] {
            assert!(time > 0.0, "{limits:?}");
        }
        assert!(empty < trip && enqueue < enqueue_trip && turn[2] < turn_trip, "{limits:?}");
        assert!((200.0..1_000.0).contains(&bytes), "{limits:?}");
    }
}
