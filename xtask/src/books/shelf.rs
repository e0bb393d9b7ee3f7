//! Where books are kept: in memory, in an SQLite file, in a PostgreSQL database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use emq_stores::Store;
use emq_stores::memory::Memory;
use emq_stores::postgres;
use emq_stores::sqlite::Sqlite;
use emq_stores::supervisor::{Owner, Supervisor};
use emq_testkit::{Database, Postgres};

use super::{Books, ORDER, PORTFOLIO, SharedBooks};
use crate::Failure;

/// Connections of one program to PostgreSQL.
const CONNECTIONS: usize = 8;

/// What keeps the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Backing {
    Memory,
    Sqlite,
    Postgres,
}

impl Backing {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Backing::Memory => "memory",
            Backing::Sqlite => "sqlite",
            Backing::Postgres => "postgres",
        }
    }
}

/// Where another process finds the same books.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    File(PathBuf),
    Url(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Url(url) => url.fmt(f),
        }
    }
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.starts_with("postgres") {
            true => Place::Url(text.to_owned()),
            false => Place::File(text.into()),
        })
    }
}

/// Books, and what they need to be there.
pub(crate) struct Shelf {
    pub(crate) books: SharedBooks,
    backing: Backing,
    /// Of the stores in memory, which are served by a task.
    served: Option<[Owner; 2]>,
    /// Goes with the shelf, after the books.
    home: Home,
}

enum Home {
    None,
    Directory(tempfile::TempDir),
    Database(Database),
}

impl Shelf {
    /// New, empty books. PostgreSQL's are in a database of their own on `server`.
    pub(crate) async fn open(
        backing: Backing,
        server: Option<&Postgres>,
    ) -> Result<Shelf, Failure> {
        match backing {
            Backing::Memory => Ok(in_memory()),
            Backing::Sqlite => {
                let directory = tempfile::Builder::new().prefix("emq-books-").tempdir()?;
                let books = on_file(&directory.path().join("desk.db")).await?;
                Ok(Shelf { books, backing, served: None, home: Home::Directory(directory) })
            }
            Backing::Postgres => {
                let server = server.ok_or("no PostgreSQL server runs for these books")?;
                let database = server.database()?;
                let books = at_url(&database.url()).await?;
                let home = Home::Database(database);
                Ok(Shelf { books, backing, served: None, home })
            }
        }
    }

    /// The books that another process keeps, too.
    pub(crate) async fn join(place: &Place) -> Result<SharedBooks, Failure> {
        match place {
            Place::File(path) => on_file(path).await,
            Place::Url(url) => at_url(url).await,
        }
    }

    /// Where another process finds them; not those in memory.
    pub(crate) fn place(&self) -> Option<Place> {
        match &self.home {
            Home::Directory(directory) => Some(Place::File(directory.path().join("desk.db"))),
            Home::Database(database) => Some(Place::Url(database.url())),
            Home::None => None,
        }
    }

    pub(crate) fn word(&self) -> &'static str {
        self.backing.word()
    }

    /// Does something with the books while no tree serves them: rows in memory are there only
    /// while one does.
    pub(crate) async fn with_rows<T>(
        &self,
        doing: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let tree = self.owners().into_iter().fold(Supervisor::new(), Supervisor::owner).start()?;
        tree.ready().await?;
        let done = doing.await;
        drop(tree);
        done
    }

    /// The stores as owners of a tree.
    pub(crate) fn owners(&self) -> [Owner; 2] {
        self.served.clone().unwrap_or_else(|| {
            [
                Owner::store("orders", self.books.orders.clone()),
                Owner::store("positions", self.books.positions.clone()),
            ]
        })
    }
}

fn in_memory() -> Shelf {
    let (orders, order_rows) = Memory::open(ORDER);
    let (positions, position_rows) = Memory::open(PORTFOLIO);
    let books = Books { orders: Store::new(orders), positions: Store::new(positions) };
    let served = [
        Owner::serving("orders", move || order_rows.clone().run()),
        Owner::serving("positions", move || position_rows.clone().run()),
    ];
    Shelf {
        books: Arc::new(books),
        backing: Backing::Memory,
        served: Some(served),
        home: Home::None,
    }
}

async fn on_file(path: &Path) -> Result<SharedBooks, Failure> {
    let db = Sqlite::open(path).await?;
    Ok(Arc::new(Books { orders: db.store(ORDER), positions: db.store(PORTFOLIO) }))
}

async fn at_url(url: &str) -> Result<SharedBooks, Failure> {
    let db = postgres::Postgres::tokio(url, CONNECTIONS)?;
    db.migrate().await?;
    let (orders, positions) = (db.store(ORDER), db.store(PORTFOLIO));
    Ok(Arc::new(Books { orders: Store::new(orders), positions: Store::new(positions) }))
}
