//! What a client's error means to a caller: whether the same call may succeed later.

use crate::error::StoreError;

/// The classes of SQLSTATE that say something of the moment and not of the statement: lost
/// connections, lost races, a server without room, and one that is shut down or was told to stop.
const OF_THE_MOMENT: [&str; 5] = ["08", "40", "53", "57", "58"];
/// Single ones of other classes: a lock not had in time, a session ended because it idled, and a
/// server that is a standby until the next fail-over.
const OF_THE_MOMENT_TOO: [&str; 3] = ["55P03", "25P03", "25006"];

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Sorts an error that the server gave a SQLSTATE.
fn by_code(code: &str, cause: Cause) -> StoreError {
    let class = code.get(..2).unwrap_or_default();
    if OF_THE_MOMENT.contains(&class) || OF_THE_MOMENT_TOO.contains(&code) {
        StoreError::Unavailable(cause)
    } else {
        StoreError::Database(cause)
    }
}

#[cfg(feature = "tokio-postgres")]
pub(super) fn of_tokio(error: tokio_postgres::Error) -> StoreError {
    use std::error::Error;

    if let Some(code) = error.code() {
        let code = code.code().to_owned();
        return by_code(&code, error.into());
    }
    // Without a code: a connection that is closed or was not had in time has no cause or one of
    // the system's; what can't be encoded, decoded or agreed upon has another.
    match error.source() {
        None => StoreError::Unavailable(error.into()),
        Some(cause) if cause.is::<std::io::Error>() => StoreError::Unavailable(error.into()),
        Some(_) => StoreError::Database(error.into()),
    }
}

#[cfg(feature = "tokio-postgres")]
pub(super) fn of_deadpool(error: deadpool_postgres::PoolError) -> StoreError {
    use deadpool_postgres::PoolError;

    match error {
        PoolError::Backend(error) => of_tokio(error),
        PoolError::Closed => StoreError::Closed,
        PoolError::Timeout(_) => StoreError::Unavailable(error.into()),
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            StoreError::Database(error.into())
        }
    }
}

#[cfg(feature = "sqlx")]
pub(super) fn of_sqlx(error: sqlx::Error) -> StoreError {
    match &error {
        sqlx::Error::Database(told) => {
            let code = told.code().unwrap_or_default().into_owned();
            by_code(&code, error.into())
        }
        sqlx::Error::PoolClosed => StoreError::Closed,
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => {
            StoreError::Unavailable(error.into())
        }
        _ => StoreError::Database(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_race_may_be_repeated_and_a_wrong_statement_not() {
        for code in ["40001", "40P01", "57P01", "57014", "08006", "53300", "55P03", "25006"] {
            assert!(by_code(code, "".into()).is_retryable(), "{code}");
        }
        for code in ["42P01", "23505", "22021", "25P02", "28P01", "54000", ""] {
            assert!(!by_code(code, "".into()).is_retryable(), "{code}");
        }
    }
}
