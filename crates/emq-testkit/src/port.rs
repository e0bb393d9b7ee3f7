//! A port that no other server of this crate has, for as long as its owner lives.
//!
//! Asking the kernel for a free port and giving it back isn't enough: between a kill and a restart
//! another test could be given the same one. So each port has a lock file, held for the server's
//! whole life and let go by the kernel when the owner dies. Ports are taken from below the range
//! that outgoing connections use.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use crate::StartError;

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
/// Enough to find a free one on a machine with most of the range in use.
const TRIES: u16 = 2_000;

/// A port of our own.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: Option<File>,
}

impl Port {
    /// Any free port.
    pub(crate) fn any() -> Result<Self, StartError> {
        // A random start, so that servers started at once don't fight over the same ports.
        #[allow(clippy::cast_possible_truncation)] // A remainder of COUNT fits.
        let start = (RandomState::new().hash_one(0) % u64::from(COUNT)) as u16;
        (0..TRIES).find_map(|step| Self::take(FIRST + (start + step) % COUNT)).ok_or_else(|| {
            StartError::NoPort { detail: format!("tried {TRIES} from {}", FIRST + start) }
        })
    }

    /// This port, or an error when somebody has it.
    pub(crate) fn exactly(number: u16) -> Result<Self, StartError> {
        Self::take(number)
            .ok_or_else(|| StartError::NoPort { detail: format!("{number} is taken") })
    }

    fn take(number: u16) -> Option<Self> {
        let lock = lock(number)?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _lock: lock })
    }
}

/// `None` when another server has the port; `Some(None)` when no lock can be had at all (a lock
/// file of another user): then the bind alone decides.
#[allow(clippy::option_option)] // Two different absences, only used here.
fn lock(number: u16) -> Option<Option<File>> {
    let dir = std::env::temp_dir().join("emq-testkit-ports");
    let opened = fs::create_dir_all(&dir).and_then(|()| File::create(dir.join(number.to_string())));
    let Ok(file) = opened else { return Some(None) };
    match file.try_lock() {
        Ok(()) => Some(Some(file)),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(_)) => Some(None),
    }
}
