//! `cargo xtask fuzz`: libFuzzer over the RESP decoder, on the pinned stable toolchain.
//!
//! The usual driver for fuzz targets wants a nightly compiler, but only for the sanitizers. Coverage
//! itself is a pass of the compiler's back end that stable can be asked for, and a decoder without
//! `unsafe` has little for a sanitizer to find: so the targets are built here as plain binaries.
//! They stay usable with `cargo fuzz`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, Outcome, sh};

/// What makes the compiler count edges and tell libFuzzer about comparisons.
const COVERAGE: &str = "--cfg fuzzing -Ccodegen-units=1 -Cdebug-assertions=on -Coverflow-checks=on \
    -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
const DEFAULT_TARGET: &str = "decoder";
/// Long enough to see that the target works and finds nothing at once, in seconds.
const SMOKE_S: u32 = 20;
/// An input that takes longer is a finding, in seconds.
const SLOW_S: u32 = 10;
/// So is one that makes the process grow beyond this, in MiB.
const GREEDY_MIB: u32 = 1024;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The target, a file of fuzz/fuzz_targets
    #[arg(default_value = DEFAULT_TARGET)]
    pub(crate) target: String,
    /// How long to run
    #[arg(long, default_value_t = SMOKE_S)]
    pub(crate) seconds: u32,
}

impl Default for Args {
    fn default() -> Self {
        Self { target: DEFAULT_TARGET.to_owned(), seconds: SMOKE_S }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(reason) = hindrance(&args.target) {
        println!("fuzz {}: skipped: {reason}", args.target);
        return Ok(());
    }
    let binary = build(&args.target)?;
    let fuzz = sh::root().join("fuzz");
    let (corpus, artifacts) =
        (fuzz.join("corpus").join(&args.target), fuzz.join("artifacts").join(&args.target));
    for dir in [&corpus, &artifacts] {
        fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    }
    let mut command = Command::new(binary);
    command
        .current_dir(&fuzz)
        .arg(&corpus)
        .arg(format!("-max_total_time={}", args.seconds))
        .arg(format!("-timeout={SLOW_S}"))
        .arg(format!("-rss_limit_mb={GREEDY_MIB}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg("-print_final_stats=1");
    let seeds = fuzz.join("seeds").join(&args.target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    let found = |failure: Failure| format!("{failure}: the input is in {}", artifacts.display());
    sh::run(&mut command).map_err(found)?;
    println!("fuzz {}: ok after {} s", args.target, args.seconds);
    Ok(())
}

/// Why the target can't be built on this machine, if it can't.
pub(crate) fn hindrance(target: &str) -> Option<String> {
    let file = sh::root().join("fuzz/fuzz_targets").join(format!("{target}.rs"));
    if !file.is_file() {
        return Some(format!("no fuzz/fuzz_targets/{target}.rs"));
    }
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return Some("libFuzzer is built here for Linux only".to_owned());
    }
    let compilers = ["c++", "g++", "clang++"];
    (!compilers.iter().any(|name| sh::has(name)))
        .then(|| "no C++ compiler for libFuzzer".to_owned())
}

fn build(target: &str) -> Result<PathBuf, Failure> {
    // With an explicit target the flags don't reach build scripts, which have no libFuzzer.
    let host = host()?;
    let manifest = sh::root().join("fuzz/Cargo.toml");
    let directory = sh::root().join("fuzz/target");
    sh::run(
        sh::cargo()
            .args(["build", "--release", "--target", &host, "--bin", target, "--manifest-path"])
            .arg(manifest)
            .arg("--target-dir")
            .arg(&directory)
            .env("RUSTFLAGS", COVERAGE),
    )?;
    Ok(Path::new(&directory).join(host).join("release").join(target))
}

fn host() -> Result<String, Failure> {
    let version = sh::output(sh::program("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc names no host".into())
}
