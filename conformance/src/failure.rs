//! Why there is no report.

use std::io;

/// Why the contracts could not be driven. Each has an exit code, the same in every driver.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The keyspace belongs to another wire version.
    #[error("FENCE version expected {expected} found {found}")]
    FenceVersion {
        /// What the bundle speaks.
        expected: String,
        /// What stands in the keyspace.
        found: String,
    },
    /// The server is not one that the bundle runs on.
    #[error("FENCE engine found {0} needs valkey 7.2")]
    FenceEngine(String),
    /// The bundle's files are missing, or not those of the manifest.
    #[error("BUNDLE {0}")]
    Bundle(String),
    /// A file isn't a contract.
    #[error("CONTRACT {file}: {why}")]
    Contract {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A driver in another language can't be started.
    #[error("DRIVER {0}")]
    Port(String),
    /// The address can't be read.
    #[error("USAGE no address of a server: {0}")]
    Url(String),
    /// The server can't be reached, or went away.
    #[error("SERVER {0}")]
    Io(#[from] io::Error),
    /// The server answered what makes no sense.
    #[error("SERVER {0}")]
    Shape(String),
}

impl Failure {
    pub(crate) fn shape(why: &str) -> Self {
        Self::Shape(why.to_owned())
    }

    /// The exit code of a driver that ends so: 2 to 5.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Url(_) | Self::Contract { .. } => 2,
            Self::FenceVersion { .. } | Self::FenceEngine(_) => 3,
            Self::Bundle(_) => 4,
            Self::Io(_) | Self::Shape(_) | Self::Port(_) => 5,
        }
    }
}
