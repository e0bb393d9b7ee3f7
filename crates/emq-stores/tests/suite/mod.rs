//! What every backend must hold: one suite, run against each.
//!
//! A backend's test binary says how it is opened ([`Ground`]), and runs all of it with one line:
//! `suite!(MyGround);`.
#![allow(dead_code)] // Each test binary uses a part of it.

pub(crate) mod absorb;
pub(crate) mod compaction;
pub(crate) mod gates;
pub(crate) mod model;
pub(crate) mod races;
pub(crate) mod rows;

use std::sync::Arc;
use std::time::Duration;

use emq_keys::{BrandedId, Namespace, namespace};
use emq_stores::{PropertyStore, Store};

/// How long a test waits for what must happen. Only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The kind that the suite's stores keep.
pub(crate) const KIND: Namespace = namespace!("POS");

/// A backend under test, with whatever must live as long as it does: a directory, a server.
pub(crate) trait Ground: Sized + Send + Sync {
    /// A store of a kind that shares nothing with other tests.
    fn open(kind: Namespace) -> impl Future<Output = Self> + Send;

    /// The backend.
    fn backend(&self) -> Arc<dyn PropertyStore>;

    /// Restarts what can be restarted; rows that outlive that are there afterwards.
    fn reopen(self) -> impl Future<Output = Self> + Send;
}

/// A typed store on the ground.
pub(crate) fn store_on<R>(ground: &impl Ground) -> Store<R> {
    Store::shared(ground.backend())
}

/// A row's id. Greater numbers are later ids.
pub(crate) fn row(number: u64) -> BrandedId {
    BrandedId::encode(KIND, number).unwrap()
}

/// A job's id. Greater numbers are later ids.
pub(crate) fn job(number: u64) -> BrandedId {
    BrandedId::encode(Namespace::JOB, number).unwrap()
}

/// What must come soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("{what} did not come within {PATIENCE:?}"))
}

/// Runs the whole suite on a [`Ground`].
macro_rules! suite {
    ($ground:ty) => {
        suite!(@ $ground:
            gates: an_id_of_another_kind_is_refused,
            gates: a_decimal_or_a_slug_is_refused,
            gates: the_bounds_of_a_page_and_a_window_are_gated,
            gates: only_a_job_is_absorbed_and_only_a_job_is_a_horizon,
            gates: a_step_that_no_backend_could_keep_is_refused,
            rows: a_row_is_there_once_it_was_put,
            rows: the_newest_come_first_by_name_alone,
            rows: a_window_is_half_open_and_ascending,
            rows: a_large_row_comes_back_whole,
            rows: any_bytes_come_back_whole,
            rows: a_row_of_another_type_is_told_and_left_alone,
            rows: put_keeps_the_names,
            absorb: a_name_is_absorbed_once,
            absorb: steps_of_one_job_are_told_apart,
            absorb: interleaved_jobs_are_all_remembered,
            absorb: contributions_are_kept_and_paged,
            absorb: an_effect_sees_whether_there_is_a_row,
            absorb: an_effect_that_refuses_leaves_nothing,
            absorb: an_effect_that_panics_leaves_nothing_and_the_store_goes_on,
            absorb: a_contribution_that_cannot_be_encoded_leaves_nothing,
            races: one_name_in_64_calls_is_applied_once,
            races: names_in_64_calls_all_count,
            races: a_fresh_row_is_made_once,
            races: one_that_panics_harms_no_other,
            races: a_dropped_call_is_all_or_nothing,
            compaction: names_before_the_horizon_are_folded_and_refused,
            compaction: the_horizon_is_for_fresh_rows_too,
            compaction: the_horizon_never_moves_back,
            compaction: many_names_are_folded_in_steps,
            compaction: an_absorb_beside_a_compaction_is_never_applied_twice,
            model: any_sequence_of_calls_does_what_a_map_would,
        );
    };
    (@ $ground:ty: $($module:ident: $test:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                suite::$module::$test::<$ground>().await;
            }
        )*
    };
}
pub(crate) use suite;
