//! Rows, pages and windows.

use bytes::Bytes;
use emq_keys::BrandedId;
use emq_stores::{Absorbed, Store, StoreError};

use super::{Ground, KIND, job, row, store_on};

pub(crate) async fn a_row_is_there_once_it_was_put<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<String> = store_on(&ground);
    assert_eq!(store.get(row(1)).await.unwrap(), None);
    store.put(row(1), &"first".to_owned()).await.unwrap();
    store.put(row(1), &"second".to_owned()).await.unwrap();
    assert_eq!(store.get(row(1)).await.unwrap().as_deref(), Some("second"));
    assert_eq!(store.get(row(1).as_str()).await.unwrap().as_deref(), Some("second"));
    assert_eq!(store.get(row(2)).await.unwrap(), None);
    assert!(store.absorbed(row(1), 10, None).await.unwrap().is_empty());

    let ground = ground.reopen().await;
    let store: Store<String> = store_on(&ground);
    assert_eq!(store.get(row(1)).await.unwrap().as_deref(), Some("second"));
}

fn numbers(page: &[(BrandedId, u64)]) -> Vec<u64> {
    for (id, number) in page {
        assert_eq!(*id, row(*number), "a row came under another's name");
    }
    page.iter().map(|(_, number)| *number).collect()
}

/// Rows whose order by number is not the one in which they are put, at both ends of what an id can
/// be.
async fn with_rows<G: Ground>() -> (G, Store<u64>) {
    let ground = G::open(KIND).await;
    let store = store_on(&ground);
    // Capitals sort before small letters in bytes, and not in every database's own order of text.
    for number in [10, 36, 0, 61, 11, emq_keys::MAX_SNOWFLAKE, 62, 37] {
        store.put(row(number), &number).await.unwrap();
    }
    (ground, store)
}

pub(crate) async fn the_newest_come_first_by_name_alone<G: Ground>() {
    let max = emq_keys::MAX_SNOWFLAKE;
    let (_ground, store) = with_rows::<G>().await;
    let page = async |limit, before| numbers(&store.page_desc(limit, before).await.unwrap());
    assert_eq!(page(usize::MAX, None).await, [max, 62, 61, 37, 36, 11, 10, 0]);
    assert_eq!(page(3, None).await, [max, 62, 61]);
    assert_eq!(page(3, Some(row(61))).await, [37, 36, 11]);
    assert_eq!(page(3, Some(row(12))).await, [11, 10, 0]);
    assert_eq!(page(9, Some(row(0))).await, [0; 0]);
    assert_eq!(page(0, None).await, [0; 0]);
}

pub(crate) async fn a_window_is_half_open_and_ascending<G: Ground>() {
    let max = emq_keys::MAX_SNOWFLAKE;
    let (_ground, store) = with_rows::<G>().await;
    let window =
        async |lo, hi, limit| numbers(&store.window(row(lo), row(hi), limit).await.unwrap());
    assert_eq!(window(0, max, usize::MAX).await, [0, 10, 11, 36, 37, 61, 62]);
    assert_eq!(window(10, 62, 9).await, [10, 11, 36, 37, 61]);
    assert_eq!(window(10, 62, 2).await, [10, 11]);
    assert_eq!(window(12, 36, 9).await, [0; 0]);
    assert_eq!(window(11, 11, 9).await, [0; 0]);
    assert_eq!(window(62, 10, 9).await, [0; 0]);
    assert_eq!(window(0, 62, 0).await, [0; 0]);
}

pub(crate) async fn a_large_row_comes_back_whole<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<String> = store_on(&ground);
    let large = "0123456789abcdef".repeat(1 << 17);
    let grown = large.clone();
    let applied = store.absorb(row(1), job(1), move |text| text.push_str(&grown)).await.unwrap();
    assert_eq!(applied, Absorbed::Applied);
    assert!(store.get(row(1)).await.unwrap() == Some(large));
}

pub(crate) async fn any_bytes_come_back_whole<G: Ground>() {
    let ground = G::open(KIND).await;
    let backend = ground.backend();
    let bytes: Bytes = (0..=255).collect();
    backend.put(row(1), bytes.clone()).await.unwrap();
    backend.put(row(2), Bytes::new()).await.unwrap();
    assert_eq!(backend.get(row(1)).await.unwrap(), Some(bytes));
    assert_eq!(backend.get(row(2)).await.unwrap(), Some(Bytes::new()));
}

pub(crate) async fn a_row_of_another_type_is_told_and_left_alone<G: Ground>() {
    let ground = G::open(KIND).await;
    let (texts, numbers): (Store<String>, Store<u64>) = (store_on(&ground), store_on(&ground));
    texts.put(row(1), &"no number".to_owned()).await.unwrap();
    let is_decode = |error| match error {
        StoreError::Decode { id, .. } => assert_eq!(id, row(1)),
        other => panic!("{other:?}"),
    };
    is_decode(numbers.get(row(1)).await.unwrap_err());
    is_decode(numbers.page_desc(9, None).await.unwrap_err());
    is_decode(numbers.window(row(0), row(9), 9).await.unwrap_err());
    is_decode(numbers.absorb(row(1), job(1), |sum| *sum += 1).await.unwrap_err());
    assert_eq!(texts.get(row(1)).await.unwrap().as_deref(), Some("no number"));
    assert!(texts.absorbed(row(1), 9, None).await.unwrap().is_empty());
}

pub(crate) async fn put_keeps_the_names<G: Ground>() {
    let ground = G::open(KIND).await;
    let store: Store<u64> = store_on(&ground);
    let _ = store.absorb(row(1), job(1), |sum| *sum += 12).await.unwrap();
    store.put(row(1), &100).await.unwrap();
    let again = store.absorb(row(1), job(1), |sum| *sum += 12).await.unwrap();
    assert_eq!(again, Absorbed::Declined);
    assert_eq!(store.get(row(1)).await.unwrap(), Some(100));
}
