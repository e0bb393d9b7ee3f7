//! Where PostgreSQL's programs are.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::StartError;
use crate::find::{cache_dir, is_program};

/// The release of the package that `cargo xtask postgres install` puts into the cache.
pub const POSTGRES_RELEASE: &str = "16.14.0-beta.17";
/// An older one on `PATH` is passed over: the tests and the figures are of this or a later one.
const OLDEST_MAJOR: u32 = 16;
/// Where root's cache goes when its own directory is closed to others.
const OPEN_CACHE: &str = "/var/cache/echomq";

/// PostgreSQL's programs.
#[derive(Clone, Debug)]
pub struct PostgresPrograms {
    /// `initdb`
    pub initdb: PathBuf,
    /// `postgres`
    pub postgres: PathBuf,
    /// Such as `16.14`.
    pub version: String,
}

impl PostgresPrograms {
    fn in_dir(dir: &Path) -> Option<Self> {
        // The programs find their libraries and their share from where they really are.
        let real = |name| fs::canonicalize(dir.join(name)).ok().filter(|file| is_program(file));
        let (initdb, postgres) = (real("initdb")?, real("postgres")?);
        let told = Command::new(&postgres).arg("--version").output().ok()?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let version = told.split_whitespace().find(|word| word.starts_with(char::is_numeric))?;
        Some(Self { initdb, postgres, version: version.to_owned() })
    }

    fn major(&self) -> u32 {
        let digits = self.version.split(|c: char| !c.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }
}

/// The programs to run: those in `EMQ_POSTGRES_BIN`, then those on `PATH` if they are of version
/// 16 or later, then the cache's.
///
/// # Errors
/// [`StartError::NoPostgres`] when there are none, and [`StartError::NoSuchBinary`] when
/// `EMQ_POSTGRES_BIN` is set but isn't a directory with `postgres` and `initdb`.
pub fn postgres_programs() -> Result<PostgresPrograms, StartError> {
    if let Some(dir) = env::var_os("EMQ_POSTGRES_BIN").filter(|dir| !dir.is_empty()) {
        let path = PathBuf::from(&dir);
        return PostgresPrograms::in_dir(&path).ok_or_else(|| StartError::NoSuchBinary {
            variable: "EMQ_POSTGRES_BIN",
            path: path.join("postgres").display().to_string(),
        });
    }
    on_path()
        .or_else(|| PostgresPrograms::in_dir(&cached_postgres()?.join("bin")))
        .ok_or(StartError::NoPostgres)
}

fn on_path() -> Option<PostgresPrograms> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|dir| dir.is_absolute() && dir.join("postgres").is_file())
        .filter_map(|dir| PostgresPrograms::in_dir(&dir))
        .find(|found| found.major() >= OLDEST_MAJOR && (!is_root() || is_open(&found.postgres)))
}

/// Where the cached package is or would be; `None` when the machine names no place for a cache.
///
/// PostgreSQL refuses to run as root, so root runs it as another user, who must be able to read the
/// package: where the usual cache is closed to others, root's is `/var/cache/echomq`.
#[must_use]
pub fn cached_postgres() -> Option<PathBuf> {
    let cache = cache_dir()?;
    let cache = if is_root() && !is_open(&cache) { PathBuf::from(OPEN_CACHE) } else { cache };
    Some(cache.join(format!("postgres-{POSTGRES_RELEASE}")))
}

/// Whether any user can get there: each directory that exists lets others through.
pub(crate) fn is_open(path: &Path) -> bool {
    path.ancestors()
        .filter_map(|part| part.metadata().ok())
        .all(|meta| meta.permissions().mode() & 0o001 != 0)
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_directory_on_the_way_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_open(&inner.join("not there yet")));
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!is_open(&inner));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let of = |version: &str| {
            let nowhere = PathBuf::new();
            let version = version.to_owned();
            PostgresPrograms { initdb: nowhere.clone(), postgres: nowhere, version }.major()
        };
        assert_eq!((of("9.6.24"), of("16.14"), of("18beta1"), of("x")), (9, 16, 18, 0));
    }
}
