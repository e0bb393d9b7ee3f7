//! What is forgotten, and that a forgotten name is refused.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use emq_stores::{Absorbed, Compacted, Store, StoreError};
use tokio::task::JoinSet;

use super::{Ground, KIND, PATIENCE, job, row, soon, store_on};

async fn add(store: &Store<u64>, at: u64, by: u64) -> Result<Absorbed, StoreError> {
    store.absorb(row(at), job(by), |sum| *sum += 1).await
}

#[track_caller]
fn is_beyond(answer: Result<Absorbed, StoreError>, by: u64, horizon: u64) {
    match answer {
        Err(StoreError::BeyondHorizon { job: told, horizon: at }) => {
            assert_eq!((told, at), (job(by), job(horizon)));
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn names_before_the_horizon_are_folded_and_refused<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    for by in 1..=9 {
        let _ = add(&store, 1, by).await.unwrap();
    }
    let _ = store.absorb_step(row(1), job(2), "twice", |sum| *sum += 1).await.unwrap();
    let _ = add(&store, 2, 4).await.unwrap();
    let _ = add(&store, 3, 6).await.unwrap();
    assert_eq!(store.horizon().await.unwrap(), None);

    let compacted = store.compact(job(5)).await.unwrap();
    assert_eq!(compacted, Compacted { rows: 2, names: 6 });
    let ground = ground.reopen().await;
    let store: Store<u64> = store_on(&ground);
    assert_eq!(store.horizon().await.unwrap(), Some(job(5)));
    assert_eq!(store.folded(row(1)).await.unwrap(), 5);
    assert_eq!(store.folded(row(2)).await.unwrap(), 1);
    assert_eq!(store.folded(row(3)).await.unwrap(), 0);
    assert_eq!(store.folded(row(4)).await.unwrap(), 0);
    let left = store.absorbed(row(1), 99, None).await.unwrap();
    let left: Vec<_> = left.into_iter().map(|kept| kept.name.job()).collect();
    assert_eq!(left, (5..=9).map(job).collect::<Vec<_>>());

    is_beyond(add(&store, 1, 4).await, 4, 5);
    is_beyond(store.absorb_step(row(1), job(2), "twice", |_| ()).await, 2, 5);
    assert_eq!(add(&store, 1, 5).await.unwrap(), Absorbed::Declined);
    assert_eq!(add(&store, 1, 10).await.unwrap(), Absorbed::Applied);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(11));
    assert_eq!(store.compact(job(5)).await.unwrap(), Compacted::default());
}

pub(crate) async fn the_horizon_is_for_fresh_rows_too<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    assert_eq!(store.compact(job(5)).await.unwrap(), Compacted::default());
    is_beyond(add(&store, 1, 4).await, 4, 5);
    assert_eq!(store.get(row(1)).await.unwrap(), None);
    assert_eq!(add(&store, 1, 5).await.unwrap(), Absorbed::Applied);
}

pub(crate) async fn the_horizon_never_moves_back<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let _ = store.compact(job(5)).await.unwrap();
    let _ = store.compact(job(3)).await.unwrap();
    assert_eq!(store.horizon().await.unwrap(), Some(job(5)));
    is_beyond(add(&store, 1, 4).await, 4, 5);
}

pub(crate) async fn many_names_are_folded_in_steps<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let mut calls = JoinSet::new();
    for by in 0..1000 {
        let store = store.clone();
        calls.spawn(async move { add(&store, by % 3, by).await });
    }
    let applied = calls.join_all().await.into_iter().filter(Result::is_ok).count();
    assert_eq!(applied, 1000);
    let compacted = store.compact(job(900)).await.unwrap();
    assert_eq!(compacted, Compacted { rows: 3, names: 900 });
    for at in 0..3 {
        assert_eq!(store.folded(row(at)).await.unwrap(), 300);
        assert_eq!(
            store.absorbed(row(at), usize::MAX, None).await.unwrap().len(),
            33 + usize::from(at == 0)
        );
    }
}

type Counts = BTreeMap<u64, u32>;

/// Absorbs every name up to 200, and says how many were applied.
async fn deliver_all(store: Store<Counts>) -> u64 {
    let mut applied = 0;
    for by in 0..200 {
        let count = move |counts: &mut Counts| *counts.entry(by).or_default() += 1;
        match store.absorb(row(1), job(by), count).await {
            Ok(Absorbed::Applied) => applied += 1,
            Ok(Absorbed::Declined)
            | Err(StoreError::BeyondHorizon { .. } | StoreError::Unavailable(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    applied
}

pub(crate) async fn an_absorb_beside_a_compaction_is_never_applied_twice<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<Counts> = store_on(&ground);
    // One absorb is in the middle of its effect when the compaction begins.
    let (go_on, wait) = mpsc::channel::<()>();
    let (begun, is_begun) = tokio::sync::oneshot::channel();
    let effect = move |counts: &mut Counts| {
        let _ = begun.send(());
        let _ = wait.recv_timeout(PATIENCE);
        *counts.entry(0).or_default() += 1;
    };
    let caller = store.clone();
    let held = tokio::spawn(async move { caller.absorb(row(1), job(0), effect).await });
    soon("the held effect", is_begun).await.unwrap();
    let deliveries: Vec<_> = (0..4).map(|_| tokio::spawn(deliver_all(store.clone()))).collect();
    let compacting = store.clone();
    let compaction = tokio::spawn(async move {
        let mut folded = 0;
        for horizon in (0..=200).step_by(20) {
            folded += compacting.compact(job(horizon)).await.unwrap().names;
            tokio::task::yield_now().await;
        }
        folded
    });
    // Room for it to begin; nothing depends on whether it did.
    tokio::time::sleep(Duration::from_millis(20)).await;
    // Another delivery of its job may have come before it.
    let _ = go_on.send(());

    let mut applied = match soon("the held call", held).await.unwrap() {
        Ok(Absorbed::Applied) => 1,
        Ok(Absorbed::Declined)
        | Err(StoreError::BeyondHorizon { .. } | StoreError::Unavailable(_)) => 0,
        Err(other) => panic!("{other}"),
    };
    for delivery in deliveries {
        applied += soon("the deliveries", delivery).await.unwrap();
    }
    let mut folded = soon("the compaction", compaction).await.unwrap();
    // A name that was on its way when the compaction passed its row is the next one's to fold.
    folded += store.compact(job(200)).await.unwrap().names;
    let counts = store.get(row(1)).await.unwrap().unwrap_or_default();
    assert!(counts.values().all(|&count| count == 1), "{counts:?}");
    assert_eq!(counts.len() as u64, applied);
    assert_eq!((folded, store.folded(row(1)).await.unwrap()), (applied, applied));
    assert!(store.absorbed(row(1), 9, None).await.unwrap().is_empty());
}
