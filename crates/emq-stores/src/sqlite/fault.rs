//! What SQLite refuses, as a store's error.

use std::error::Error as StdError;
use std::sync::Arc;

use rusqlite::ErrorCode;

use crate::error::StoreError;

/// Busy, locked, or interrupted: the same call may succeed later.
impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        let passes = passes(&error);
        sorted(passes, error)
    }
}

/// One failed commit, told to each caller that shared it.
pub(super) fn shared(error: &Arc<rusqlite::Error>) -> StoreError {
    sorted(passes(error), Arc::clone(error))
}

/// What is in a table that no statement of ours writes.
pub(super) fn foreign(error: impl StdError + Send + Sync + 'static) -> StoreError {
    StoreError::Database(Box::new(error))
}

fn sorted(passes: bool, error: impl StdError + Send + Sync + 'static) -> StoreError {
    match passes {
        true => StoreError::Unavailable(Box::new(error)),
        false => StoreError::Database(Box::new(error)),
    }
}

pub(super) fn passes(error: &rusqlite::Error) -> bool {
    use ErrorCode::{
        DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed, OperationInterrupted,
    };
    let code = error.sqlite_error_code();
    code.is_some_and(|code| {
        matches!(
            code,
            DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed | OperationInterrupted
        )
    })
}
