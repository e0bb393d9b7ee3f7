//! The example of the README runs against a real server.

use std::process::Command;

use emq_testkit::Valkey;

#[test]
fn the_quick_start_enqueues_and_works_its_job() {
    let valkey = Valkey::start().unwrap();
    let run = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--example", "quickstart"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("EMQ_VALKEY_URL", valkey.url())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{run:?}");
    assert!(said.contains("ORD0NgWEfAEJfs owes 4200"), "{said}");
    assert!(said.ends_with("1 job done\n"), "{said}");
}
