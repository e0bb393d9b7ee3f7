//! What may not reach a store.

use emq_keys::{Gate, namespace};
use emq_stores::{JobName, STEP_LEN_MAX, Store, StoreError};

use super::{Ground, KIND, job, row, store_on};

const ORDER: &str = "ORD0NgWEfAEJfs";

#[track_caller]
fn is_kind<T>(answer: Result<T, StoreError>) {
    match answer {
        Err(StoreError::Kind { id, expected }) => {
            assert_eq!((id.namespace(), expected), (namespace!("ORD"), KIND));
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[track_caller]
fn is_gate<T>(answer: Result<T, StoreError>, gate: Gate) {
    match answer {
        Err(StoreError::Id(error)) => assert_eq!(error.gate(), gate),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it was let in"),
    }
}

pub(crate) async fn an_id_of_another_kind_is_refused<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    is_kind(store.get(ORDER).await);
    is_kind(store.put(ORDER, &1).await);
    is_kind(store.absorb(ORDER, job(1), |sum| *sum += 1).await);
    is_kind(store.absorb_step(ORDER, job(1), "a", |sum| *sum += 1).await);
    is_kind(store.absorbed(ORDER, 10, None).await);
    is_kind(store.folded(ORDER).await);
    assert!(store.page_desc(10, None).await.unwrap().is_empty());
}

pub(crate) async fn a_decimal_or_a_slug_is_refused<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    is_gate(store.get("12345678901234").await, Gate::Namespace);
    is_gate(store.get("portfolio-acme").await, Gate::Namespace);
    is_gate(store.get("POS1").await, Gate::Length);
    is_gate(store.get("POS0NgWEfAEJ-s").await, Gate::Charset);
    is_gate(store.get("POSzzzzzzzzzzz").await, Gate::Range);
    is_gate(store.put(b"POS0NgWEfA\xFF\r\ns".as_slice(), &1).await, Gate::Charset);
    is_gate(store.absorb("12345678901234", job(1), |_| ()).await, Gate::Namespace);
    is_gate(store.absorb(row(1), "12345678901234", |_| ()).await, Gate::Namespace);
    assert!(store.page_desc(10, None).await.unwrap().is_empty());
}

pub(crate) async fn the_bounds_of_a_page_and_a_window_are_gated<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    store.put(row(1), &1).await.unwrap();
    is_kind(store.page_desc(10, ORDER.parse().ok()).await);
    is_kind(store.window(ORDER, row(9), 10).await);
    is_kind(store.window(row(0), ORDER, 10).await);
    is_gate(store.window("1", row(9), 10).await, Gate::Length);
}

pub(crate) async fn only_a_job_is_absorbed_and_only_a_job_is_a_horizon<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let not_a_job = |error| match error {
        StoreError::NotAJob { id } => assert_eq!(id.as_str(), ORDER),
        other => panic!("{other:?}"),
    };
    not_a_job(store.absorb(row(1), ORDER, |sum| *sum += 1).await.unwrap_err());
    not_a_job(store.absorb_step(row(1), ORDER, "a", |sum| *sum += 1).await.unwrap_err());
    let name = JobName::new(ORDER.parse().unwrap());
    let kept = store.try_absorb(row(1), name, |_| Ok::<_, StoreError>((1, ())));
    not_a_job(kept.await.unwrap_err());
    not_a_job(store.compact(ORDER).await.unwrap_err());
    assert_eq!(store.get(row(1)).await.unwrap(), None);
    assert_eq!(store.horizon().await.unwrap(), None);
}

pub(crate) async fn a_step_that_no_backend_could_keep_is_refused<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let longest = "x".repeat(STEP_LEN_MAX);
    let too_long = format!("{longest}x");
    for step in ["a\0b", too_long.as_str()] {
        let refused = store.absorb_step(row(1), job(1), step, |sum| *sum += 1).await;
        assert!(matches!(refused, Err(StoreError::Step { len }) if len == step.len()));
    }
    assert_eq!(store.get(row(1)).await.unwrap(), None);
    let _ = store.absorb_step(row(1), job(1), &longest, |sum| *sum += 1).await.unwrap();
    assert_eq!(store.absorbed(row(1), 9, None).await.unwrap()[0].name.step_name(), longest);
}
