//! The thread that owns the connection, and commits that several callers share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use rusqlite::{Connection, Transaction, TransactionBehavior, ffi};
use tokio::sync::mpsc;

use super::fault::shared;
use crate::error::StoreError;
use crate::reply::Reply;

/// How many callers may share a commit.
const GROUP_MAX: usize = 64;

/// What a handle asks for.
pub(super) enum Request {
    /// Work that has the connection to itself.
    Alone(Box<dyn FnOnce(&mut Connection) + Send>),
    /// Work that may share a commit.
    Write(Box<dyn Member>),
}

/// One caller's part of a commit.
pub(super) trait Member: Send {
    /// Whether its caller still waits.
    fn is_awaited(&self) -> bool;

    /// Does its work. Answers whether that shall be kept.
    fn run(&mut self, tx: &Transaction<'_>) -> bool;

    /// Tells its caller what became of it, and of the commit.
    fn settle(self: Box<Self>, failure: Option<&Arc<rusqlite::Error>>);
}

/// Work whose answer goes to a caller once it is committed.
pub(super) struct Write<T, F> {
    work: Option<F>,
    outcome: Option<thread::Result<Result<T, StoreError>>>,
    reply: Reply<Result<T, StoreError>>,
}

impl<T, F> Write<T, F> {
    pub(super) fn new(work: F, reply: Reply<Result<T, StoreError>>) -> Write<T, F> {
        Write { work: Some(work), outcome: None, reply }
    }
}

impl<T, F> Member for Write<T, F>
where
    T: Send,
    F: FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send,
{
    fn is_awaited(&self) -> bool {
        self.reply.is_awaited()
    }

    fn run(&mut self, tx: &Transaction<'_>) -> bool {
        let Some(work) = self.work.take() else { return false };
        let outcome = catch_unwind(AssertUnwindSafe(|| work(tx)));
        let is_kept = matches!(outcome, Ok(Ok(_)));
        self.outcome = Some(outcome);
        is_kept
    }

    /// When the commit failed, what its work answered may rest on what others wrote before it and
    /// lost, so the caller is told of the commit instead; but a panic stays a panic, and what the
    /// database said to this one may be why the commit failed.
    fn settle(self: Box<Self>, failure: Option<&Arc<rusqlite::Error>>) {
        let answer = match (self.outcome, failure) {
            (Some(Err(panic)), _) => Err(panic),
            (Some(Ok(Err(own @ (StoreError::Database(_) | StoreError::Unavailable(_))))), _) => {
                Ok(Err(own))
            }
            (_, Some(error)) => Ok(Err(shared(error))),
            (Some(Ok(answer)), None) => Ok(answer),
            (None, None) => return, // It was not run, as nobody waited: the reply is dropped.
        };
        self.reply.send(answer);
    }
}

/// Serves the handles until the last of them is dropped.
pub(super) fn serve(mut connection: Connection, mut inbox: mpsc::Receiver<Request>) {
    let mut next = None;
    while let Some(request) = next.take().or_else(|| inbox.blocking_recv()) {
        match request {
            Request::Alone(work) => {
                work(&mut connection);
                close_transaction(&connection);
            }
            Request::Write(first) => {
                let mut group = vec![first];
                next = gather(&mut inbox, &mut group);
                commit(&mut connection, group);
            }
        }
    }
}

/// Takes the writes that wait already, and nothing else: a reader sees only what is committed.
/// Answers a request that isn't one of them.
fn gather(
    inbox: &mut mpsc::Receiver<Request>,
    group: &mut Vec<Box<dyn Member>>,
) -> Option<Request> {
    while group.len() < GROUP_MAX {
        match inbox.try_recv().ok()? {
            Request::Write(member) => group.push(member),
            other => return Some(other),
        }
    }
    None
}

/// Commits a group, and only then tells its callers.
fn commit(connection: &mut Connection, mut group: Vec<Box<dyn Member>>) {
    group.retain(|member| member.is_awaited());
    if group.is_empty() {
        return;
    }
    let failure = run(connection, &mut group).err().map(Arc::new);
    for member in group {
        member.settle(failure.as_ref());
    }
}

/// One transaction, and a savepoint in it for each member: what one of them did is undone without
/// the others.
fn run(connection: &mut Connection, group: &mut [Box<dyn Member>]) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for member in group {
        execute(&tx, "SAVEPOINT emq_member")?;
        let is_kept = member.run(&tx);
        if tx.is_autocommit() {
            // SQLite undid all of it, as it does when the disk is full.
            let lost = "the transaction was rolled back by the database".to_owned();
            let code = ffi::Error::new(ffi::SQLITE_ABORT);
            return Err(rusqlite::Error::SqliteFailure(code, Some(lost)));
        }
        if !is_kept {
            execute(&tx, "ROLLBACK TO emq_member")?;
        }
        execute(&tx, "RELEASE emq_member")?;
    }
    tx.commit()
}

pub(super) fn execute(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute(()).map(|_| ())
}

/// Undoes what a caller's own statements left open.
fn close_transaction(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = connection.execute_batch("ROLLBACK")
    {
        tracing::error!(%error, "a transaction that a caller left open can't be undone");
    }
}
