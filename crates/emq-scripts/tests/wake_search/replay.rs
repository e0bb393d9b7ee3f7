//! Random walks of the model, with the real scripts on a real server beside it: after each step the
//! tokens, what waits, what is leased and the ring are the same, so that the model can't drift away
//! from what it is a model of.
//!
//! What the model leaves open (which source a claim takes from) is taken from the server's answer.

use std::time::Duration;

use emq_keys::{BrandedId, QueueKeys};
use emq_scripts::{
    AdmitOptions, Claim, Enqueue, EnqueueMany, Fenced, LaneClaim, LaneEnqueue, LaneLimit,
    LanePause, LaneResume, ManyItem, Nudge, QueuePause, QueueResume, Reap, Schedule, ScriptCall,
    Settle, SettleOutcome, Turn, When,
};
use emq_wire::{Cmd, Pipeline, Reply};
use fastrand::Rng;

use super::server::{CEILINGS, FLAT, Jobs, Rules, SOURCES, total};
use super::world::{Action, Step, WORKERS, World};
use crate::support::{job, lane, queue};

const LEASE: Duration = Duration::from_secs(36_000);
/// When the first tick is, unix ms: no test gets there.
const FAR_MS: u64 = 4_000_000_000_000;

/// A job in somebody's hands.
type Held = (BrandedId, u64);
/// Of one who holds jobs, by source.
type Hands = [Vec<Held>; SOURCES];

/// The server's side of a walk.
pub(crate) struct Real {
    fenced: Fenced,
    keys: QueueKeys,
    next_job: u64,
    tick: u64,
    running: [Hands; WORKERS],
    done: [Hands; WORKERS],
    /// Held by those who are gone.
    orphans: Vec<Held>,
}

/// Walks so many random steps from a world, on an own queue.
///
/// # Errors
/// Where server and model differ, with the steps until then.
pub(crate) async fn walk(
    fenced: &Fenced,
    name: &str,
    first: World,
    seed: u64,
    steps: usize,
) -> Result<Vec<Action>, String> {
    let mut real = Real::start(fenced, name).await;
    let (mut world, mut rng, mut path) = (first, Rng::with_seed(seed), Vec::new());
    while path.len() < steps {
        let all = world.steps(Rules { dropped: None });
        let Some(action) = choice(&mut rng, &all) else { break };
        path.push(action);
        let mut outcomes: Vec<Step> = all.into_iter().filter(|(it, _)| *it == action).collect();
        if let Some(got) = real.perform(&world, action).await {
            outcomes.retain(|(action, next)| claimed(&world, *action, next) == got);
        }
        let Some((_, next)) = rng.choice(&outcomes).copied() else {
            return Err(format!("the model has no such outcome: {path:?}"));
        };
        real.deliver(&world, &next, action).await.map_err(|why| format!("{why}: {path:?}"))?;
        let (server, model) = (real.read().await, Facts::of(&next));
        if server != model {
            return Err(format!("server {server:?}\nmodel  {model:?}\nafter {path:?}"));
        }
        world = next;
    }
    real.call(&Nudge).await;
    let found = crate::support::checkup::checkup(fenced, &real.keys, false).await;
    if found.is_empty() { Ok(path) } else { Err(format!("the doctor finds {found:?}: {path:?}")) }
}

/// A kind of step, each as likely as another however many outcomes it has; but mostly one that
/// comes by itself, or nobody would ever be at rest, and seldom the end of a worker.
fn choice(rng: &mut Rng, all: &[Step]) -> Option<Action> {
    let mut actions: Vec<Action> = all.iter().map(|(action, _)| *action).collect();
    actions.dedup();
    if rng.u8(..4) > 0 && actions.iter().any(|action| action.is_prompt()) {
        actions.retain(|action| action.is_prompt());
    }
    if rng.u8(..8) > 0 {
        actions.retain(|action| !matches!(action, Action::Die(_) | Action::Stop(_)));
    }
    rng.choice(actions)
}

/// What a step claims.
fn claimed(world: &World, action: Action, next: &World) -> Jobs {
    let (before, after) = (world.server.orphans, next.server.orphans);
    match action {
        Action::Send(n) => next.workers[n].flight.map_or(Jobs::default(), |flight| flight.got),
        _ => std::array::from_fn(|source| after[source] - before[source]),
    }
}

/// What is compared.
#[derive(PartialEq, Eq, Debug)]
struct Facts {
    wake: i64,
    waiting: [i64; SOURCES],
    /// Of lanes; what is flat isn't counted.
    leases: [i64; SOURCES],
    active: i64,
    scheduled: i64,
    ring: Vec<usize>,
    paused: bool,
}

impl Facts {
    fn of(world: &World) -> Facts {
        let server = &world.server;
        let counts = |jobs: &Jobs| jobs.map(i64::from);
        let mut leases = counts(&server.leases);
        leases[FLAT] = 0;
        Facts {
            wake: server.wake.into(),
            waiting: counts(&server.waiting),
            leases,
            active: total(&server.leases).into(),
            scheduled: server.scheduled() as i64,
            ring: (1..SOURCES).filter(|lane| server.serves(*lane)).collect(),
            paused: server.paused,
        }
    }
}

fn group(source: usize) -> BrandedId {
    lane(source as u64)
}

fn source(group: Option<BrandedId>) -> usize {
    (1..SOURCES).find(|lane| group == Some(self::group(*lane))).unwrap_or(FLAT)
}

impl Real {
    async fn start(fenced: &Fenced, name: &str) -> Real {
        let real = Real {
            fenced: fenced.clone(),
            keys: queue(name),
            next_job: 0,
            tick: 0,
            running: Default::default(),
            done: Default::default(),
            orphans: Vec::new(),
        };
        for (lane, ceiling) in CEILINGS.iter().enumerate().skip(1) {
            let limit = (*ceiling).into();
            real.call(&LaneLimit { group: group(lane), limit }).await;
        }
        real
    }

    async fn call<C: ScriptCall>(&self, call: &C) -> C::Reply {
        self.fenced.call(&self.keys, call).await.expect("it is answered")
    }

    async fn send(&self, cmd: Cmd) -> Reply {
        let reply = self.fenced.connection().command(cmd).await.expect("it is answered");
        reply.into_result().expect("it isn't refused")
    }

    fn fresh(&mut self) -> BrandedId {
        self.next_job += 1;
        job(self.next_job)
    }

    /// Does on the server what the step says. Answers what was claimed, if it claims.
    async fn perform(&mut self, world: &World, action: Action) -> Option<Jobs> {
        let (options, payload, durable) = (AdmitOptions::default(), &b"x"[..], false);
        match action {
            Action::Land(_) | Action::Heed(_) | Action::Park(_) | Action::Stop(_) => {}
            Action::Send(n) => return Some(self.turn(world, n).await),
            Action::Nudge(_) => self.call(&Nudge).await,
            Action::HandClaims(source) => return Some(self.claim(source).await),
            Action::Finish(n, source) => {
                let ended = self.running[n][source].pop().expect("it runs");
                self.done[n][source].push(ended);
            }
            Action::Enqueue(FLAT) => {
                let id = self.fresh();
                self.call(&Enqueue { id, payload, options, durable }).await;
            }
            Action::Enqueue(lane) => {
                let (id, group) = (self.fresh(), group(lane));
                self.call(&LaneEnqueue { id, payload, group, options, durable }).await;
            }
            Action::EnqueueMany(jobs) => {
                let items = jobs.map(|source| {
                    let group = (source != FLAT).then(|| group(source));
                    ManyItem { id: self.fresh(), payload, group, run_at_ms: None, options }
                });
                self.call(&EnqueueMany { items: &items, durable }).await;
            }
            Action::Schedule(ticks) => {
                let when = When::At(FAR_MS + self.tick + u64::from(ticks));
                let id = self.fresh();
                let group = None;
                self.call(&Schedule { id, payload, group, when, options, durable }).await;
            }
            Action::Tick => self.pass_a_tick().await,
            Action::PauseQueue => _ = self.call(&QueuePause).await,
            Action::ResumeQueue => _ = self.call(&QueueResume).await,
            Action::PauseLane(lane) => _ = self.call(&LanePause { group: group(lane) }).await,
            Action::ResumeLane(lane) => _ = self.call(&LaneResume { group: group(lane) }).await,
            Action::Reap => self.reap().await,
            Action::Die(n) => {
                let hands = self.running[n].iter_mut().chain(&mut self.done[n]);
                hands.for_each(|held| self.orphans.append(held));
            }
            Action::HandTakes => {
                let token = self.send(Cmd::new("LPOP").arg(self.keys.wake())).await;
                assert!(token.as_bytes().is_some(), "a token stands");
            }
        }
        None
    }

    /// The turn that a worker sends. What it claims is in its hands at once: the model's worker has
    /// it in flight first, and a handler can't end before that.
    async fn turn(&mut self, world: &World, n: usize) -> Jobs {
        let done = std::mem::take(&mut self.done[n]);
        let settle = |(id, token): &Held| Settle {
            id: *id,
            token: *token,
            ticket: Some("walk.1"),
            outcome: SettleOutcome::Complete,
        };
        // As the model does it, source by source.
        let settles: Vec<Settle<'_>> = done.iter().flatten().map(settle).collect();
        let turn = Turn {
            ticket: Some("walk.1"),
            lease: LEASE,
            claim: world.workers[n].free().into(),
            promote: 200,
            reap: 0,
            lost_cap: 100,
            max_attempts: 100,
            settles: &settles,
            extensions: &[],
        };
        let turned = self.call(&turn).await;
        let mut got = Jobs::default();
        for job in turned.jobs {
            let source = source(job.group);
            got[source] += 1;
            self.running[n][source].push((job.id, job.token));
        }
        got
    }

    async fn claim(&mut self, from: usize) -> Jobs {
        let ticket = Some("walk.1");
        let claimed = match from {
            FLAT => self.call(&Claim { lease: LEASE, ticket }).await,
            _ => self.call(&LaneClaim { lease: LEASE, ticket }).await,
        };
        let mut got = Jobs::default();
        if let Some(claimed) = claimed {
            got[source(claimed.group)] += 1;
            self.orphans.push((claimed.id, claimed.token));
        }
        got
    }

    /// A tick later: what was scheduled until then is due.
    async fn pass_a_tick(&mut self) {
        self.tick += 1;
        let schedule = self.keys.schedule();
        let until = (FAR_MS + self.tick).to_string();
        let due = Cmd::new("ZRANGE").arg(schedule).arg("-inf").arg(until).arg("BYSCORE");
        let due = self.send(due).await;
        for id in due.as_array().unwrap_or_default() {
            let id = id.as_bytes().expect("an id");
            self.send(Cmd::new("ZADD").arg(schedule).arg("XX").int(1).arg(id)).await;
        }
    }

    /// The leases of those who are gone end, and are taken back, lanes in the model's order.
    async fn reap(&mut self) {
        for (id, _) in std::mem::take(&mut self.orphans) {
            self.send(Cmd::new("ZADD").arg(self.keys.active()).arg("XX").int(1).arg(id)).await;
        }
        self.call(&Reap { limit: 100, lost_cap: 100 }).await;
    }

    /// Hands the tokens out that the model's parked workers got.
    async fn deliver(&self, before: &World, after: &World, action: Action) -> Result<(), String> {
        let pairs = before.workers.iter().zip(&after.workers);
        let told = pairs.filter(|(before, after)| !before.woken && after.woken).count();
        for _ in 0..told {
            let token = self.send(Cmd::new("LPOP").arg(self.keys.wake())).await;
            if token.as_bytes().is_none() {
                return Err(format!("{action:?} leaves no token for a parked worker"));
            }
        }
        Ok(())
    }

    async fn read(&self) -> Facts {
        let keys = &self.keys;
        let lanes = [1, 2].map(group);
        let mut asked = vec![
            Cmd::new("LLEN").arg(keys.wake()),
            Cmd::new("ZCARD").arg(keys.active()),
            Cmd::new("ZCARD").arg(keys.schedule()),
            Cmd::new("HEXISTS").arg(keys.meta()).arg("paused"),
            Cmd::new("ZCARD").arg(keys.pending()),
        ];
        asked.extend(lanes.map(|lane| Cmd::new("ZCARD").arg(keys.lane(&lane))));
        let pipeline: Pipeline = asked.into_iter().collect();
        let replies = self.fenced.connection().pipeline(pipeline).await.expect("it is answered");
        let int = |n: usize| replies[n].as_int().expect("a count");
        let mut leases = [0; SOURCES];
        for (lane, leases) in leases.iter_mut().enumerate().skip(1) {
            let count = Cmd::new("HGET").arg(keys.gactive()).arg(group(lane).as_bytes());
            let count = self.send(count).await;
            let text = count.as_bytes().map(|bytes| std::str::from_utf8(bytes).expect("digits"));
            *leases = text.map_or(0, |text| text.parse().expect("a count"));
        }
        let ring = self.send(Cmd::new("LRANGE").arg(keys.ring()).int(0).int(-1)).await;
        let in_ring = |lane: &Reply| {
            let id = std::str::from_utf8(lane.as_bytes()?).ok()?.parse().ok()?;
            Some(source(Some(id)))
        };
        let lanes = ring.as_array().unwrap_or_default().iter();
        let mut ring: Vec<usize> = lanes.map(|lane| in_ring(lane).expect("a lane")).collect();
        ring.sort_unstable();
        Facts {
            wake: int(0),
            waiting: [int(4), int(5), int(6)],
            leases,
            active: int(1),
            scheduled: int(2),
            ring,
            paused: int(3) == 1,
        }
    }
}
