//! From the command line to a bus.

use std::time::Duration;

use emq_core::{Bus, Queue};

use crate::exit::{Exit, Failure};
use crate::output::Colour;

/// How long the first connect may take, all of its steps together.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Globals {
    /// The server: valkey://[user[:password]@]host[:port][/db] or valkey+unix:///path
    #[arg(long, env = "EMQ_URL", hide_env_values = true, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// Write JSON instead of tables: one value, or one a line where a command tells as it goes
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
    /// The URL as it was given.
    pub(crate) fn url(&self) -> Result<&str, Failure> {
        let url = self.url.as_deref().filter(|url| !url.is_empty());
        url.ok_or_else(|| {
            Failure::new(Exit::Usage, "no server is named: give --url or set EMQ_URL")
        })
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

    /// Connects and names a queue.
    pub(crate) async fn queue(&self, name: &str) -> Result<Queue, Failure> {
        Ok(self.connect().await?.queue(name)?)
    }
}
