//! Random sequences of calls, beside a map that says what they should do.

use std::collections::{BTreeMap, BTreeSet};

use emq_stores::{Absorbed, JobName, Store, StoreError};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tokio::runtime::Handle;

use super::{Ground, KIND, job, row, store_on};

#[derive(Clone, Debug)]
enum Call {
    Put { at: u64, value: u64 },
    Absorb { at: u64, by: u64, step: String, amount: u64 },
    Refuse { at: u64, by: u64 },
    Compact { horizon: u64 },
    Page { limit: usize, before: Option<u64> },
    Window { lo: u64, hi: u64, limit: usize },
    Reopen,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let at = || 0..6u64;
    let by = || 0..12u64;
    let step = prop_oneof![3 => Just(String::new()), 1 => "[a-c]{1,2}"];
    let call = prop_oneof![
        2 => (at(), 0..100u64).prop_map(|(at, value)| Call::Put { at, value }),
        8 => (at(), by(), step, 1..9u64)
            .prop_map(|(at, by, step, amount)| Call::Absorb { at, by, step, amount }),
        2 => (at(), by()).prop_map(|(at, by)| Call::Refuse { at, by }),
        1 => by().prop_map(|horizon| Call::Compact { horizon }),
        2 => (0..9usize, proptest::option::of(at()))
            .prop_map(|(limit, before)| Call::Page { limit, before }),
        2 => (at(), at(), 0..9usize).prop_map(|(lo, hi, limit)| Call::Window { lo, hi, limit }),
        1 => Just(Call::Reopen),
    ];
    proptest::collection::vec(call, 1..40)
}

#[derive(Default)]
struct Row {
    value: u64,
    names: BTreeSet<JobName>,
    folded: u64,
}

#[derive(Default)]
struct Model {
    rows: BTreeMap<u64, Row>,
    horizon: u64,
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Applied,
    Declined,
    Beyond,
    Refused,
}

impl Model {
    fn absorb(&mut self, at: u64, name: JobName, amount: Option<u64>) -> Outcome {
        if self.rows.get(&at).is_some_and(|row| row.names.contains(&name)) {
            return Outcome::Declined;
        }
        if name.job() < job(self.horizon) {
            return Outcome::Beyond;
        }
        let Some(amount) = amount else { return Outcome::Refused };
        let row = self.rows.entry(at).or_default();
        row.value += amount;
        row.names.insert(name);
        Outcome::Applied
    }

    /// Answers how many names were forgotten.
    fn compact(&mut self, horizon: u64) -> u64 {
        self.horizon = self.horizon.max(horizon);
        let horizon = job(self.horizon);
        let mut forgotten = 0;
        for row in self.rows.values_mut() {
            let before = row.names.len();
            row.names.retain(|name| name.job() >= horizon);
            row.folded += (before - row.names.len()) as u64;
            forgotten += (before - row.names.len()) as u64;
        }
        forgotten
    }
}

fn outcome(answer: Result<Absorbed, StoreError>) -> Outcome {
    match answer {
        Ok(Absorbed::Applied) => Outcome::Applied,
        Ok(Absorbed::Declined) => Outcome::Declined,
        Err(StoreError::BeyondHorizon { .. }) => Outcome::Beyond,
        Err(StoreError::Refused(_)) => Outcome::Refused,
        Err(other) => panic!("{other:?}"),
    }
}

async fn absorb(store: &Store<u64>, at: u64, name: JobName, amount: Option<u64>) -> Outcome {
    let effect = move |row: Option<u64>| match amount {
        Some(amount) => Ok((row.unwrap_or(0) + amount, amount)),
        None => Err("refused"),
    };
    outcome(store.try_absorb(row(at), name, effect).await)
}

async fn replay<G: Ground>(calls: Vec<Call>) -> Result<(), TestCaseError> {
    let mut ground = G::open(KIND).await;
    let mut model = Model::default();
    for call in calls {
        let store: Store<u64> = store_on(&ground);
        match call {
            Call::Put { at, value } => {
                store.put(row(at), &value).await.unwrap();
                model.rows.entry(at).or_default().value = value;
            }
            Call::Absorb { at, by, step, amount } => {
                let name = JobName::step(job(by), &step);
                let got = absorb(&store, at, name.clone(), Some(amount)).await;
                prop_assert_eq!(got, model.absorb(at, name, Some(amount)));
            }
            Call::Refuse { at, by } => {
                let name = JobName::new(job(by));
                let got = absorb(&store, at, name.clone(), None).await;
                prop_assert_eq!(got, model.absorb(at, name, None));
            }
            Call::Compact { horizon } => {
                let compacted = store.compact(job(horizon)).await.unwrap();
                prop_assert_eq!(compacted.names, model.compact(horizon));
            }
            Call::Page { limit, before } => {
                let page = store.page_desc(limit, before.map(row)).await.unwrap();
                let rows = model.rows.iter().rev();
                let rows = rows.filter(|(at, _)| before.is_none_or(|before| **at < before));
                let rows: Vec<_> = rows.take(limit).map(|(&at, r)| (row(at), r.value)).collect();
                prop_assert_eq!(page, rows);
            }
            Call::Window { lo, hi, limit } => {
                let window = store.window(row(lo), row(hi), limit).await.unwrap();
                let rows = model.rows.iter().filter(|(at, _)| (lo..hi).contains(*at));
                let rows: Vec<_> = rows.take(limit).map(|(&at, r)| (row(at), r.value)).collect();
                prop_assert_eq!(window, rows);
            }
            Call::Reopen => {
                drop(store);
                ground = ground.reopen().await;
            }
        }
    }
    agrees(&store_on(&ground), &model).await
}

/// Every row, its names and its baseline.
async fn agrees(store: &Store<u64>, model: &Model) -> Result<(), TestCaseError> {
    for at in 0..6 {
        let kept = model.rows.get(&at);
        prop_assert_eq!(store.get(row(at)).await.unwrap(), kept.map(|row| row.value));
        let folded = store.folded(row(at)).await.unwrap();
        prop_assert_eq!(folded, kept.map_or(0, |row| row.folded));
        let names = store.absorbed(row(at), usize::MAX, None).await.unwrap();
        let names: Vec<_> = names.into_iter().map(|kept| kept.name).collect();
        let expected: Vec<_> = kept.into_iter().flat_map(|row| row.names.iter().cloned()).collect();
        prop_assert_eq!(names, expected);
    }
    Ok(())
}

/// `PROPTEST_CASES` and `PROPTEST_RNG_SEED` are heeded; a failure prints its smallest calls.
pub(crate) async fn any_sequence_of_calls_does_what_a_map_would<G: Ground>() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    tokio::task::block_in_place(|| {
        let run = |calls| Handle::current().block_on(replay::<G>(calls));
        if let Err(failure) = TestRunner::new(config).run(&calls(), run) {
            panic!("{failure}");
        }
    });
}
