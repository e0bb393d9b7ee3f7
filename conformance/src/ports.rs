//! The drivers in other languages: found, given their client library, and ready to be started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bundle::sha1_of;
use crate::{Failure, home};

/// A driver in another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// `drivers/python`, through `valkey` from PyPI.
    Python,
    /// `drivers/node`, through `iovalkey` from npm.
    Node,
}

/// What says whether a Python is new enough.
const PYTHON_IS_NEW: &str = "import sys; sys.exit(sys.version_info < (3, 11, 3))";
const NODE_IS_NEW: &str = "process.exit(process.versions.node.split('.')[0] < 18 ? 1 : 0)";

impl Port {
    /// Both of them by the word that `cargo xtask conformance` takes.
    pub const ALL: [(&'static str, Self); 2] = [("python", Self::Python), ("node", Self::Node)];

    /// Why this machine can't run it, when it can't.
    #[must_use]
    pub fn hindrance(self) -> Option<&'static str> {
        let runs = |name: &str, args: &[&str]| {
            let command = Command::new(name).args(args).stdin(Stdio::null()).output();
            command.is_ok_and(|output| output.status.success())
        };
        match self {
            Self::Python if !runs("python3", &["-c", PYTHON_IS_NEW]) => {
                Some("no python3 of 3.11.3 or newer")
            }
            Self::Python if !runs("python3", &["-m", "pip", "--version"]) => Some("no pip"),
            Self::Node if !runs("node", &["-e", NODE_IS_NEW]) => Some("no node of 18 or newer"),
            Self::Node if !runs("npm", &["--version"]) => Some("no npm"),
            _ => None,
        }
    }

    /// The command that drives; its library is installed into the cache first, once. The caller
    /// adds the arguments that the README names.
    ///
    /// # Errors
    /// [`Failure::Port`] when there is no cache, or the library can't be installed.
    pub fn command(self) -> Result<Command, Failure> {
        let installed = self.installed()?;
        let mut command = match self {
            Self::Python => Command::new("python3"),
            Self::Node => Command::new("node"),
        };
        match self {
            // The driver's own folder stays as it is: it is read-only where it was unpacked so.
            Self::Python => {
                command.env("PYTHONPATH", installed).env("PYTHONDONTWRITEBYTECODE", "1")
            }
            Self::Node => command.env("NODE_PATH", installed.join("node_modules")),
        };
        command.arg(self.folder().join(self.file()));
        Ok(command)
    }

    fn folder(self) -> PathBuf {
        let name = if self == Self::Python { "python" } else { "node" };
        home().join("drivers").join(name)
    }

    fn file(self) -> &'static str {
        if self == Self::Python { "driver.py" } else { "driver.cjs" }
    }

    /// Several may install at once: each works in a folder of its own, and the last step is a
    /// rename; who comes second finds it done.
    fn installed(self) -> Result<PathBuf, Failure> {
        let (word, pins) = match self {
            Self::Python => ("python", "requirements.txt"),
            Self::Node => ("node", "package-lock.json"),
        };
        let pins = self.folder().join(pins);
        let bytes = fs::read(&pins).map_err(|e| failed(&pins.display().to_string(), &e))?;
        let cache = emq_testkit::cache_dir();
        let cache = cache.ok_or_else(|| failed("no place for a cache", &"set EMQ_CACHE"))?;
        let target = cache.join(format!("conformance-{word}-{}", &sha1_of(&bytes)[..16]));
        if target.is_dir() {
            return Ok(target);
        }
        fs::create_dir_all(&cache).map_err(|e| failed(&cache.display().to_string(), &e))?;
        let work = tempfile::Builder::new().prefix("install-").tempdir_in(&cache)?;
        let made = work.path().join("made");
        fs::create_dir(&made)?;
        match self {
            Self::Python => install_python(&pins, &made)?,
            Self::Node => install_node(&self.folder(), &made)?,
        }
        match fs::rename(&made, &target) {
            Err(_) if target.is_dir() => Ok(target),
            Err(e) => Err(failed(&target.display().to_string(), &e)),
            Ok(()) => Ok(target),
        }
    }
}

fn install_python(pins: &Path, into: &Path) -> Result<(), Failure> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--root-user-action=ignore", "--no-deps", "--only-binary=:all:"]);
    pip.args(["--require-hashes", "-r"]).arg(pins).arg("--target").arg(into);
    succeed(&mut pip)
}

fn install_node(folder: &Path, into: &Path) -> Result<(), Failure> {
    for file in ["package.json", "package-lock.json"] {
        fs::copy(folder.join(file), into.join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]).current_dir(into);
    succeed(&mut npm)
}

fn succeed(command: &mut Command) -> Result<(), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|e| failed(&name, &e))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(&name, &String::from_utf8_lossy(&output.stderr).trim()))
}

fn failed(what: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::Port(format!("{what}: {why}"))
}
