//! The driver in Python: what every driver is asked.

mod support;

use std::process::Command;

fn driver() -> Command {
    conformance::Port::Python.command().unwrap()
}

driver_tests!(
    conformance::Port::Python.hindrance(),
    driver,
    holds_every_contract_and_leaves_nothing,
    skips_what_needs_a_server_of_its_own_and_says_so,
    runs_the_one_contract_that_is_named,
    is_found_when_it_is_broken,
    is_refused_by_the_fence_of_another_version,
    refuses_a_bundle_that_is_not_the_manifests,
    says_when_the_server_is_not_there,
);
