//! The files of a server: made once by `initdb`, then copied for each.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::find::{PostgresPrograms, cached_postgres, is_open, is_root};
use crate::StartError;

/// Raised when what `initdb` is told changes.
const TEMPLATE: u32 = 1;

/// Whoever runs the server: ourselves, or for root the user `nobody`, since PostgreSQL refuses to
/// run as root. Nobody owns nothing, and every machine has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runner(Option<(u32, u32)>);

impl Runner {
    pub(crate) fn here() -> Self {
        Self(is_root().then(nobody))
    }

    /// The user and the group, if they aren't ours.
    pub(crate) fn user(self) -> Option<(u32, u32)> {
        self.0
    }

    /// Where its directory is made: where the user who runs it can get to.
    pub(crate) fn temporary(self) -> PathBuf {
        let usual = env::temp_dir();
        if self.0.is_none() || is_open(&usual) { usual } else { PathBuf::from("/tmp") }
    }

    /// Gives a file to whoever runs the server.
    pub(crate) fn own(self, path: &Path) -> io::Result<()> {
        match self.0 {
            Some((user, group)) => chown(path, Some(user), Some(group)),
            None => Ok(()),
        }
    }

    fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        command
    }
}

/// As the machine's list of users says.
fn nobody() -> (u32, u32) {
    let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = list.lines().find_map(|line| line.strip_prefix("nobody:"));
    let mut fields = line.into_iter().flat_map(|line| line.split(':')).skip(1);
    let mut number = || fields.next().and_then(|field| field.parse().ok()).unwrap_or(65_534);
    (number(), number())
}

/// Fills `data`, which isn't there yet, with the files of a server that was never started.
pub(crate) fn fill(
    data: &Path,
    programs: &PostgresPrograms,
    runner: Runner,
) -> Result<(), StartError> {
    match template(programs, runner)? {
        Some(template) => copy(&template, data, runner)
            .map_err(StartError::io("copy the template of PostgreSQL's files")),
        None => initdb(data, programs, runner),
    }
}

/// The template, made now if it isn't there. `None` where the cache can't be written or read.
fn template(programs: &PostgresPrograms, runner: Runner) -> Result<Option<PathBuf>, StartError> {
    let Some(cache) = cached_postgres().and_then(|home| home.parent().map(Path::to_path_buf))
    else {
        return Ok(None);
    };
    let user = runner.user().map_or_else(String::new, |(user, _)| format!("-{user}"));
    let version = programs.version.replace('/', "_");
    let template = cache.join(format!("postgres-files-{TEMPLATE}-{version}{user}"));
    if template.is_dir() {
        return Ok(fs::read_dir(&template).is_ok().then_some(template));
    }
    // Several may be at it at once: each makes its own, and the first to rename has made it.
    let _ = fs::create_dir_all(&cache);
    let Ok(work) = tempfile::Builder::new().prefix("postgres-files-").tempdir_in(&cache) else {
        return Ok(None);
    };
    runner.own(work.path()).map_err(StartError::io("give a directory to PostgreSQL's user"))?;
    let made = work.path().join("data");
    initdb(&made, programs, runner)?;
    match fs::rename(&made, &template) {
        Err(error) if !template.is_dir() => {
            Err(StartError::io("put the template of PostgreSQL's files in its place")(error))
        }
        _ => Ok(Some(template)),
    }
}

/// No sync: what is made here is copied, and lost with the machine. The server itself syncs.
fn initdb(data: &Path, programs: &PostgresPrograms, runner: Runner) -> Result<(), StartError> {
    let out = runner
        .command(&programs.initdb)
        .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"])
        .args(["--no-sync", "--no-instructions", "-D"])
        .arg(data)
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .map_err(StartError::io("run PostgreSQL's initdb"))?;
    if out.status.success() {
        return Ok(());
    }
    Err(StartError::Exited { log: String::from_utf8_lossy(&out.stderr).into_owned() })
}

fn copy(from: &Path, to: &Path, runner: Runner) -> io::Result<()> {
    let mode = fs::metadata(from)?.mode() & 0o777;
    fs::DirBuilder::new().mode(mode).create(to)?;
    runner.own(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, runner)?;
        } else {
            fs::copy(entry.path(), &target)?;
            runner.own(&target)?;
        }
    }
    // The mask of new files may have taken something from it, and the server insists on it.
    fs::set_permissions(to, fs::Permissions::from_mode(mode))
}
