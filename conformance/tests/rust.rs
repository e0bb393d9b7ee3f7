//! The driver in Rust: what every driver is asked.

mod support;

use std::process::Command;

fn driver() -> Command {
    Command::new(env!("CARGO_BIN_EXE_conformance"))
}

driver_tests!(
    None::<&str>,
    driver,
    holds_every_contract_and_leaves_nothing,
    skips_what_needs_a_server_of_its_own_and_says_so,
    runs_the_one_contract_that_is_named,
    is_found_when_it_is_broken,
    is_refused_by_the_fence_of_another_version,
    refuses_a_bundle_that_is_not_the_manifests,
    says_when_the_server_is_not_there,
);

#[test]
fn a_mutated_bundle_is_driven_too_and_found() {
    let valkey = emq_testkit::Valkey::start().unwrap();
    let lua = conformance::home().join("../lua");
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(lua).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let run = || conformance::run(&valkey.url(), folder.path(), conformance::Set::Seed).unwrap();
    assert!(run().all_hold());
    let complete = folder.path().join("complete.lua");
    let text = std::fs::read_to_string(&complete).unwrap();
    let mutated = text.replacen("fields[2] ~= token or ", "", 1);
    assert_ne!(text, mutated);
    std::fs::write(&complete, mutated).unwrap();
    assert_eq!(run().broken(), ["stale"]);
}
