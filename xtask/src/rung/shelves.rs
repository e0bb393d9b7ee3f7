//! The stores that a rung's gates run over, one after the other.

use std::pin::Pin;

use emq_testkit::{Postgres, StartError};
use tokio::sync::OnceCell;

use super::Finding;
use super::ground::Ground;
use crate::books::{Backing, Shelf};
use crate::{Failure, with_causes};

/// A gate's check over one kind of store.
pub(super) type OnShelf =
    for<'a> fn(&'a Ground, &'a Shelf) -> Pin<Box<dyn Future<Output = Finding> + Send + 'a>>;

/// The kinds of stores of a run. PostgreSQL is started when the first gate wants it.
pub(super) struct Shelves {
    asked: Option<Backing>,
    postgres: OnceCell<Option<Postgres>>,
}

impl Shelves {
    pub(super) fn new(asked: Option<Backing>) -> Shelves {
        Shelves { asked, postgres: OnceCell::new() }
    }

    /// What the gates run over, in words.
    pub(super) async fn words(&self) -> Result<String, Failure> {
        let mut words = Vec::new();
        for backing in self.kinds().await? {
            words.push(self.word(backing)?);
        }
        if self.asked.is_none() && self.server().await?.is_none() {
            words.push("no PostgreSQL answers here".to_owned());
        }
        Ok(words.join(", "))
    }

    async fn kinds(&self) -> Result<Vec<Backing>, Failure> {
        let server = self.server().await?;
        Ok(match (self.asked, server) {
            (Some(asked), _) => vec![asked],
            (None, Some(_)) => vec![Backing::Memory, Backing::Sqlite, Backing::Postgres],
            (None, None) => vec![Backing::Memory, Backing::Sqlite],
        })
    }

    /// The server; `None` when nobody asked for it and the machine has none.
    async fn server(&self) -> Result<Option<&Postgres>, Failure> {
        let start = async || -> Result<Option<Postgres>, Failure> {
            match self.asked {
                Some(Backing::Memory | Backing::Sqlite) => return Ok(None),
                Some(Backing::Postgres) => drop(crate::postgres::ensure()?),
                None => {}
            }
            match Postgres::start_or_shared() {
                Ok(server) => Ok(Some(server)),
                Err(StartError::NoPostgres) if self.asked.is_none() => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        Ok(self.postgres.get_or_try_init(start).await?.as_ref())
    }

    fn word(&self, backing: Backing) -> Result<String, Failure> {
        match (backing, self.postgres.get()) {
            (Backing::Postgres, Some(Some(server))) => {
                Ok(format!("{} {}", backing.word(), server.version()?))
            }
            _ => Ok(backing.word().to_owned()),
        }
    }
}

/// Runs a check over each kind of store; what they all see alike is said once.
pub(super) async fn on_each(ground: &Ground, check: OnShelf) -> Finding {
    let shelves = ground.shelves();
    let mut seen: Vec<(String, Vec<&str>)> = Vec::new();
    for backing in shelves.kinds().await? {
        let shelf = Shelf::open(backing, shelves.server().await?).await?;
        let found = check(ground, &shelf).await;
        let words = found.map_err(|failure| -> Failure {
            format!("{}: {}", backing.word(), with_causes(failure.as_ref())).into()
        })?;
        match seen.iter_mut().find(|(same, _)| *same == words) {
            Some((_, stores)) => stores.push(backing.word()),
            None => seen.push((words, vec![backing.word()])),
        }
    }
    let lines = seen.into_iter().map(|(words, stores)| format!("{}: {words}", stores.join(", ")));
    Ok(lines.collect::<Vec<_>>().join("; "))
}
