//! The container job of `cargo xtask ci`: the testkit's `containers` feature against a real engine.
//!
//! The engine is the one that answers, or as root one that is started here for as long as the job
//! takes. The image is made here too, out of the cached server and the libraries it names, so that
//! no registry of images is needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::ci::Verdict;
use crate::{Failure, Outcome, sh, valkey};

const IMAGE: &str = "emq-valkey:local";
/// How long a fresh engine may take until it answers.
const UP_WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn job() -> Result<Verdict, Failure> {
    let engine = match Engine::find_or_start() {
        Ok(engine) => engine,
        Err(reason) => return Ok(Verdict::Skipped(format!("no engine: {reason}"))),
    };
    make_image(&engine)?;
    let mut test = sh::cargo();
    test.args(["test", "--package", "emq-testkit", "--features", "containers"])
        .args(["--test", "container"])
        .env("EMQ_VALKEY_IMAGE", IMAGE)
        .envs(engine.environment());
    sh::run(&mut test).map(|()| Verdict::Passed)
}

/// An engine that answers.
struct Engine {
    /// `None` for the machine's own, which is found as always.
    socket: Option<String>,
    ours: Option<(Child, tempfile::TempDir)>,
}

impl Engine {
    fn find_or_start() -> Result<Self, Failure> {
        let machine = Self { socket: None, ours: None };
        if sh::has("docker") && machine.answers() {
            return Ok(machine);
        }
        if !sh::is_root() {
            return Err("none answers, and only root could start one".into());
        }
        if !(sh::has("docker") && sh::has("dockerd") && sh::has("iptables")) {
            if !sh::has("apt-get") {
                return Err("none answers, and there is no apt-get to get one with".into());
            }
            sh::run(sh::apt().arg("update"))?;
            let packages = ["docker.io", "iptables"];
            sh::run(sh::apt().args(["install", "-y", "--no-install-recommends"]).args(packages))?;
        }
        Self::start()
    }

    fn start() -> Result<Self, Failure> {
        let dir = tempfile::Builder::new().prefix("emq-engine-").tempdir()?;
        let at = |name: &str| dir.path().join(name);
        let socket = format!("unix://{}", at("docker.sock").display());
        let log = fs::File::create(at("log"))?;
        let daemon = sh::program("dockerd")
            .args(["--host", &socket])
            .arg("--data-root")
            .arg(at("data"))
            .arg("--exec-root")
            .arg(at("exec"))
            .arg("--pidfile")
            .arg(at("pid"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|e| format!("dockerd: {e}"))?;
        let mut engine = Self { socket: Some(socket), ours: Some((daemon, dir)) };
        let deadline = Instant::now() + UP_WITHIN;
        while !engine.answers() {
            if let Some(reason) = engine.ended(deadline) {
                return Err(reason.into());
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(engine)
    }

    /// Why there is no use in waiting any longer.
    fn ended(&mut self, deadline: Instant) -> Option<String> {
        let (daemon, dir) = self.ours.as_mut()?;
        let status = match daemon.try_wait() {
            Ok(None) if Instant::now() < deadline => return None,
            Ok(Some(status)) => status.to_string(),
            _ => "does not answer".to_owned(),
        };
        let log = fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        Some(format!("dockerd: {status}: {}", log.lines().last().unwrap_or("it wrote no log")))
    }

    fn environment(&self) -> Option<(&'static str, &str)> {
        self.socket.as_deref().map(|socket| ("DOCKER_HOST", socket))
    }

    fn docker(&self) -> Command {
        let mut docker = sh::program("docker");
        docker.envs(self.environment());
        docker
    }

    fn answers(&self) -> bool {
        let mut version = self.docker();
        version.arg("version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some((mut daemon, dir)) = self.ours.take() {
            // An orderly end: it takes its own children and mounts along.
            let _ = sh::run(sh::program("kill").args(["-TERM", &daemon.id().to_string()]));
            let _ = daemon.wait();
            drop(dir);
        }
    }
}

/// An image of the server and its libraries, and nothing else.
fn make_image(engine: &Engine) -> Outcome {
    let server = valkey::install(false)?;
    let root = tempfile::tempdir()?;
    put(&server, root.path(), Path::new("/usr/local/bin/valkey-server"))?;
    for library in libraries(&server)? {
        put(&library, root.path(), &library)?;
    }
    fs::create_dir_all(root.path().join("tmp"))?;
    let mut tar = sh::program("tar");
    tar.arg("-C").arg(root.path()).args(["-c", "."]).stdout(Stdio::piped());
    let mut packing = tar.spawn().map_err(|e| format!("tar: {e}"))?;
    let archive = packing.stdout.take().ok_or("tar has no output")?;
    let mut import = engine.docker();
    import.args(["import", "--change", "ENV PATH=/usr/local/bin", "-", IMAGE]).stdin(archive);
    let imported = sh::run(&mut import);
    drop(import); // Lets go of the pipe, so that tar can't wait for a reader.
    let packed = packing.wait()?;
    imported?;
    if packed.success() { Ok(()) } else { Err(format!("tar: {packed}").into()) }
}

/// The absolute paths that `ldd` names, the loader included.
fn libraries(server: &Path) -> Result<Vec<PathBuf>, Failure> {
    let listing = sh::output(sh::program("ldd").arg(server))?;
    let paths = listing.lines().filter_map(|line| {
        line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from)
    });
    Ok(paths.collect())
}

/// Copies a file into the image's root at the place where the image will look for it.
fn put(file: &Path, root: &Path, at: &Path) -> Outcome {
    let target = root.join(at.strip_prefix("/").unwrap_or(at));
    fs::create_dir_all(target.parent().unwrap_or(root))?;
    fs::copy(file, &target).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(())
}
