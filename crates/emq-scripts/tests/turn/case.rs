//! One case: the same queue planted twice, a turn on one and single calls on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use emq_keys::{BrandedId, QueueKeys};
use emq_scripts::{
    Claim, Claimed, ExtendVerdict, Fenced, LaneClaim, ScriptCall, SettleVerdict, TurnJob, Turned,
};
use emq_wire::{Cmd, Pipeline, Reply};
use fastrand::Rng;

use super::beat::{Beat, LEASE_MS, OFFSETS_MS, Told};
use super::plant::{LANES, Plant};
use super::rotation::{Rotation, Step};
use super::snapshot::{Content, Snapshot};
use crate::support::{lane, queue};

/// What the cases met: a comparison of nothing proves nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    counts: BTreeMap<&'static str, usize>,
}

impl Seen {
    fn count(&mut self, what: &'static str, times: usize) {
        *self.counts.entry(what).or_default() += times;
    }

    pub(crate) fn add(&mut self, other: Seen) {
        other.counts.into_iter().for_each(|(what, times)| self.count(what, times));
    }

    fn turn(&mut self, turned: &Turned, after: &Snapshot) {
        self.count("turn", 1);
        for verdict in &turned.verdicts {
            let what = match verdict {
                SettleVerdict::Done => "done",
                SettleVerdict::Scheduled => "scheduled",
                SettleVerdict::Dead => "dead",
                SettleVerdict::NoRow => "no row",
                SettleVerdict::Stale => "stale",
            };
            self.count(what, 1);
        }
        for verdict in &turned.extensions {
            let what = match verdict {
                ExtendVerdict::Held => "held",
                ExtendVerdict::CancelAsked => "cancel asked",
                ExtendVerdict::Stale => "not held",
            };
            self.count(what, 1);
        }
        let laned = turned.jobs.iter().filter(|job| job.group.is_some()).count();
        for (what, jobs) in [
            ("returned", turned.returned),
            ("buried", turned.buried),
            ("promoted", turned.promoted),
        ] {
            self.count(what, jobs as usize);
        }
        self.count("claimed from lanes", laned);
        self.count("claimed flat", turned.jobs.len() - laned);
        let mixed = laned > 0 && laned < turned.jobs.len();
        self.count("lanes and flat set mixed", mixed.into());
        let meta = after.hash("meta");
        self.count("share interrupted", meta.contains_key("spent").into());
        self.count("paused", meta.contains_key("paused").into());
        let ring = after.list("ring");
        self.count("lanes left behind", (!ring.is_empty()).into());
        let lanes: BTreeSet<&String> = ring.iter().collect();
        self.count("a lane twice in the ring", (lanes.len() < ring.len()).into());
    }

    pub(crate) fn of(&self, what: &str) -> usize {
        self.counts.get(what).copied().unwrap_or(0)
    }
}

/// Turns of one case, one after the other.
const BEATS: usize = 3;

/// Two queues of one server.
pub(crate) struct Pair {
    fenced: Fenced,
    turned: QueueKeys,
    single: QueueKeys,
}

/// The queue of single calls, and what they answered.
struct Singles {
    told: Told,
    jobs: Vec<TurnJob>,
    expected: Rotation,
    /// The tokens that stand in the end: a turn passes the wake on once, when all is done.
    wake: usize,
}

/// Both queues after the same turn, and the server's clock then.
struct After {
    left: Snapshot,
    right: Snapshot,
    to_ms: u64,
}

impl Pair {
    /// Two queues of this name on a server.
    pub(crate) fn new(fenced: Fenced, name: &str) -> Pair {
        let queue = |side: &str| queue(&format!("{name}.{side}"));
        Pair { fenced, turned: queue("turn"), single: queue("single") }
    }

    /// Runs a seed's case and leaves nothing behind.
    ///
    /// # Errors
    /// What differs, in words.
    pub(crate) async fn run(&self, seed: u64) -> Result<Seen, String> {
        let mut rng = Rng::with_seed(seed);
        let plant = Plant::random(&mut rng);
        let outcome = self.beats(&mut rng, &plant).await;
        for keys in [&self.turned, &self.single] {
            self.send(vec![plant.clear(keys)]).await;
        }
        outcome
    }

    async fn beats(&self, rng: &mut Rng, plant: &Plant) -> Result<Seen, String> {
        let mut commands = plant.commands(&self.turned);
        commands.extend(plant.commands(&self.single));
        for reply in self.send(commands).await {
            reply.into_result().expect("it is planted");
        }
        let ids: BTreeSet<BrandedId> = plant.jobs.iter().map(|job| job.id).collect();
        let (mut queue, mut from_ms) = self.read(&self.turned, &ids).await;
        let mut seen = Seen::default();
        for n in 0..BEATS {
            let beat = Beat::random(rng, &queue);
            let after = self.compare(&beat, &ids, from_ms, &mut seen).await;
            let after = after.map_err(|why| {
                let before = Snapshot::default().differences(&queue).join("\n");
                format!("turn {n}: {why}\n{beat:#?}\nthe queue before it:\n{before}")
            })?;
            self.align(&after).await;
            (queue, from_ms) = (after.left, after.to_ms);
        }
        Ok(seen)
    }

    /// One beat on both sides.
    async fn compare(
        &self,
        beat: &Beat,
        ids: &BTreeSet<BrandedId>,
        from_ms: u64,
        seen: &mut Seen,
    ) -> Result<After, String> {
        let turned = beat.turn(&self.fenced, &self.turned).await;
        let turned = turned.map_err(|error| format!("the turn fails: {error:?}"))?;
        let singles = self.singles(beat, ids).await?;
        let (left, _) = self.read(&self.turned, ids).await;
        let (right, to_ms) = self.read(&self.single, ids).await;
        let after = After { left, right, to_ms };
        let faults = faults(&turned, &singles, &after, from_ms);
        if !faults.is_empty() {
            return Err(faults.join("\n"));
        }
        seen.turn(&turned, &after.left);
        Ok(after)
    }

    /// The same by single calls: what was settled, moved, and then claimed as the rotation says.
    async fn singles(&self, beat: &Beat, ids: &BTreeSet<BrandedId>) -> Result<Singles, String> {
        let calls = beat.singles(&self.fenced, &self.single);
        let replies = self.send(calls).await;
        let told = beat.told(replies)?;
        let (middle, _) = self.read(&self.single, ids).await;
        let paused = middle.hash("meta").contains_key("paused");

        let mut expected = Rotation::of(&middle);
        let most = if paused { 0 } else { beat.claim as usize };
        let steps = expected.claims(most);
        let (lease, ticket) = (Duration::from_millis(LEASE_MS), beat.ticket.as_deref());
        let (flat, laned) = (Claim { lease, ticket }, LaneClaim { lease, ticket });
        let call = |step: &Step| match step {
            Step::Flat(_) => self.fenced.command(&self.single, &flat),
            Step::Lane(_) => self.fenced.command(&self.single, &laned),
        };
        let replies = self.send(steps.iter().map(call).collect()).await;
        let mut jobs = Vec::new();
        for (step, reply) in steps.iter().zip(replies) {
            let (claimed, wanted) = match step {
                Step::Flat(wanted) => (flat.decode(reply), wanted),
                Step::Lane(wanted) => (laned.decode(reply), wanted),
            };
            let claimed = claimed.map_err(|error| format!("{step:?}: {error:?}"))?;
            if claimed.as_ref().map(|job| job.id.to_string()) != *wanted {
                return Err(format!("the rotation says {step:?}, a claim says {claimed:?}"));
            }
            jobs.extend(claimed.map(|claimed| turn_job(claimed, &middle)));
        }
        let passes_on = !paused && expected.has_work();
        let wake = middle.list("wake").len().max(passes_on.into());
        Ok(Singles { told, jobs, expected, wake })
    }

    /// Sets the clocks of what both wrote alike, and the tokens.
    async fn align(&self, after: &After) {
        let base = self.single.base();
        let mut commands = vec![Cmd::new("DEL").arg(self.single.wake())];
        let tokens = after.left.list("wake");
        commands.extend(
            tokens.iter().map(|token| Cmd::new("RPUSH").arg(self.single.wake()).arg(token)),
        );
        for set in ["active", "schedule"] {
            let theirs = after.right.zset(set);
            for (id, score) in after.left.zset(set) {
                if theirs.get(&id) != Some(&score) {
                    let add = Cmd::new("ZADD").arg(format!("{base}{set}"));
                    commands.push(add.arg(score.to_string()).arg(id));
                }
            }
        }
        self.send(commands).await;
    }

    async fn send(&self, commands: Vec<Cmd>) -> Vec<Reply> {
        if commands.is_empty() {
            return Vec::new();
        }
        let pipeline: Pipeline = commands.into_iter().collect();
        self.fenced.connection().pipeline(pipeline).await.expect("it answers")
    }

    async fn read(&self, keys: &QueueKeys, ids: &BTreeSet<BrandedId>) -> (Snapshot, u64) {
        let lanes: Vec<BrandedId> = (0..LANES).map(lane).collect();
        Snapshot::read(self.fenced.connection(), keys, ids, &lanes).await
    }
}

/// Where the two sides differ, and where either isn't what the reference says.
fn faults(turned: &Turned, singles: &Singles, after: &After, from_ms: u64) -> Vec<String> {
    let After { left, right, to_ms } = after;
    let mut faults = Vec::new();
    let mut expect = |same: bool, fault: String| {
        if !same {
            faults.push(fault);
        }
    };
    let Told { verdicts, extensions, reaped, promoted } = &singles.told;
    expect(
        turned.verdicts == *verdicts,
        format!("verdicts {:?}, singly {verdicts:?}", turned.verdicts),
    );
    expect(
        turned.extensions == *extensions,
        format!("extensions {:?}, singly {extensions:?}", turned.extensions),
    );
    let (returned, buried) = (reaped.returned, reaped.buried);
    expect(
        (turned.returned, turned.buried, turned.promoted) == (returned, buried, *promoted),
        format!(
            "reaped {} and {}, promoted {}; singly {reaped:?}, {promoted}",
            turned.returned, turned.buried, turned.promoted
        ),
    );
    expect(
        turned.jobs == singles.jobs,
        format!("claimed {:?}, singly {:?}", turned.jobs, singles.jobs),
    );
    let bounds = next_bounds(left, from_ms, *to_ms);
    let fits = match (turned.next, bounds) {
        (Some(next), Some((least, most))) => least <= next && next <= most,
        (next, bounds) => next.is_none() && bounds.is_none(),
    };
    expect(fits, format!("the next comes after {:?}, not {:?}", bounds, turned.next));
    let ring: Vec<String> = singles.expected.ring.iter().cloned().collect();
    expect(left.list("ring") == ring, format!("the ring should be {ring:?}"));
    let spent = singles.expected.spent.as_ref().map(|(group, share)| format!("{group}|{share}"));
    expect(left.hash("meta").get("spent") == spent.as_ref(), format!("spent is not {spent:?}"));
    let wake = left.list("wake");
    expect(wake.len() == singles.wake, format!("{} tokens, not {}", wake.len(), singles.wake));

    let (left, mut right) = (timeless(left, from_ms, *to_ms), timeless(right, from_ms, *to_ms));
    // The wake was compared; single claims pass it on one by one.
    right.keys.remove("wake");
    right.put("wake", Content::List(wake));
    faults.extend(left.differences(&right));
    faults
}

/// A single claim's job as a turn hands it out: it names the kind as well.
fn turn_job(claimed: Claimed, middle: &Snapshot) -> TurnJob {
    let kind = middle.hash(&format!("job:{}", claimed.id)).remove("kind");
    TurnJob {
        id: claimed.id,
        payload: claimed.payload,
        token: claimed.token,
        group: claimed.group,
        checkpoint: claimed.checkpoint,
        kind: kind.map(Into::into),
    }
}

/// How soon the first job is due or its lease over, as the clock allows it.
fn next_bounds(queue: &Snapshot, from_ms: u64, to_ms: u64) -> Option<(Duration, Duration)> {
    let times = queue.zset("active").into_values().chain(queue.zset("schedule").into_values());
    let first = times.min()?;
    let until = |now_ms: u64| Duration::from_millis(first.saturating_sub(now_ms));
    Some((until(to_ms), until(from_ms)))
}

/// The same queue with each time that was written meanwhile as its offset from now; and a share of
/// the ring that isn't told apart from none.
fn timeless(queue: &Snapshot, from_ms: u64, to_ms: u64) -> Snapshot {
    let mut queue = queue.clone();
    for set in ["active", "schedule"] {
        let mut ids = queue.zset(set);
        for score in ids.values_mut() {
            let written = |offset: &u64| (from_ms + offset..=to_ms + offset).contains(score);
            if let Some(offset) = OFFSETS_MS.into_iter().find(written) {
                *score = offset;
            }
        }
        queue.keys.remove(set);
        queue.put(set, Content::Zset(ids));
    }
    let mut meta = queue.hash("meta");
    meta.retain(|fact, value| fact != "left" || value != "0");
    queue.keys.remove("meta");
    let meta = meta.into_iter().map(|(fact, value)| (fact, value.into_bytes()));
    queue.put("meta", Content::Hash(meta.collect()));
    queue
}
