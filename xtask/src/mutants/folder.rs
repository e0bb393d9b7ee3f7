//! A bundle in a folder of its own, whole or with one mutant in it.

use std::fs;
use std::path::Path;

use emq_testkit::Valkey;
use tempfile::TempDir;

use super::table::Mutant;
use crate::{Failure, sh};

/// A copy of the bundle; it goes with the value.
pub(super) struct Folder(TempDir);

impl Folder {
    /// The bundle as it is.
    pub(super) fn whole() -> Result<Folder, Failure> {
        let dir = tempfile::tempdir()?;
        for entry in fs::read_dir(sh::root().join("lua"))? {
            let path = entry?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                fs::copy(&path, dir.path().join(name))?;
            }
        }
        Ok(Folder(dir))
    }

    /// The bundle with one change, which the server must be able to load: one that it can't would
    /// be noticed by everybody.
    pub(super) fn broken(mutant: &Mutant, valkey: &Valkey) -> Result<Folder, Failure> {
        let folder = Folder::whole()?;
        let path = folder.path().join(mutant.file());
        let text = mutant.apply(&fs::read_to_string(&path)?)?;
        valkey
            .cli(&["SCRIPT", "LOAD", &text])
            .map_err(|e| format!("{} does not load: {e}", mutant.name))?;
        fs::write(&path, text)?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}
