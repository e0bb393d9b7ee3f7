//! From the command line to a bus.

use std::time::Duration;

use emq_core::{Bus, Queue};

use crate::exit::{Exit, Failure};
use crate::output::{Colour, Out};

/// How long the first connect may take, all of its steps together.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Globals {
    /// The server: valkey://user:password@host:port/db, of which only the host must be there, or
    /// valkey+unix:///path
    #[arg(long, env = "EMQ_URL", hide_env_values = true, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// Write JSON: one value, or one a line where a command tells as it goes
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) colour: Colour,

    /// Let in a server that isn't Valkey and speaks its language
    #[arg(long, global = true)]
    pub(crate) allow_compatible: bool,
}

impl Globals {
    /// How to write.
    pub(crate) fn out(&self) -> Out {
        Out::new(self.json, self.colour)
    }

    /// The URL as it was given.
    pub(crate) fn url(&self) -> Result<&str, Failure> {
        let url = self.url.as_deref().filter(|url| !url.is_empty());
        url.ok_or_else(|| Failure::usage("no server is named: give --url or set EMQ_URL"))
    }

    /// Connects and passes the fence.
    pub(crate) async fn connect(&self) -> Result<Bus, Failure> {
        let builder = Bus::builder(self.url()?)?.allow_compatible(self.allow_compatible);
        match tokio::time::timeout(CONNECT_WITHIN, builder.connect()).await {
            Ok(bus) => Ok(bus?),
            Err(_) => Err(Failure::new(
                Exit::Unreachable,
                format!("the server did not answer within {} s", CONNECT_WITHIN.as_secs()),
            )),
        }
    }

    /// Connects and names a queue, which need not be there.
    pub(crate) async fn queue(&self, name: &str) -> Result<Queue, Failure> {
        // A wrong name is found before a server is looked for.
        let name = emq_keys::QueueName::new(name).map_err(emq_core::Error::from)?;
        Ok(self.connect().await?.queue(name.as_str())?)
    }

    /// Connects and names a queue that must be there.
    pub(crate) async fn known_queue(&self, name: &str) -> Result<Queue, Failure> {
        let queue = self.queue(name).await?;
        if queue.exists().await? {
            return Ok(queue);
        }
        Err(Failure::new(
            Exit::NotFound,
            format!("there is no queue {name:?}: it has no job and no setting; see emq ls"),
        ))
    }

    /// Connects and names a queue for a setting: one that is there, or a new one when told so. A
    /// mistyped name would look like a queue that was paused.
    pub(crate) async fn queue_to_set(&self, name: &str, new: bool) -> Result<Queue, Failure> {
        if new {
            return self.queue(name).await;
        }
        let known = self.known_queue(name).await;
        known.map_err(|failure| match failure.exit() {
            Exit::NotFound => failure.and("; --new sets it all the same"),
            _ => failure,
        })
    }
}
