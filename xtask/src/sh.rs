//! Running other programs: from the workspace's root, with failures that name the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Failure, Outcome};

/// The workspace's root, from where every task runs.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The cargo that started us, so that the toolchain stays the same.
pub(crate) fn cargo() -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A command that runs in the workspace's root.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// Runs a command with our own output; anything but success is a failure that names it.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|e| format!("{}: {e}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", line(command)).into()) }
}

/// Runs a command and takes its standard output; its standard error stays ours.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let out = command.stderr(Stdio::inherit()).output();
    let out = out.map_err(|e| format!("{}: {e}", line(command)))?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned())
    } else {
        Err(format!("{}: {}", line(command), out.status).into())
    }
}

/// Whether a program of this name is on the search path.
pub(crate) fn has(name: &str) -> bool {
    find(name).is_some()
}

/// Where a program of this name is on the search path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// A command as a reader would type it.
pub(crate) fn line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

/// apt without questions.
pub(crate) fn apt() -> Command {
    let mut command = program("apt-get");
    command.arg("-q").env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command
}

/// Whether this user may install packages.
pub(crate) fn is_root() -> bool {
    output(program("id").arg("-u")).is_ok_and(|id| id == "0")
}
