//! What remembering a job's name costs: `absorb` beside a bare insert of the same row into the same
//! database, each row in a commit of its own.
//!
//! `cargo bench -p emq-stores --features sqlite,tokio-postgres,sqlx --bench absorb` prints a line of
//! ratios per backend at its end. What the bare insert is spared is told there too: it reads nothing, remembers
//! nothing, and takes no way to another task or thread.
//!
//! A backend is one more module with a [`Rival`], and one line in [`main`].
#![allow(clippy::print_stdout)]

mod memory;
#[cfg(any(feature = "tokio-postgres", feature = "sqlx"))]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use emq_keys::{BrandedId, Namespace, namespace};
use emq_stores::{Absorbed, Store};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// How many callers absorb at once in the third measurement.
const AT_ONCE: u64 = 64;

const KIND: Namespace = namespace!("POS");

/// The row that is written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Position {
    quantity: i64,
    average_price: f64,
    currency: String,
}

impl Position {
    fn example() -> Position {
        Position { quantity: 12, average_price: 101.25, currency: "EUR".to_owned() }
    }
}

/// A backend, and the same database without it.
trait Rival {
    /// Its name, and what the bare insert is spared.
    const NAME: &'static str;

    fn open() -> impl Future<Output = Self>;

    fn store(&self) -> Store<Position>;

    /// Inserts an encoded row under a fresh id, and returns when it is committed.
    fn insert(&mut self, id: BrandedId, row: &[u8]) -> impl Future<Output = ()>;
}

fn main() {
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let mut ratios = vec![compare::<memory::InMemory>(&mut criterion)];
    #[cfg(feature = "sqlite")]
    ratios.extend([
        compare::<sqlite::InFile<true>>(&mut criterion),
        compare::<sqlite::InFile<false>>(&mut criterion),
    ]);
    #[cfg(feature = "tokio-postgres")]
    ratios.push(compare::<postgres::Tokio>(&mut criterion));
    #[cfg(feature = "sqlx")]
    ratios.push(compare::<postgres::Sqlx>(&mut criterion));
    criterion.final_summary();
    println!("absorb / bare insert, rates (1.00: as many a second):");
    for ratio in ratios.into_iter().flatten() {
        println!("  {ratio}");
    }
}

/// Measures one backend in three ways. Answers the line of its ratios; `None` when a filter left
/// one of them out.
fn compare<R: Rival>(criterion: &mut Criterion) -> Option<String> {
    let runtime = Runtime::new().expect("a runtime");
    let mut rival = runtime.block_on(R::open());
    let store = rival.store();
    let mut fresh = 0..;
    let mut group = criterion.benchmark_group(R::NAME);
    group.throughput(Throughput::Elements(1));
    let bare = measure(&mut group, "bare insert", |count| {
        let row = serde_json::to_vec(&Position::example()).expect("a row");
        runtime.block_on(async {
            let began = Instant::now();
            for number in fresh.by_ref().take(count) {
                rival.insert(id(KIND, number), &row).await;
            }
            began.elapsed()
        })
    });
    let mut fresh = 0..;
    let one = measure(&mut group, "absorb, one after the other", |count| {
        runtime.block_on(async {
            let began = Instant::now();
            for number in fresh.by_ref().take(count) {
                absorb(&store, number).await;
            }
            began.elapsed()
        })
    });
    let many = measure(&mut group, "absorb, 64 callers", |count| {
        let numbers: Vec<u64> = fresh.by_ref().take(count).collect();
        runtime.block_on(at_once(&store, numbers))
    });
    group.finish();
    let (bare, one, many) = (bare?, one?, many?);
    Some(format!(
        "{:<28} one after the other {:.2}, {AT_ONCE} callers {:.2}   (bare insert: {:.1} us)",
        R::NAME,
        bare / one,
        bare / many,
        bare * 1e6,
    ))
}

/// The median of the seconds that one of many took.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    mut run: impl FnMut(usize) -> Duration,
) -> Option<f64> {
    let mut seconds = Vec::new();
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|count| {
            let took = run(usize::try_from(count).unwrap_or(usize::MAX));
            seconds.push(took.as_secs_f64() / count as f64);
            took
        });
    });
    // The samples are the last; what came before them warmed up.
    let samples = seconds.len().min(20);
    let mut samples = seconds.split_off(seconds.len() - samples);
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied()
}

/// A fresh job's effect on a fresh row.
async fn absorb(store: &Store<Position>, number: u64) {
    let (row, job) = (id(KIND, number), id(Namespace::JOB, number));
    let absorbed = store.absorb(row, job, |position| *position = Position::example()).await;
    assert_eq!(absorbed.expect("an answer"), Absorbed::Applied);
}

async fn at_once(store: &Store<Position>, numbers: Vec<u64>) -> Duration {
    let mut callers = JoinSet::new();
    let share = numbers.len().div_ceil(AT_ONCE as usize).max(1);
    let began = Instant::now();
    for numbers in numbers.chunks(share) {
        let (store, numbers) = (store.clone(), numbers.to_vec());
        callers.spawn(async move {
            for number in numbers {
                absorb(&store, number).await;
            }
        });
    }
    callers.join_all().await;
    began.elapsed()
}

fn id(kind: Namespace, number: u64) -> BrandedId {
    BrandedId::encode(kind, number).expect("a small number")
}
