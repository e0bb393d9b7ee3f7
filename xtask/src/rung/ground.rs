//! Where a rung stands: a Valkey of its own, and the small questions that gates ask of it.

use std::time::Duration;

use emq_core::{Bus, Queue};
use emq_scripts::{FenceOptions, Fenced};
use emq_testkit::Valkey;
use emq_wire::{Cmd, Config, Connection, Reply};

use super::contest::Contest;
use super::shelves::Shelves;
use crate::Failure;
use crate::books::Backing;

/// The server of one rung. Gates that plant versions or stop a server start one of their own.
pub(super) struct Ground {
    valkey: Valkey,
    shelves: Shelves,
    contest: Contest,
}

impl Ground {
    /// `asked` is the one kind of store that gates with stores shall use.
    pub(super) fn start(asked: Option<Backing>) -> Result<Self, Failure> {
        Ok(Self {
            valkey: Valkey::start()?,
            shelves: Shelves::new(asked),
            contest: Contest::default(),
        })
    }

    /// The kinds of stores, and where they are opened.
    pub(super) fn shelves(&self) -> &Shelves {
        &self.shelves
    }

    /// The rival, and what the referee says of it.
    pub(super) fn contest(&self) -> &Contest {
        &self.contest
    }

    pub(super) fn valkey(&self) -> &Valkey {
        &self.valkey
    }

    pub(super) fn config(&self) -> Result<Config, Failure> {
        config_of(&self.valkey)
    }

    /// A plain connection.
    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        Ok(Connection::connect(self.config()?).await?)
    }

    /// A bus of one's own, and a queue on it.
    pub(super) async fn queue(&self, name: &str) -> Result<(Bus, Queue), Failure> {
        let bus = Bus::connect(&self.valkey.url()).await?;
        let queue = bus.queue(name)?;
        Ok((bus, queue))
    }

    /// Every key of a queue.
    pub(super) async fn keys(&self, queue: &Queue) -> Result<Vec<String>, Failure> {
        let pattern = format!("{}*", queue.keys().base());
        match self.connect().await?.command(Cmd::new("KEYS").arg(pattern)).await? {
            Reply::Array(keys) => Ok(keys
                .iter()
                .filter_map(Reply::as_bytes)
                .map(|key| String::from_utf8_lossy(key).into_owned())
                .collect()),
            other => Err(format!("{other:?} for KEYS").into()),
        }
    }

    /// Removes what a gate left in its queue.
    pub(super) async fn remove(&self, queue: &Queue) -> Result<(), Failure> {
        let keys = self.keys(queue).await?;
        if keys.is_empty() {
            return Ok(());
        }
        let mut del = Cmd::new("DEL");
        keys.iter().for_each(|key| del.push(key));
        self.connect().await?.command(del).await?;
        Ok(())
    }

    /// A connection that passed the fence.
    pub(super) async fn fenced(&self) -> Result<Fenced, Failure> {
        Ok(Fenced::connect(self.config()?, FenceOptions::default()).await?)
    }
}

pub(super) fn config_of(valkey: &Valkey) -> Result<Config, Failure> {
    let config: Config = valkey.url().parse()?;
    Ok(config.connect_timeout(Duration::from_secs(10)))
}

/// Fails a gate when something isn't so.
pub(super) fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// The integer that a reply must be.
pub(super) fn int(reply: &Reply) -> Result<i64, Failure> {
    reply.as_int().ok_or_else(|| format!("an integer was expected, not {reply:?}").into())
}
