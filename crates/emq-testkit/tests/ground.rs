//! Where a server is looked for. The environment decides, so each case runs in a process of its
//! own: this test binary once more, with one test and other variables.

use std::process::{Command, Output};

use emq_testkit::{AdminError, StartError, Valkey};

type Test = Result<(), Box<dyn std::error::Error>>;

/// Set in the process that tries something in an environment of its own.
const INSIDE: &str = "EMQ_TESTKIT_TEST_INSIDE";

fn inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// This test alone, in another environment.
fn elsewhere(test: &str, environment: &[(&str, &str)]) -> std::io::Result<Output> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    for name in ["EMQ_VALKEY_URL", "EMQ_VALKEY_SERVER", "EMQ_TESTKIT_TALLY"] {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied()).output()
}

fn assert_passed(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// With the feature it would be told about the container engine instead.
#[cfg(not(feature = "containers"))]
#[test]
fn a_machine_without_a_server_is_told_what_to_do() -> Test {
    if inside() {
        let error = Valkey::start().unwrap_err();
        assert!(matches!(error, StartError::NotFound));
        assert!(error.to_string().contains("cargo xtask valkey install"), "{error}");
        return Ok(());
    }
    let empty = tempfile::tempdir()?;
    let empty = empty.path().to_str().ok_or("no UTF-8")?;
    let test = "a_machine_without_a_server_is_told_what_to_do";
    assert_passed(&elsewhere(test, &[("PATH", empty), ("EMQ_CACHE", empty)])?);
    Ok(())
}

#[test]
fn a_named_server_that_is_not_there_is_no_reason_to_take_another() -> Test {
    if inside() {
        assert!(matches!(Valkey::start(), Err(StartError::NoSuchBinary { .. })));
        return Ok(());
    }
    let test = "a_named_server_that_is_not_there_is_no_reason_to_take_another";
    assert_passed(&elsewhere(test, &[("EMQ_VALKEY_SERVER", "/no/such/valkey-server")])?);
    Ok(())
}

#[test]
fn a_shared_server_is_used_by_those_who_can_share_it() -> Test {
    if inside() {
        let shared = Valkey::start_or_shared()?;
        assert!(shared.is_shared());
        assert_eq!(shared.cli(&["GET", "whose"])?, "the test's");
        assert_eq!(shared.url(), std::env::var("EMQ_VALKEY_URL")?);
        assert!(matches!(shared.kill9(), Err(AdminError::Shared)));
        assert!(matches!(shared.pause(), Err(AdminError::Shared)));
        assert!(matches!(shared.restart(), Err(StartError::Shared)));
        assert_eq!(Valkey::of_this_process().url(), shared.url());
        let own = Valkey::start()?;
        assert!(!own.is_shared());
        assert_ne!(own.port(), shared.port());
        return Ok(());
    }
    let valkey = Valkey::builder().requirepass("p:w@").start()?;
    valkey.cli(&["SET", "whose", "the test's"])?;
    let tally = tempfile::NamedTempFile::new()?;
    let file = tally.path().to_str().ok_or("no UTF-8")?;
    let url = valkey.url();
    let mut environment = vec![("EMQ_VALKEY_URL", url.as_str()), ("EMQ_TESTKIT_TALLY", file)];
    // Which server is its own doesn't matter here, only that there is one.
    let binary = emq_testkit::server_binary()?;
    environment.push(("EMQ_VALKEY_SERVER", binary.to_str().ok_or("no UTF-8")?));
    let test = "a_shared_server_is_used_by_those_who_can_share_it";
    assert_passed(&elsewhere(test, &environment)?);
    assert_eq!(std::fs::read_to_string(tally.path())?, "shared\nshared\nown\n");
    // The shared server outlives those who shared it.
    assert_eq!(valkey.cli(&["PING"])?, "PONG");
    Ok(())
}

#[test]
fn a_shared_server_that_does_not_answer_is_an_error() -> Test {
    if inside() {
        assert!(matches!(Valkey::start_or_shared(), Err(StartError::NoAnswer(_))));
        return Ok(());
    }
    let valkey = Valkey::start()?;
    valkey.kill9()?; // Its port stays ours: nobody answers there.
    let test = "a_shared_server_that_does_not_answer_is_an_error";
    assert_passed(&elsewhere(test, &[("EMQ_VALKEY_URL", &valkey.url())])?);
    Ok(())
}
