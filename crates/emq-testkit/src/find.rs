//! Where the server binary is.

use std::env;
use std::path::{Path, PathBuf};

use crate::StartError;

/// The release that `cargo xtask valkey install` puts into the cache.
pub const VALKEY_RELEASE: &str = "9.1.2.post2";

/// The server binary to run: `EMQ_VALKEY_SERVER`, then `valkey-server` on `PATH`, then the cache.
///
/// # Errors
/// [`StartError::NotFound`] when there is none, and [`StartError::NoSuchBinary`] when
/// `EMQ_VALKEY_SERVER` is set but isn't a file.
pub fn server_binary() -> Result<PathBuf, StartError> {
    if let Some(path) = env::var_os("EMQ_VALKEY_SERVER").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        return std::path::absolute(&path).ok().filter(|path| path.is_file()).ok_or_else(|| {
            StartError::NoSuchBinary {
                variable: "EMQ_VALKEY_SERVER",
                path: path.display().to_string(),
            }
        });
    }
    on_path("valkey-server")
        .or_else(|| cached_server().filter(|path| path.is_file()))
        .ok_or(StartError::NotFound)
}

/// Where the cached server is or would be; `None` when the machine names no place for a cache.
#[must_use]
pub fn cached_server() -> Option<PathBuf> {
    cache_dir().map(|dir| dir.join(format!("valkey-{VALKEY_RELEASE}")).join("valkey-server"))
}

/// The project's cache: `EMQ_CACHE`, else `XDG_CACHE_HOME/echomq`, else `HOME/.cache/echomq`.
///
/// It is outside the build's target directory, so that a fresh clone and the verification build of
/// a package find what was installed once.
#[must_use]
pub fn cache_dir() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("EMQ_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("echomq")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache").join("echomq")))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| is_program(file))
}

pub(crate) fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
