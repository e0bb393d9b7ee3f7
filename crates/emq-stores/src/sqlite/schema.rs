//! Our tables in a file that may be the user's too.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::StoreError;

/// What the versions of the stores' tables added, the first one first. A step that was released is
/// never changed.
const STORES: &[&str] = &["
    CREATE TABLE emq_rows (
        kind   TEXT NOT NULL,
        id     TEXT NOT NULL,
        body   BLOB NOT NULL,
        folded INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (kind, id)
    ) STRICT;
    -- A table of its own, so that remembering one more name doesn't cost what all of them do.
    CREATE TABLE emq_names (
        kind         TEXT NOT NULL,
        id           TEXT NOT NULL,
        job          TEXT NOT NULL,
        step         TEXT NOT NULL,
        contribution BLOB NOT NULL,
        PRIMARY KEY (kind, id, job, step)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE emq_horizons (
        kind    TEXT NOT NULL PRIMARY KEY,
        horizon TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
"];

/// Makes the stores' tables in a database, or brings them up to date. [`Sqlite::open`] does it
/// too: this is for a connection of the caller's own.
///
/// # Errors
/// [`StoreError::Schema`] when the tables are of a newer version; see [`StoreError`].
///
/// [`Sqlite::open`]: super::Sqlite::open
pub fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    migrate(connection, "stores", STORES)
}

/// Brings the tables of one part of this crate to the version that its steps make. The versions
/// are in a table of ours: `user_version` is the user's.
///
/// Of two processes that do it at once, one waits for the other's commit and finds it done.
pub(crate) fn migrate(
    connection: &mut Connection,
    part: &str,
    steps: &[&str],
) -> Result<(), StoreError> {
    if version(connection, part)? == steps.len() {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS emq_schema (
             part    TEXT NOT NULL PRIMARY KEY,
             version INTEGER NOT NULL
         ) STRICT, WITHOUT ROWID;",
    )?;
    let found = version(&tx, part)?;
    let known = steps.len();
    let missing = steps.get(found..).ok_or_else(|| newer(found, known))?;
    for step in missing {
        tx.execute_batch(step)?;
    }
    tx.execute(
        "INSERT INTO emq_schema (part, version) VALUES (?1, ?2)
         ON CONFLICT (part) DO UPDATE SET version = excluded.version",
        (part, i64::try_from(known).unwrap_or(i64::MAX)),
    )?;
    Ok(tx.commit()?)
}

/// The version of a part's tables; 0 when there are none.
fn version(connection: &Connection, part: &str) -> Result<usize, StoreError> {
    let is_there: bool = connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'emq_schema')",
        (),
        |row| row.get(0),
    )?;
    if !is_there {
        return Ok(0);
    }
    let find = "SELECT version FROM emq_schema WHERE part = ?1";
    let found: Option<i64> = connection.query_row(find, [part], |row| row.get(0)).optional()?;
    let found = found.unwrap_or(0);
    usize::try_from(found).map_err(|_| StoreError::Schema { found, known: 0 })
}

fn newer(found: usize, known: usize) -> StoreError {
    let number = |version| i64::try_from(version).unwrap_or(i64::MAX);
    StoreError::Schema { found: number(found), known: number(known) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "CREATE TABLE one (a TEXT) STRICT;";
    const TWO: &str = "ALTER TABLE one ADD COLUMN b TEXT;";

    fn columns(connection: &Connection) -> i64 {
        let count = "SELECT count(*) FROM pragma_table_info('one')";
        connection.query_row(count, (), |row| row.get(0)).unwrap()
    }

    #[test]
    fn an_older_version_is_brought_up_to_date_and_a_newer_one_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, "part", &[ONE]).unwrap();
        assert_eq!(columns(&connection), 1);
        migrate(&mut connection, "part", &[ONE, TWO]).unwrap();
        migrate(&mut connection, "part", &[ONE, TWO]).unwrap();
        assert_eq!(columns(&connection), 2);
        let refused = migrate(&mut connection, "part", &[ONE]);
        assert!(matches!(refused, Err(StoreError::Schema { found: 2, known: 1 })), "{refused:?}");
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, "part", &[ONE]).unwrap();
        let broken = migrate(&mut connection, "part", &[ONE, TWO, "CREATE nonsense"]);
        assert!(matches!(broken, Err(StoreError::Database(_))), "{broken:?}");
        assert_eq!(columns(&connection), 1);
        migrate(&mut connection, "part", &[ONE]).unwrap();
    }

    #[test]
    fn parts_have_versions_of_their_own() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, "part", &[ONE, TWO]).unwrap();
        migrate(&mut connection, "other", &["CREATE TABLE other (a TEXT) STRICT;"]).unwrap();
        prepare(&mut connection).unwrap();
    }
}
