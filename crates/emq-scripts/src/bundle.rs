//! The bundle: every script of the wire version, ready to be called.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use emq_wire::Script;

use crate::manifest::Manifest;
use crate::name::ScriptName;

const EMBEDDED_MANIFEST: &str = include_str!("../lua/manifest.toml");

/// The scripts of one bundle and its revision.
///
/// ```
/// use emq_scripts::{Bundle, ScriptName};
/// let bundle = Bundle::embedded();
/// assert_eq!(bundle.script(ScriptName::Claim).name(), "claim");
/// assert!(bundle.revision() >= 1);
/// ```
#[derive(Debug)]
pub struct Bundle {
    /// One for each of [`ScriptName::ALL`], in its order.
    scripts: Vec<Script>,
    revision: u32,
}

/// A folder that is no bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// A file can't be read.
    #[error("can't read {}; a bundle has one file a script and manifest.toml", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The manifest isn't one.
    #[error("the manifest of the bundle is malformed: {reason}; run `cargo xtask tidy --fix`")]
    Manifest {
        /// What is wrong.
        reason: String,
    },
}

impl Bundle {
    /// The bundle that was built in.
    #[must_use]
    pub fn embedded() -> Arc<Bundle> {
        static EMBEDDED: LazyLock<Arc<Bundle>> = LazyLock::new(|| {
            let manifest = Manifest::parse(EMBEDDED_MANIFEST).expect("a test reads this manifest");
            let scripts = ScriptName::ALL
                .iter()
                .map(|name| Script::new(name.as_str(), name.embedded()))
                .collect();
            Arc::new(Bundle { scripts, revision: manifest.revision })
        });
        Arc::clone(&EMBEDDED)
    }

    /// Reads a bundle from a folder at run time, without comparing digests: the seam through which
    /// tests run scripts that were broken on purpose.
    ///
    /// # Errors
    /// [`BundleError`] when a script or the manifest is missing or malformed.
    #[doc(hidden)]
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Arc<Bundle>, BundleError> {
        let read = |file: &str| {
            let path = dir.as_ref().join(file);
            fs::read_to_string(&path).map_err(|source| BundleError::File { path, source })
        };
        let manifest = Manifest::parse(&read("manifest.toml")?)?;
        let scripts = ScriptName::ALL
            .iter()
            .map(|name| Ok(Script::new(name.as_str(), read(manifest.file(*name)?)?)))
            .collect::<Result<_, BundleError>>()?;
        Ok(Arc::new(Bundle { scripts, revision: manifest.revision }))
    }

    /// A script.
    #[must_use]
    pub fn script(&self, name: ScriptName) -> &Script {
        &self.scripts[name as usize]
    }

    /// Every script, in the order of [`ScriptName::ALL`].
    #[must_use]
    pub fn scripts(&self) -> &[Script] {
        &self.scripts
    }

    /// The manifest's `rev`: it rises when a script's body is mended within one wire version.
    #[must_use]
    pub fn revision(&self) -> u32 {
        self.revision
    }
}
