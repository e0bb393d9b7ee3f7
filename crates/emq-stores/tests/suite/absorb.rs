//! The guard: a name's effect happens once, wholly or not at all.

use std::collections::BTreeMap;

use emq_stores::{Absorbed, JobName, Store, StoreError};
use tokio::task::JoinError;

use super::{Ground, KIND, job, row, store_on};

pub(crate) async fn a_name_is_absorbed_once<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let fill = async |store: &Store<u64>| store.absorb(row(1), job(7), |sum| *sum += 12).await;
    assert_eq!(fill(&store).await.unwrap(), Absorbed::Applied);
    assert_eq!(fill(&store).await.unwrap(), Absorbed::Declined);
    // The name is the row's: another row has not absorbed it.
    let other = store.absorb(row(2), job(7), |sum| *sum += 5).await.unwrap();
    assert_eq!(other, Absorbed::Applied);

    let ground = ground.reopen().await;
    let store = store_on(&ground);
    assert_eq!(fill(&store).await.unwrap(), Absorbed::Declined);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(12));
    assert_eq!(store.get(row(2)).await.unwrap(), Some(5));
}

pub(crate) async fn steps_of_one_job_are_told_apart<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let step = async |name: &str| store.absorb_step(row(1), job(7), name, |sum| *sum += 1).await;
    for name in ["fee", "Fee", "tax", "", "Größe '; --"] {
        assert_eq!(step(name).await.unwrap(), Absorbed::Applied, "{name}");
        assert_eq!(step(name).await.unwrap(), Absorbed::Declined, "{name}");
    }
    // The job's only effect is the one without a step.
    assert_eq!(store.absorb(row(1), job(7), |sum| *sum += 1).await.unwrap(), Absorbed::Declined);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(5));
}

pub(crate) async fn interleaved_jobs_are_all_remembered<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let mut seen = Vec::new();
    for (by, amount) in [(1, 10), (2, 200), (1, 10), (2, 200), (3, 3000), (1, 10)] {
        seen.push(store.absorb(row(1), job(by), move |sum| *sum += amount).await.unwrap());
    }
    use Absorbed::{Applied, Declined};
    assert_eq!(seen, [Applied, Applied, Declined, Declined, Applied, Declined]);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(3210));
}

pub(crate) async fn contributions_are_kept_and_paged<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    for number in [3, 1, 2] {
        let effect = move |sum: &mut u64| {
            *sum += number;
            number
        };
        let _ = store.absorb(row(1), job(number), effect).await.unwrap();
    }
    let _ = store.absorb_step(row(1), job(2), "b", |_| "a word").await.unwrap();
    let _ = store.absorb_step(row(1), job(2), "a", |_| ()).await.unwrap();
    let all = store.absorbed(row(1), usize::MAX, None).await.unwrap();
    let told: Vec<_> = all.iter().map(|kept| (kept.name.clone(), &*kept.contribution)).collect();
    let expected: [(JobName, &[u8]); 5] = [
        (JobName::new(job(1)), b"1"),
        (JobName::new(job(2)), b"2"),
        (JobName::step(job(2), "a"), b"null"),
        (JobName::step(job(2), "b"), b"\"a word\""),
        (JobName::new(job(3)), b"3"),
    ];
    assert_eq!(told, expected);

    let mut paged = Vec::new();
    while let page = store.absorbed(row(1), 2, paged.last().cloned()).await.unwrap()
        && !page.is_empty()
    {
        assert!(page.len() <= 2);
        paged.extend(page.into_iter().map(|kept| kept.name));
    }
    assert_eq!(paged, expected.map(|(name, _)| name));
    assert!(store.absorbed(row(1), 0, None).await.unwrap().is_empty());
    assert!(store.absorbed(row(2), 9, None).await.unwrap().is_empty());
}

pub(crate) async fn an_effect_sees_whether_there_is_a_row<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let seeing = async |by| {
        let effect = |row: Option<u64>| Ok::<_, StoreError>((row.map_or(100, |sum| sum + 1), row));
        let _ = store.try_absorb(row(1), JobName::new(job(by)), effect).await.unwrap();
    };
    seeing(1).await;
    seeing(2).await;
    assert_eq!(store.get(row(1)).await.unwrap(), Some(101));
    let seen = store.absorbed(row(1), 9, None).await.unwrap();
    let seen: Vec<_> = seen.into_iter().map(|kept| kept.contribution).collect();
    assert_eq!(seen, ["null", "100"]);
}

#[derive(Debug, thiserror::Error)]
#[error("the account is overdrawn")]
struct Overdrawn;

pub(crate) async fn an_effect_that_refuses_leaves_nothing<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let withdraw = async |amount: u64| {
        let effect = move |row: Option<u64>| {
            row.unwrap_or(0).checked_sub(amount).map(|left| (left, amount)).ok_or(Overdrawn)
        };
        store.try_absorb(row(1), JobName::new(job(1)), effect).await
    };
    let refused = |answer: Result<Absorbed, StoreError>| match answer {
        Err(StoreError::Refused(cause)) => assert!(cause.is::<Overdrawn>()),
        other => panic!("{other:?}"),
    };
    refused(withdraw(5).await);
    assert_eq!(store.get(row(1)).await.unwrap(), None);
    store.put(row(1), &4).await.unwrap();
    refused(withdraw(5).await);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(4));
    assert!(store.absorbed(row(1), 9, None).await.unwrap().is_empty());
    // The name is free still.
    assert_eq!(withdraw(3).await.unwrap(), Absorbed::Applied);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(1));
}

/// A panic's words, when the task ended with one.
fn panic_words(ended: Result<(), JoinError>) -> String {
    let panic = ended.unwrap_err().into_panic();
    panic.downcast_ref::<&str>().map(|words| (*words).to_owned()).unwrap_or_default()
}

pub(crate) async fn an_effect_that_panics_leaves_nothing_and_the_store_goes_on<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    store.put(row(1), &5).await.unwrap();
    let caller = store.clone();
    // The panic is the caller's, with its words. (resume_unwind prints nothing.)
    let ended = tokio::spawn(async move {
        let effect = |sum: &mut u64| {
            *sum += 12;
            if *sum > 0 {
                std::panic::resume_unwind(Box::new("the effect broke"));
            }
        };
        let _ = caller.absorb(row(1), job(1), effect).await;
    })
    .await;
    assert_eq!(panic_words(ended), "the effect broke");
    assert_eq!(store.get(row(1)).await.unwrap(), Some(5));
    assert!(store.absorbed(row(1), 9, None).await.unwrap().is_empty());
    assert_eq!(store.absorb(row(1), job(1), |sum| *sum += 1).await.unwrap(), Absorbed::Applied);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(6));
}

pub(crate) async fn a_contribution_that_cannot_be_encoded_leaves_nothing<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let effect = |sum: &mut u64| {
        *sum += 1;
        BTreeMap::from([((1, 2), "JSON has no such key")])
    };
    let refused = store.absorb(row(1), job(1), effect).await;
    assert!(matches!(refused, Err(StoreError::Encode(_))), "{refused:?}");
    assert_eq!(store.get(row(1)).await.unwrap(), None);
    assert!(store.absorbed(row(1), 9, None).await.unwrap().is_empty());
}
