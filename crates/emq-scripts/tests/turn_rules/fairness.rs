//! The bound on waiting: a serviceable lane waits at most the sum of the other serviceable lanes'
//! weights, plus one for the flat set; and the flat set no longer than the ring was when it had its
//! turn, however the ring grows.

use std::collections::BTreeMap;

use emq_scripts::{AdmitOptions, EnqueueMany, ManyItem, Settle, SettleOutcome, Turn};
use fastrand::Rng;

use super::queue::{Queue, TURN};
use crate::support::{job, lane};

/// The flat set, among the lanes.
const FLAT: Option<u64> = None;

/// Who has work, and since when he waits.
#[derive(Default)]
struct Waiting {
    backlog: BTreeMap<Option<u64>, u64>,
    weights: BTreeMap<u64, u64>,
    /// Jobs of others that were served while he waited, and the most that there may be.
    waited: BTreeMap<Option<u64>, (u64, u64)>,
    longest: u64,
}

impl Waiting {
    fn weight(&self, who: Option<u64>) -> u64 {
        who.map_or(1, |g| self.weights.get(&g).copied().unwrap_or(1))
    }

    /// Starts to wait: all that are served now may come first, each with its whole share.
    fn wait(&mut self, who: Option<u64>) {
        let served = self.backlog.iter().filter(|(other, jobs)| **other != who && **jobs > 0);
        let others: u64 = served.map(|(other, _)| self.weight(*other)).sum();
        let flat_unseen = self.backlog.get(&FLAT).copied().unwrap_or(0) == 0;
        // A flat job may come at any time.
        let most = others + u64::from(flat_unseen && who != FLAT);
        self.waited.insert(who, (0, most));
    }

    fn admitted(&mut self, who: Option<u64>, jobs: u64) {
        let backlog = self.backlog.entry(who).or_default();
        *backlog += jobs;
        if *backlog == jobs {
            self.wait(who);
        }
    }

    fn served(&mut self, who: Option<u64>) -> Result<(), String> {
        for (other, (waited, most)) in &mut self.waited {
            if *other != who && self.backlog[other] > 0 {
                *waited += 1;
                if *waited > *most {
                    return Err(format!("{other:?} waits for {waited}, more than {most}"));
                }
                self.longest = self.longest.max(*waited);
            }
        }
        *self.backlog.get_mut(&who).expect("it had work") -= 1;
        self.wait(who);
        Ok(())
    }
}

/// Admits jobs in one call.
async fn admit(queue: &Queue, next: &mut u64, who: Option<u64>, jobs: u64) {
    let options = AdmitOptions::default();
    let items: Vec<ManyItem<'_>> = (*next..*next + jobs)
        .map(|n| ManyItem {
            id: job(n),
            payload: b"p",
            group: who.map(lane),
            run_at_ms: None,
            options,
        })
        .collect();
    *next += jobs;
    queue.call(EnqueueMany { items: &items, durable: false }).await;
}

/// Turns of random sizes over lanes of random weights; each job is done at once. `grow` adds lanes
/// faster than they are emptied.
async fn run(seed: u64, grow: bool) -> Result<u64, String> {
    let mut rng = Rng::with_seed(seed);
    let queue = Queue::new().await;
    let (mut next, mut waiting) = (0, Waiting::default());
    let mut lanes = rng.u64(2..8);
    for g in 0..lanes {
        let weight = rng.u64(1..4);
        waiting.weights.insert(g, weight);
        queue.weigh(g, u32::try_from(weight).unwrap()).await;
    }
    let mut held: Vec<Settle<'static>> = Vec::new();
    for round in 0..60 {
        // Who has little work comes and goes; some have a deep backlog from the start.
        for g in 0..lanes {
            let jobs = if round == 0 && rng.bool() { 60 } else { rng.u64(..4) * rng.u64(..2) };
            if jobs > 0 {
                admit(&queue, &mut next, Some(g), jobs).await;
                waiting.admitted(Some(g), jobs);
            }
        }
        if rng.u8(..3) > 0 {
            let jobs = rng.u64(1..4);
            admit(&queue, &mut next, FLAT, jobs).await;
            waiting.admitted(FLAT, jobs);
        }
        if grow {
            for g in lanes..lanes + 4 {
                admit(&queue, &mut next, Some(g), 3).await;
                waiting.admitted(Some(g), 3);
            }
            lanes += 4;
        }
        let claim = rng.u32(1..6);
        let turned = queue.turn(Turn { claim, settles: &held, ..TURN }).await;
        held.clear();
        for job in &turned.jobs {
            let who = job.group.map(|group| (0..lanes).find(|g| lane(*g) == group).unwrap());
            waiting.served(who)?;
            let (id, token, outcome) = (job.id, job.token, SettleOutcome::Complete);
            held.push(Settle { id, token, ticket: None, outcome });
        }
    }
    Ok(waiting.longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_longer_than_one_share_of_each_other() {
    let mut longest = 0;
    let mut runs = Vec::new();
    for seed in 0..6 {
        for grow in [false, true] {
            runs.push((seed, grow, tokio::spawn(run(seed, grow))));
        }
    }
    for (seed, grow, run) in runs {
        match run.await.unwrap() {
            Ok(wait) => longest = longest.max(wait),
            Err(why) => panic!("seed {seed}, growing {grow}: {why}"),
        }
    }
    // Otherwise nobody waited, and the bound was never met.
    assert!(longest >= 20, "the longest wait was {longest}");
}

#[test]
fn a_wait_beyond_the_bound_is_noticed() {
    let mut waiting = Waiting::default();
    waiting.weights.insert(0, 2);
    waiting.admitted(Some(0), 9);
    waiting.admitted(Some(1), 1);
    waiting.admitted(FLAT, 1);
    waiting.served(Some(0)).unwrap();
    waiting.served(Some(0)).unwrap();
    waiting.served(FLAT).unwrap();
    waiting.served(Some(0)).unwrap_err();
}
