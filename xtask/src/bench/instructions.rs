//! Instruction counts, under callgrind, beside those that were kept.
//!
//! A count is the same on a busy machine and on a quiet one, but not under another compiler: the
//! kept ones say which compiler made them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Failure, Outcome, sh};

const KEPT: &str = "benches/results/instructions.json";
/// The library's runner, of the same version as the library in the lock file.
const RUNNER: &str = "gungraun-runner";
const RUNNER_VERSION: &str = "0.20.0";
/// A count that moved by less is as it was: the allocator's state differs a little.
const NOISE: f64 = 0.002;

/// What was counted, and what the code was made by.
#[derive(Debug, Serialize, Deserialize)]
struct Counts {
    compiler: String,
    machine: String,
    instructions: BTreeMap<String, u64>,
}

/// Counts, and prints each count beside the kept one. Without valgrind nothing is counted.
pub(super) fn run(save: bool) -> Outcome {
    if !sh::has("valgrind") {
        println!("instructions: skipped: no valgrind here: apt-get install valgrind");
        return Ok(());
    }
    let counts = count()?;
    let path = sh::root().join(KEPT);
    let kept: Option<Counts> = match fs::read(&path) {
        Ok(text) => Some(serde_json::from_slice(&text).map_err(|e| format!("{KEPT}: {e}"))?),
        Err(_) => None,
    };
    print(&counts, kept.as_ref());
    if save {
        fs::write(&path, serde_json::to_string_pretty(&counts)? + "\n")?;
        println!("kept in {KEPT}");
    }
    Ok(())
}

fn count() -> Result<Counts, Failure> {
    let mut bench = sh::cargo();
    bench
        .args(["bench", "-p", "emq-bench", "--features", "instructions"])
        .args(["--bench", "instructions", "--", "--output-format=json"])
        .env("GUNGRAUN_RUNNER", runner()?);
    let instructions = parse(&sh::output(&mut bench)?)?;
    let compiler = sh::output(sh::program("rustc").arg("--version"))?;
    let machine = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    Ok(Counts { compiler, machine, instructions })
}

/// The runner; installed beside the builds when it isn't there.
fn runner() -> Result<PathBuf, Failure> {
    let root = sh::root().join("target/tools");
    let runner = root.join("bin").join(RUNNER);
    let version = root.join(".crates.toml");
    let installed = fs::read_to_string(version).unwrap_or_default();
    if !runner.is_file() || !installed.contains(&format!("\"{RUNNER} {RUNNER_VERSION} ")) {
        let mut install = sh::cargo();
        install.args(["install", RUNNER, "--version", RUNNER_VERSION, "--locked", "--root"]);
        sh::run(install.arg(&root))?;
    }
    Ok(runner)
}

/// One JSON object a line, one a bench.
fn parse(lines: &str) -> Result<BTreeMap<String, u64>, Failure> {
    let mut counts = BTreeMap::new();
    for line in lines.lines().filter(|line| line.starts_with('{')) {
        let said: Value = serde_json::from_str(line)?;
        let name = said["function_name"].as_str().ok_or("a bench without a name")?;
        let total = &said["profiles"][0]["data"]["total"]["metrics"]["Ir"]["values"];
        // A number when it ran for the first time, else a pair of the new one and the last.
        let count = total["new"].as_u64().or_else(|| total["both"][0].as_u64());
        let count = count.ok_or_else(|| format!("no count of {name}: {total}"))?;
        counts.insert(name.to_owned(), count);
    }
    if counts.is_empty() { Err("nothing was counted".into()) } else { Ok(counts) }
}

fn print(counts: &Counts, kept: Option<&Counts>) {
    println!("\n{:<26}{:>12}{:>12}  change", "instructions", "now", "kept");
    for (name, now) in &counts.instructions {
        match kept.and_then(|kept| kept.instructions.get(name)) {
            Some(then) => println!("{name:<26}{now:>12}{then:>12}  {}", change(*now, *then)),
            None => println!("{name:<26}{now:>12}{:>12}", "-"),
        }
    }
    if let Some(kept) = kept
        && (&kept.compiler, &kept.machine) != (&counts.compiler, &counts.machine)
    {
        println!("kept by {} on {}: compare with care", kept.compiler, kept.machine);
    }
}

fn change(now: u64, then: u64) -> String {
    let share = now as f64 / then as f64 - 1.0;
    if share.abs() < NOISE { "none".to_owned() } else { format!("{:+.1} %", share * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, values: &str) -> String {
        format!(
            "{{\"function_name\":\"{name}\",\"profiles\":[{{\"data\":{{\"total\":{{\"metrics\":\
             {{\"Ir\":{{\"values\":{values}}}}}}}}}}}]}}"
        )
    }

    #[test]
    fn counts_are_read_from_first_runs_and_later_ones() {
        let first = line("a", "{\"new\":1080}");
        let later = line("b", "{\"both\":[90,100]}");
        let counts = parse(&format!("noise\n{first}\n{later}\n")).unwrap();
        assert_eq!(counts, BTreeMap::from([("a".to_owned(), 1080), ("b".to_owned(), 90)]));
    }

    #[test]
    fn a_count_that_is_not_there_is_an_error() {
        assert!(parse("nothing").is_err());
        assert!(parse(&line("a", "{\"old\":7}")).unwrap_err().to_string().contains("of a"));
    }

    #[test]
    fn a_change_within_the_noise_is_none() {
        assert_eq!(change(1001, 1000), "none");
        assert_eq!(change(900, 1000), "-10.0 %");
        assert_eq!(change(1100, 1000), "+10.0 %");
    }
}
