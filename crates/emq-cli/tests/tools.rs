//! The commands that are about the command itself or the server as a whole: `bench`, `conform`, `man`,
//! `completions`, and how a person is asked.

mod hands;
mod watch;

use std::fs;
use std::process::{Command, Stdio};

use emq_testkit::Valkey;
use hands::{code, command, emq_on, ended, run, signal, until};
use watch::screen::Screen;

const CONTRACTS: usize = 14;

/// The names of the commands, as the help lists them.
fn verbs() -> Vec<String> {
    let help = run(command("", &["--help"]), "");
    let listed = help.ok().split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    // A description may go on below, further to the right.
    let names = listed.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn a_reading_is_taken_and_nothing_of_it_is_left() {
    let valkey = Valkey::start().unwrap();
    let emq = |args: &[&str]| emq_on(&valkey.url(), args);
    emq(&["enqueue", "mail", "1"]).ok();
    let reading = emq(&["bench", "--jobs", "2000", "--samples", "20", "--json"]).json();
    assert_eq!((&reading["jobs"], &reading["samples"]), (&2000.into(), &20.into()));
    for rate in ["enqueued_per_s", "worked_per_s"] {
        assert!(reading[rate].as_f64().unwrap() > 0.0, "{reading}");
    }
    for latency in ["enqueue_us", "start_us"] {
        let of = |quantile: &str| reading[latency][quantile].as_u64().unwrap();
        assert!(0 < of("p50") && of("p50") <= of("p99") && of("p99") <= of("max"), "{reading}");
    }
    let told = emq(&["bench", "--jobs", "100", "--samples", "5"]);
    assert!(told.ok().contains("100 jobs of 100 bytes, 5 single ones"), "{told:?}");
    let queues = emq(&["ls", "--json"]).json();
    assert_eq!(queues.as_array().unwrap().len(), 1, "only mail: {queues}");
}

#[test]
fn a_reading_that_is_interrupted_leaves_nothing_either() {
    let valkey = Valkey::start().unwrap();
    let mut bench = command(&valkey.url(), &["bench", "--jobs", "10000000"]);
    let mut bench = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let queues = || emq_on(&valkey.url(), &["ls", "--json"]).json().as_array().unwrap().len();
    until("the first jobs", || queues() == 1);
    signal(&bench, "INT");
    assert_eq!(code(ended(&mut bench)), 130);
    assert_eq!(queues(), 0);
}

#[test]
fn the_contracts_hold_on_a_server_in_use() {
    let valkey = Valkey::start().unwrap();
    let emq = |args: &[&str]| emq_on(&valkey.url(), args);
    let id = emq(&["enqueue", "mail", "1"]);
    let told = emq(&["conform"]);
    assert!(told.ok().ends_with(&format!("CONFORMANCE {CONTRACTS}/{CONTRACTS}")), "{told:?}");
    let all = emq(&["conform", "--json"]).json();
    let all = all.as_array().unwrap();
    assert_eq!(all.len(), CONTRACTS);
    assert!(all.iter().all(|one| one["verdict"] == "holds"), "{all:?}");
    let name = all[3]["name"].as_str().unwrap();
    let only = emq(&["conform", "--only", name, "--json"]).json();
    assert_eq!(only.as_array().unwrap().len(), 1, "{only}");
    assert!(emq(&["conform", "--only", "nothing"]).failed(2).contains(name));
    assert!(emq(&["show", id.ok()]).ok().contains("of mail"), "what was there is there");
}

#[test]
fn a_contract_that_does_not_hold_is_named() {
    let valkey = Valkey::start().unwrap();
    // Scripts run with their caller's rights, so that this user's claims fail in the middle.
    let rule =
        ["ACL", "SETUSER", "half", "on", ">pass", "~*", "&*", "+@all", "-zrange", "-zpopmin"];
    valkey.cli(&rule).unwrap();
    let url = valkey.url().replace("://", "://half:pass@");
    let told = emq_on(&url, &["conform"]);
    assert_eq!(told.code, 9, "{told:?}");
    assert!(told.out.contains("broken") && told.err.contains("contracts don't hold"), "{told:?}");
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man");
    run(command("", &["man", "--dir", dir.to_str().unwrap()]), "").ok();
    let verbs = verbs();
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in &verbs {
        let page = fs::read_to_string(dir.join(format!("emq-{verb}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("\\-\\-url"), "{verb}: {page}");
    }
    let page = run(command("", &["man"]), "");
    assert_eq!(page.out, fs::read_to_string(dir.join("emq.1")).unwrap());
    for part in [".SH \"EXIT STATUS\"", "unconfirmed", "emq\\-obliterate(1)"] {
        assert!(page.ok().contains(part), "no {part}: {}", page.out);
    }
}

#[test]
fn each_shell_gets_its_completions() {
    let verbs = verbs();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(command("", &["completions", shell]), "");
        for verb in &verbs {
            assert!(script.ok().contains(verb.as_str()), "{shell} has no {verb}");
        }
    }
    assert!(run(command("", &["completions", "dos"]), "").failed(2).contains("bash"));
    // As a user's shell takes it: sourced, then asked what may follow `emq obl`.
    let script = run(command("", &["completions", "bash"]), "").out;
    let ask = "COMP_WORDS=(emq obl); COMP_CWORD=1; _emq emq obl emq; echo \"${COMPREPLY[*]}\"";
    let bash = Command::new("bash").args(["-c", &format!("{script}\n{ask}")]).output().unwrap();
    assert_eq!(String::from_utf8(bash.stdout).unwrap().trim(), "obliterate");
}

#[test]
fn a_person_is_asked_and_only_a_yes_deletes() {
    let valkey = Valkey::start().unwrap();
    let emq = |args: &[&str]| emq_on(&valkey.url(), args);
    let waiting = || emq(&["ls", "--json"]).json()[0]["waiting"].as_u64();
    emq(&["enqueue", "mail", "1"]).ok();
    for (answer, exit, left) in [("n\r", 10, Some(1)), ("\r", 10, Some(1)), ("yes\r", 0, None)] {
        let url = valkey.url();
        let mut screen = Screen::emq(&["--url", &url, "drain", "mail"], (80, 24));
        screen.until("the question", |text| text.contains("[y/N]"));
        screen.press(answer);
        assert_eq!(screen.end().exit_code(), exit, "{answer:?}");
        assert_eq!(waiting(), left, "{answer:?}");
    }
    // Told yes on a terminal, it doesn't ask.
    emq(&["enqueue", "mail", "1"]).ok();
    let url = valkey.url();
    let mut screen = Screen::emq(&["--url", &url, "drain", "mail", "--yes"], (80, 24));
    assert_eq!(screen.end().exit_code(), 0);
    assert!(!screen.text().contains("[y/N]") && screen.text().contains("1 deleted"));
    assert_eq!(waiting(), None);
}
