//! Rung 3.6's other side: a rival of the class of transactional enqueue, and the referee between.

use emq_testkit::{Database, Postgres};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::ground::require;
use crate::referee::{self, StandIn};
use crate::{Failure, postgres, sh};

/// The rows that the referee compares here.
pub(super) const ROWS: &[&str] = &["enqueue_1by1", "process_c10"];

/// Each part is had when the first gate wants it.
#[derive(Default)]
pub(super) struct Contest {
    rival: OnceCell<StandIn>,
    server: OnceCell<Postgres>,
    referee: OnceCell<String>,
}

impl Contest {
    pub(super) async fn rival(&self) -> Result<&StandIn, Failure> {
        self.rival.get_or_try_init(async || tokio::task::block_in_place(referee::stand_in)).await
    }

    /// An empty database on the rival's server.
    pub(super) async fn database(&self) -> Result<Database, Failure> {
        let start = async || {
            postgres::ensure()?;
            Ok::<_, Failure>(Postgres::start_or_shared()?)
        };
        Ok(self.server.get_or_try_init(start).await?.database()?)
    }

    /// What a short run of the referee prints, ours beside the rival.
    pub(super) async fn referee(&self) -> Result<&str, Failure> {
        let rival = self.rival().await?;
        let run = async || tokio::task::block_in_place(|| referee::short_run(rival, ROWS));
        Ok(self.referee.get_or_try_init(run).await?)
    }

    /// Has the rival play one row on an empty database. Answers its versions and its line.
    pub(super) async fn play(&self, row: &str, n: usize) -> Result<(Value, Value), Failure> {
        let rival = self.rival().await?;
        let database = self.database().await?;
        let mut words = rival.command.split_whitespace();
        let mut command = sh::program(words.next().ok_or("the rival's command is empty")?);
        command
            .args(words)
            .env("DATABASE_URL", database.url())
            .env("REFEREE_ROWS", format!("{row}={n}"))
            .env_remove("REFEREE_URL");
        let printed = tokio::task::block_in_place(|| sh::output(&mut command))?;
        let lines: Result<Vec<Value>, _> = printed.lines().map(serde_json::from_str).collect();
        let mut lines = lines.map_err(|error| format!("{}: {error}: {printed}", rival.name))?;
        let line = lines.pop().filter(|line| line["row"] == row);
        let line = line.ok_or_else(|| format!("{} has no row {row}: {printed}", rival.name))?;
        let versions = lines.into_iter().next().ok_or("the rival told no versions")?;
        require(versions["row"] == "versions", || format!("{versions} comes first"))?;
        Ok((versions, line))
    }
}
