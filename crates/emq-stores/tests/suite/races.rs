//! Many callers at once, and callers that go away.

use std::collections::BTreeMap;

use emq_stores::{Absorbed, Store, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::{Ground, KIND, job, row, soon, store_on};

const CALLS: u64 = 64;

/// Absorbs, again as long as the database is too busy for it.
async fn patiently<R, F>(store: &Store<R>, by: u64, effect: F) -> Result<Absorbed, StoreError>
where
    R: Serialize + DeserializeOwned + Default + Send + 'static,
    F: FnOnce(&mut R) + Clone + Send + 'static,
{
    loop {
        match store.absorb(row(1), job(by), effect.clone()).await {
            Err(StoreError::Unavailable(_)) => tokio::task::yield_now().await,
            answer => return answer,
        }
    }
}

/// Absorbs the jobs into one row, all at once. Answers how many were applied.
async fn at_once(store: &Store<u64>, jobs: impl Iterator<Item = u64>) -> u64 {
    let mut calls = JoinSet::new();
    for by in jobs {
        let store = store.clone();
        calls.spawn(async move { patiently(&store, by, |sum| *sum += 1).await });
    }
    let outcomes = soon("64 calls", calls.join_all()).await;
    let outcomes = outcomes.into_iter().map(Result::unwrap);
    outcomes.map(|outcome| u64::from(outcome == Absorbed::Applied)).sum()
}

pub(crate) async fn one_name_in_64_calls_is_applied_once<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    store.put(row(1), &100).await.unwrap();
    assert_eq!(at_once(&store, (0..CALLS).map(|_| 7)).await, 1);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(101));
}

pub(crate) async fn names_in_64_calls_all_count<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    store.put(row(1), &100).await.unwrap();
    assert_eq!(at_once(&store, 0..CALLS).await, CALLS);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(100 + CALLS));
    assert_eq!(store.absorbed(row(1), 99, None).await.unwrap().len(), 64);
}

pub(crate) async fn a_fresh_row_is_made_once<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    // Each name comes twice, and there is no row yet that could be locked.
    assert_eq!(at_once(&store, (0..CALLS).map(|n| n / 2)).await, CALLS / 2);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(CALLS / 2));
}

pub(crate) async fn one_that_panics_harms_no_other<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let mut calls = JoinSet::new();
    for by in 0..CALLS {
        let store = store.clone();
        calls.spawn(async move {
            patiently(&store, by, move |sum| {
                *sum += 1;
                if by % 4 == 1 {
                    std::panic::resume_unwind(Box::new("the effect broke"));
                }
            })
            .await
        });
    }
    let mut applied = 0;
    while let Some(ended) = soon("64 calls", calls.join_next()).await {
        match ended {
            Ok(answer) => applied += u64::from(answer.unwrap() == Absorbed::Applied),
            Err(ended) => assert!(ended.is_panic()),
        }
    }
    assert_eq!(applied, CALLS / 4 * 3);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(applied));
    assert_eq!(store.absorbed(row(1), 99, None).await.unwrap().len() as u64, applied);
}

pub(crate) async fn a_dropped_call_is_all_or_nothing<G: Ground>() {
    let ground = G::open(KIND).await;
    // Each name's own count, so that nothing can make up for anything.
    let store: Store<BTreeMap<u64, u32>> = store_on(&ground);
    let count = |by| move |counts: &mut BTreeMap<u64, u32>| *counts.entry(by).or_default() += 1;
    for by in 0..CALLS {
        let mut call = Box::pin(store.absorb(row(1), job(by), count(by)));
        // Some are dropped before they are begun, some on the way, some when they are done.
        for _ in 0..by % 8 {
            tokio::select! {
                biased;
                _ = &mut call => break,
                () = tokio::task::yield_now() => {}
            }
        }
        drop(call);
    }
    // The job's next delivery finds out what became of the one before.
    for by in 0..CALLS {
        let _ = patiently(&store, by, count(by)).await.unwrap();
    }
    let counts = store.get(row(1)).await.unwrap().unwrap();
    assert_eq!(counts, (0..CALLS).map(|by| (by, 1)).collect());
    assert_eq!(store.absorbed(row(1), 99, None).await.unwrap().len(), 64);
}
