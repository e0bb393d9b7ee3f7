//! The handle on a database file, and how it is opened.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use emq_keys::Namespace;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::mpsc;

use super::fault::{foreign, passes};
use super::schema::prepare;
use super::store::SqliteStore;
use super::thread::{Request, Write, serve};
use crate::error::StoreError;
use crate::reply::reply;
use crate::store::Store;

/// How many requests wait for the thread; further callers wait to be let in.
const QUEUE_BOUND: usize = 256;

/// How many statements the connection keeps prepared: all of ours, and some of the user's.
const STATEMENTS_KEPT: usize = 64;

/// How long a call waits for another process that writes, unless said.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Synchronous {
    /// Until the disk has it: what was absorbed is there after a power cut.
    #[default]
    Full,
    /// Until the operating system has it. It is there after the process was killed; a power cut may
    /// undo the newest commits. **A job whose effect is undone so, but which is gone from the bus,
    /// is lost**: choose it only where that is acceptable.
    Normal,
}

/// How a database is opened.
#[derive(Clone, Debug)]
pub struct SqliteBuilder {
    path: PathBuf,
    synchronous: Synchronous,
    busy_timeout: Duration,
}

impl SqliteBuilder {
    /// What a commit waits for ([`Synchronous::Full`] unless said).
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// How long a call waits for another process that writes, before it is
    /// [`StoreError::Unavailable`] (5 s unless said). Other calls wait behind it.
    #[must_use]
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout;
        self
    }

    /// Opens the file, or makes it, and the tables in it.
    ///
    /// # Errors
    /// [`StoreError::Schema`] when the tables are of a newer version, [`StoreError::Unavailable`]
    /// when others keep it busy, [`StoreError::Database`] for a file that is no database.
    pub async fn open(self) -> Result<Sqlite, StoreError> {
        let (reply, awaited) = reply();
        let (requests, inbox) = mpsc::channel(QUEUE_BOUND);
        let path = self.path.clone();
        let own = move || {
            let opened = catch_unwind(AssertUnwindSafe(|| self.connect()));
            let (connection, answer) = match opened {
                Ok(Ok(connection)) => (Some(connection), Ok(Ok(()))),
                Ok(Err(error)) => (None, Ok(Err(error))),
                Err(panic) => (None, Err(panic)),
            };
            reply.send(answer);
            if let Some(connection) = connection {
                serve(connection, inbox);
            }
        };
        thread::Builder::new().name("emq-sqlite".to_owned()).spawn(own).map_err(foreign)?;
        awaited.answer().await??;
        Ok(Sqlite { path, requests })
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let mut connection = Connection::open(&self.path)?;
        connection.busy_timeout(self.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        self.write_ahead(&connection)?;
        // With `fullfsync`, macOS too waits until the disk has it; elsewhere it changes nothing.
        connection.execute_batch(match self.synchronous {
            Synchronous::Full => "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON;",
            Synchronous::Normal => "PRAGMA synchronous = NORMAL;",
        })?;
        prepare(&mut connection)?;
        Ok(connection)
    }

    /// Readers and the writer don't block each other. The mode stays with the file. SQLite doesn't
    /// wait in every case when others are about to change it too, so this does.
    fn write_ahead(&self, connection: &Connection) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.busy_timeout;
        loop {
            let set = connection
                .query_row("PRAGMA journal_mode = WAL", (), |row| row.get::<_, String>(0));
            match set {
                Ok(mode) if mode == "wal" => return Ok(()),
                Ok(mode) => return Err(foreign(NoWriteAhead(mode))),
                Err(error) if passes(&error) && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no write-ahead log here but the journal mode {0}: give a file on a local disk")]
struct NoWriteAhead(String);

/// A database file that holds rows, and perhaps tables of the user's own. Cheap to clone; its
/// clones share one connection, on a thread of its own that ends with the last of them.
///
/// Absorbs and puts that wait at the same time share a commit, so that many callers pay for one
/// wait for the disk; each is answered once it is committed. Several processes may use one file.
///
/// ```
/// use emq_keys::namespace;
/// use emq_stores::{Absorbed, Store, sqlite::Sqlite};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let db = Sqlite::open(directory.path().join("desk.db")).await?;
/// let totals: Store<u64> = db.store(namespace!("TOT"));
/// let applied = totals.absorb("TOT0NgWEfAEJfs", "JOB0NgWEfAEJfs", |sum| *sum += 12).await?;
/// assert_eq!(applied, Absorbed::Applied);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Sqlite {
    path: PathBuf,
    requests: mpsc::Sender<Request>,
}

impl Sqlite {
    /// Opens a file, or makes it, and the tables in it. See [`Sqlite::builder`] for more choices.
    ///
    /// # Errors
    /// As [`SqliteBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Sqlite, StoreError> {
        Sqlite::builder(path).open().await
    }

    /// How a file is opened.
    pub fn builder(path: impl AsRef<Path>) -> SqliteBuilder {
        SqliteBuilder {
            path: path.as_ref().to_owned(),
            synchronous: Synchronous::default(),
            busy_timeout: BUSY_TIMEOUT,
        }
    }

    /// The rows of a kind. All stores of a kind on one file are one store.
    #[must_use]
    pub fn store<R>(&self, kind: Namespace) -> Store<R> {
        Store::new(SqliteStore::new(self, kind))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `f` in a transaction of its own (`BEGIN IMMEDIATE`), on the database's thread: what it
    /// writes is committed when it answers `Ok`, and undone when it answers an error or panics.
    /// [`SqliteStore::absorb_in`] lets it change rows in the same commit.
    ///
    /// When the caller goes away, it is committed wholly or not at all.
    ///
    /// ```
    /// # use emq_stores::{StoreError, sqlite::Sqlite};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let db = Sqlite::open(directory.path().join("desk.db")).await?;
    /// let orders = db
    ///     .transaction(|tx| {
    ///         tx.execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY)")?;
    ///         tx.execute("INSERT INTO orders VALUES ('a')", ())?;
    ///         Ok::<i64, StoreError>(tx.query_row("SELECT count(*) FROM orders", (), |r| r.get(0))?)
    ///     })
    ///     .await?;
    /// assert_eq!(orders, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// That of `f`; and [`StoreError`], as one of `f`'s kind.
    pub async fn transaction<T, E>(
        &self,
        f: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.with(move |connection| {
            let tx = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(StoreError::from)?;
            let answer = f(&tx)?;
            tx.commit().map_err(StoreError::from)?;
            Ok(answer)
        })
        .await
    }

    /// Runs `f` with the connection, on the database's thread, outside of any transaction. One that
    /// it leaves open is rolled back.
    ///
    /// # Errors
    /// That of `f`; and [`StoreError`], as one of `f`'s kind.
    pub async fn with<T, E>(
        &self,
        f: impl FnOnce(&mut Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (reply, awaited) = reply();
        let work = move |connection: &mut Connection| {
            if reply.is_awaited() {
                reply.send(catch_unwind(AssertUnwindSafe(|| f(connection))));
            }
        };
        self.send(Request::Alone(Box::new(work))).await?;
        awaited.answer().await?
    }

    /// Work that may share a commit.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, awaited) = reply();
        self.send(Request::Write(Box::new(Write::new(work, reply)))).await?;
        awaited.answer().await?
    }

    async fn send(&self, request: Request) -> Result<(), StoreError> {
        self.requests.send(request).await.map_err(|_| StoreError::Closed)
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.path).finish_non_exhaustive()
    }
}
