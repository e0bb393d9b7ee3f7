//! A real PostgreSQL: it keeps what it commits, has databases for each, and goes with its owner.
#![cfg(feature = "postgres")]
#![allow(clippy::print_stdout)] // It says which server it found.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use emq_testkit::{AdminError, Postgres, postgres_programs};

type Test = Result<(), Box<dyn std::error::Error>>;

/// Set in the process that plays the owner: how the server shall be when the owner is killed.
const ROLE: &str = "EMQ_TESTKIT_TEST_POSTGRES_OWNER";
/// Only bounds a failure.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn it_is_the_version_that_was_found_and_syncs_what_it_commits() -> Test {
    let server = Postgres::start()?;
    println!("PostgreSQL {}", server.version()?);
    assert!(server.version()?.starts_with(&postgres_programs()?.version), "another server");
    assert_eq!(server.sql("SHOW fsync")?, "on");
    assert_eq!(server.sql("SHOW listen_addresses")?, "127.0.0.1");
    Ok(())
}

#[test]
fn a_killed_server_starts_again_with_what_it_committed() -> Test {
    let server = Postgres::start()?;
    server.sql("CREATE TABLE t (n int)")?;
    server.sql("INSERT INTO t VALUES (7)")?;
    let url = server.url();
    for _ in 0..3 {
        server.kill9()?;
        assert_eq!(server.pid(), None);
        assert!(server.sql("SELECT 1").is_err(), "it still answers");
        server.start_again()?;
    }
    assert_eq!((server.sql("SELECT n FROM t")?.as_str(), server.url()), ("7", url));
    assert!(server.start_again().is_err(), "it runs already");
    assert!(server.log().contains("database system was not properly shut down"));
    Ok(())
}

#[test]
fn databases_know_nothing_of_each_other_and_go_with_their_value() -> Test {
    let server = Postgres::start()?;
    let (one, two) = (server.database()?, server.database()?);
    one.sql("CREATE TABLE t (n int)")?;
    two.sql("CREATE TABLE t (n int)")?;
    one.sql("INSERT INTO t VALUES (1)")?;
    assert_eq!(two.sql("SELECT count(*) FROM t")?, "0");
    let databases = "SELECT count(*) FROM pg_database WHERE datname LIKE 'emq_test_%'";
    assert_eq!(server.sql(databases)?, "2");
    drop(one);
    assert_eq!(server.sql(databases)?, "1");
    Ok(())
}

#[test]
fn a_setting_is_taken_and_one_that_is_none_is_told() -> Test {
    let server = Postgres::builder().setting("max_connections", "7").start()?;
    assert_eq!(server.sql("SHOW max_connections")?, "7");
    let refused = Postgres::builder().setting("no_such_thing", "1").start();
    let told = refused.err().ok_or("the server took it")?.to_string();
    assert!(told.contains("no_such_thing"), "{told}");
    Ok(())
}

#[test]
fn a_statement_that_is_refused_says_why() -> Test {
    let server = Postgres::start()?;
    match server.sql("SELEKT") {
        Err(error @ AdminError::Sql(_)) => {
            let mut told = String::new();
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(next) = cause {
                told.push_str(&next.to_string());
                cause = next.source();
            }
            assert!(told.contains("SELEKT"), "{told}");
            Ok(())
        }
        other => Err(format!("{other:?}").into()),
    }
}

#[test]
fn a_killed_owner_takes_its_server_along() -> Test {
    if let Ok(role) = std::env::var(ROLE) {
        return play_owner(&role);
    }
    for role in ["started", "killed", "down"] {
        let tmp = tempfile::tempdir()?;
        // Open, because root runs the server as another user.
        fs::set_permissions(tmp.path(), fs::Permissions::from_mode(0o777))?;
        let mut owner = Command::new(std::env::current_exe()?)
            .args(["--exact", "a_killed_owner_takes_its_server_along", "--nocapture"])
            .env(ROLE, role)
            .env("TMPDIR", tmp.path())
            .env_remove("EMQ_TESTKIT_TALLY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(owner.stdout.take().ok_or("no output")?).lines();
        while lines.next().ok_or("the owner ended early")?? != "ready" {}
        assert_ne!(processes_in(tmp.path())?, 0);
        assert!(has_server_dir(tmp.path())?);
        owner.kill()?;
        owner.wait()?;
        let deadline = Instant::now() + SOON;
        while processes_in(tmp.path())? != 0 || has_server_dir(tmp.path())? {
            assert!(Instant::now() < deadline, "{role}: something outlived its owner");
            thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

/// Starts a server, says so, and never ends by itself.
fn play_owner(role: &str) -> Test {
    let server = Postgres::start()?;
    if role != "started" {
        server.kill9()?;
    }
    if role == "killed" {
        server.start_again()?;
    }
    let mut parent = std::io::stdout();
    write!(parent, "\nready\n")?;
    parent.flush()?;
    loop {
        thread::park();
    }
}

fn processes_in(tmp: &Path) -> std::io::Result<usize> {
    let tmp = tmp.canonicalize()?;
    let links = fs::read_dir("/proc")?
        .filter_map(|entry| fs::read_link(entry.ok()?.path().join("cwd")).ok());
    Ok(links.filter(|cwd| cwd.starts_with(&tmp)).count())
}

fn has_server_dir(tmp: &Path) -> std::io::Result<bool> {
    let mut entries = fs::read_dir(tmp)?.filter_map(Result::ok);
    Ok(entries.any(|entry| entry.file_name().to_string_lossy().starts_with("emq-postgres-")))
}
