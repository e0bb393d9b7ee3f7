//! Who works on a queue, as far as leases tell: a worker that holds nothing leaves no trace.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use emq_keys::BrandedId;

use super::reading::Held;

/// Over how long the claims of a worker are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// The workers seen among the leases read.
#[derive(Debug, Default)]
pub(super) struct Crew {
    workers: Vec<WorkerView>,
    claims: HashMap<String, VecDeque<(Instant, u64)>>,
    /// How many leases were read.
    pub(super) leases: usize,
    pub(super) read: bool,
}

/// A worker and what it holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkerView {
    /// Its incarnation; `None` for leases taken without a ticket.
    pub(super) name: Option<String>,
    /// Leases it holds among those read.
    pub(super) holds: usize,
    /// Claims a second. A claim may bring many jobs.
    pub(super) claims_a_second: Option<f64>,
    /// Its job that was minted first.
    pub(super) oldest: BrandedId,
    /// What is left of the lease of it that ends first.
    pub(super) left: Duration,
    /// How many lanes its jobs are of.
    pub(super) lanes: usize,
}

impl Crew {
    pub(super) fn workers(&self) -> &[WorkerView] {
        &self.workers
    }

    /// Takes in what leases there are.
    pub(super) fn note(&mut self, at: Instant, leases: &[Held]) {
        let mut by_worker: BTreeMap<Option<&str>, Vec<&Held>> = BTreeMap::new();
        for lease in leases {
            by_worker.entry(lease.worker()).or_default().push(lease);
        }
        let seen = |name: &String| by_worker.contains_key(&Some(name.as_str()));
        self.claims.retain(|name, _| seen(name));
        self.workers = by_worker
            .into_iter()
            .map(|(name, held)| WorkerView {
                name: name.map(str::to_owned),
                holds: held.len(),
                claims_a_second: name.and_then(|name| self.pace(at, name, &held)),
                oldest: held.iter().map(|lease| lease.id).min().unwrap_or(held[0].id),
                left: held.iter().map(|lease| lease.left).min().unwrap_or_default(),
                lanes: lanes(&held),
            })
            .collect();
        // Who holds most first.
        self.workers.sort_by(|one, other| {
            other.holds.cmp(&one.holds).then_with(|| one.name.cmp(&other.name))
        });
        self.leases = leases.len();
        self.read = true;
    }

    /// Tickets are numbered by claim.
    fn pace(&mut self, at: Instant, name: &str, held: &[&Held]) -> Option<f64> {
        let newest = held.iter().filter_map(|lease| lease.claim()).max()?;
        let past = self.claims.entry(name.to_owned()).or_default();
        past.push_back((at, newest));
        while past.len() > 2 && at.duration_since(past[0].0) > WINDOW {
            past.pop_front();
        }
        let (first, last) = (past.front()?, past.back()?);
        let took = last.0.duration_since(first.0).as_secs_f64();
        (took > 0.0).then(|| last.1.saturating_sub(first.1) as f64 / took)
    }
}

fn lanes(held: &[&Held]) -> usize {
    let mut lanes: Vec<BrandedId> = held.iter().filter_map(|lease| lease.lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes.len()
}
