//! What the tests of every driver ask of it: the same lines and exit codes, whatever its language.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::home;
use emq_testkit::Valkey;

/// A command that starts a driver.
pub(crate) type Start = fn() -> Command;

/// What a driver printed, and how it ended.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    fn new(start: Start, url: &str, bundle: &Path, args: &[&str]) -> Self {
        let mut command = start();
        command.args(["--url", url, "--bundle"]).arg(bundle).args(args);
        let output = command.output().unwrap();
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The names of the contracts whose lines have this verdict.
    fn names(&self, verdict: &str) -> Vec<&str> {
        let words = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let has = |line: &&str| {
            line.starts_with("CONF") && words(line).get(3).is_some_and(|word| word == verdict)
        };
        self.out.lines().filter(has).filter_map(|line| line.split_whitespace().nth(2)).collect()
    }
}

fn lua() -> PathBuf {
    home().join("../lua")
}

pub(crate) fn holds_every_contract_and_leaves_nothing(start: Start) {
    let valkey = Valkey::start().unwrap();
    let run = Run::new(start, &valkey.url(), &lua(), &["--set", "all", "--own-server"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    assert_eq!(run.names("ok").len(), 14 + second(), "{}", run.out);
    assert!(run.out.contains("\nCONFORMANCE 14/14\n"), "{}", run.out);
    let count = format!("\nCONFORMANCE-2 {0}/{0}\n", second());
    assert!(run.out.ends_with(&count), "{}", run.out);
    assert_eq!(valkey.cli(&["KEYS", "*"]).unwrap(), "{emq}:version");
}

fn second() -> usize {
    fs::read_dir(home().join("contracts2")).unwrap().count()
}

pub(crate) fn skips_what_needs_a_server_of_its_own_and_says_so(start: Start) {
    let valkey = Valkey::start().unwrap();
    let run = Run::new(start, &valkey.url(), &lua(), &["--set", "second"]);
    assert_eq!(run.code, Some(0), "{}{}", run.out, run.err);
    let own = ["node-lease", "full", "fence-other", "full-resend", "nodes-full"];
    assert_eq!(run.names("skip"), own);
    let held = second() - own.len();
    assert!(run.out.ends_with(&format!("CONFORMANCE-2 {held}/{held}, 5 skipped\n")), "{}", run.out);
}

pub(crate) fn runs_the_one_contract_that_is_named(start: Start) {
    let valkey = Valkey::start().unwrap();
    let run = Run::new(start, &valkey.url(), &lua(), &["--only", "retry"]);
    assert_eq!((run.code, run.names("ok")), (Some(0), vec!["retry"]), "{}", run.err);
    assert!(run.out.ends_with("CONFORMANCE 1/1\n"), "{}", run.out);
    let run = Run::new(start, &valkey.url(), &lua(), &["--only", "nothing"]);
    assert_eq!(run.code, Some(1), "none that ran is no proof: {}", run.out);
}

pub(crate) fn is_found_when_it_is_broken(start: Start) {
    let valkey = Valkey::start().unwrap();
    for (sabotage, finds, untouched) in [
        ("token", &["stale"][..], &["mint", "kind", "rotate", "limit"][..]),
        ("kind", &["kind"], &["mint", "order", "stale", "rotate"]),
        ("ring", &["rotate", "pause", "limit"], &["mint", "kind", "stale", "order"]),
        ("wake", &["mint", "wake"], &["kind", "stale", "rotate", "limit"]),
    ] {
        let args = ["--set", "all", "--sabotage", sabotage];
        let run = Run::new(start, &valkey.url(), &lua(), &args);
        assert_eq!(run.code, Some(1), "{sabotage}: {}{}", run.out, run.err);
        let (broken, held) = (run.names("FAIL"), run.names("ok"));
        assert!(finds.iter().all(|name| broken.contains(name)), "{sabotage}: {broken:?}");
        assert!(untouched.iter().all(|name| held.contains(name)), "{sabotage}: {broken:?}");
    }
    assert_eq!(valkey.cli(&["KEYS", "*"]).unwrap(), "{emq}:version");
}

pub(crate) fn is_refused_by_the_fence_of_another_version(start: Start) {
    let valkey = Valkey::start().unwrap();
    for (found, shown) in [("echomq:1.9.0", "echomq:1.9.0"), ("echomq:2.0.01", "echomq:2.0.01")] {
        valkey.cli(&["SET", "{emq}:version", found]).unwrap();
        let run = Run::new(start, &valkey.url(), &lua(), &[]);
        let verdict = format!("FENCE version expected echomq:2.0.0 found {shown}\n");
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(3), "", &*verdict));
        assert_eq!(valkey.cli(&["KEYS", "*"]).unwrap(), "{emq}:version", "nothing was written");
        assert_eq!(valkey.cli(&["GET", "{emq}:version"]).unwrap(), found);
    }
    valkey.cli(&["DEL", "{emq}:version"]).unwrap();
    valkey.cli(&["RPUSH", "{emq}:version", "echomq:2.0.0"]).unwrap();
    let run = Run::new(start, &valkey.url(), &lua(), &[]);
    let verdict = "FENCE version expected echomq:2.0.0 found no string\n";
    assert_eq!((run.code, run.err.as_str()), (Some(3), verdict));
}

pub(crate) fn refuses_a_bundle_that_is_not_the_manifests(start: Start) {
    let valkey = Valkey::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(lua()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let claim = folder.path().join("claim.lua");
    let text = fs::read_to_string(&claim).unwrap();
    fs::write(&claim, text + "\n").unwrap();
    let run = Run::new(start, &valkey.url(), folder.path(), &[]);
    assert_eq!((run.code, run.out.as_str()), (Some(4), ""), "{}", run.err);
    assert!(run.err.starts_with("BUNDLE claim.lua has SHA-1 "), "{}", run.err);
    assert_eq!(valkey.cli(&["KEYS", "*"]).unwrap(), "", "nothing was sent");
}

pub(crate) fn says_when_the_server_is_not_there(start: Start) {
    let valkey = Valkey::start().unwrap();
    let url = valkey.url();
    valkey.stop().unwrap();
    let run = Run::new(start, &url, &lua(), &[]);
    assert_eq!((run.code, run.out.as_str()), (Some(5), ""), "{}", run.err);
    assert!(run.err.starts_with("SERVER "), "{}", run.err);
    let run = Run::new(start, &url, &lua(), &["--set", "third"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
}

/// A test for each of the above; where the machine has no such language, each says so.
#[macro_export]
macro_rules! driver_tests {
    ($hindrance:expr, $start:expr, $($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            match $hindrance {
                Some(hindrance) => eprintln!("left out: {hindrance}"),
                None => support::$name($start),
            }
        })*
    };
}
