//! `cargo xtask test`: every test and doctest, on a real Valkey and a real PostgreSQL.
//!
//! Plain `cargo test` underneath: a fresh machine has no other runner, and doctests are included.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use crate::{Outcome, postgres, sh, valkey};

/// What is tested beside the defaults: each backend of the stores, schedules, and what is
/// told to `metrics`.
pub(crate) const FEATURES: &str = "emq-stores/sqlite,emq-stores/tokio-postgres,emq-stores/sqlx,\
                                   emq-stores/outbox,emq-stores/metrics,emq-core/metrics,\
                                   emq-core/schedules,emq-testkit/postgres";

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Run on this server binary instead of the one that is found (EMQ_VALKEY_SERVER)
    #[arg(long, value_name = "PATH")]
    pub(crate) server: Option<PathBuf>,
    /// Arguments for `cargo test` instead of `--workspace` with every backend
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) cargo: Vec<String>,
}

/// What the closing lines of the test binaries add up to.
#[derive(Default, Debug, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Count {
    /// Adds a line such as `test result: ok. 5 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test result: ") else { return };
        let Some((_, rest)) = rest.split_once(". ") else { return };
        for part in rest.split("; ") {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                Some((number, "ignored")) => self.ignored += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let server = match &args.server {
        Some(path) => fs::canonicalize(path).map_err(|e| format!("{}: {e}", path.display()))?,
        None => valkey::ensure()?,
    };
    println!("server: {}", server.display());
    println!("server: {}", postgres::ensure()?);
    let tally = tempfile::NamedTempFile::new()?;
    let mut command = sh::cargo();
    command.args(["test", "--no-fail-fast"]);
    if args.cargo.is_empty() {
        command.args(["--workspace", "--features", FEATURES]);
    }
    command.args(&args.cargo).env("EMQ_TESTKIT_TALLY", tally.path()).stdout(Stdio::piped());
    if args.server.is_some() {
        command.env("EMQ_VALKEY_SERVER", &server);
    }
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", sh::line(&command)))?;
    let mut count = Count::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            count.add(&line);
        }
    }
    let status = child.wait()?;
    println!("\n{}", servers(&fs::read_to_string(tally.path())?));
    let skipped = match count.ignored {
        0 => String::new(),
        ignored => format!(", {ignored} skipped"),
    };
    println!("tests: {} passed, {} failed{skipped}", count.passed, count.failed);
    match (status.success(), count.passed) {
        (true, 0) => Err("no test ran".into()),
        (true, _) => Ok(()),
        (false, _) => Err(format!("{}: {status}", sh::line(&command)).into()),
    }
}

/// How many servers the tests started, and how many tests could share the one of EMQ_VALKEY_URL.
fn servers(tally: &str) -> String {
    let of = |kind| tally.lines().filter(|line| *line == kind).count();
    let own = of("own") + of("container");
    let postgres = match of("postgres") {
        0 => String::new(),
        count => format!(", and {count} of PostgreSQL"),
    };
    match std::env::var("EMQ_VALKEY_URL") {
        Ok(url) if !url.is_empty() => format!(
            "servers: {} starts shared the one of EMQ_VALKEY_URL, {own} were left out of it and \
             had their own{postgres}",
            of("shared")
        ),
        _ => format!("servers: {own} started{postgres}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_add_up() {
        let mut count = Count::default();
        count.add("test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out");
        count.add("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured");
        count.add("test a::b ... ok");
        assert_eq!(count, Count { passed: 7, failed: 3, ignored: 1 });
    }

    #[test]
    fn servers_are_counted_by_kind() {
        assert!(servers("own\nown\nshared\n").contains('2'));
        assert!(servers("own\npostgres\n").contains("1 of PostgreSQL"));
    }
}
