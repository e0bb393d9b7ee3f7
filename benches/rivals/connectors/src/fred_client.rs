//! The crate `fred`.

use fred::interfaces::{ClientLike, KeysInterface};
use fred::prelude::{Client as Connection, Config};

use crate::work::{Client, Failure, KEY, VALUE};

/// Its client, which clones share.
#[derive(Clone)]
pub(crate) struct Fred(Connection);

impl Client for Fred {
    const NAME: &'static str = "fred";
    const VERSION: &'static str = "10.1.0";

    async fn connect(url: &str) -> Result<Self, Failure> {
        let client = Connection::new(Config::from_url(url)?, None, None, None);
        client.init().await?;
        Ok(Self(client))
    }

    async fn set(&self) -> Result<(), Failure> {
        Ok(self.0.set(KEY, VALUE, None, None, false).await?)
    }

    async fn pipeline(&self, depth: usize) -> Result<(), Failure> {
        let pipeline = self.0.pipeline();
        for _ in 0..depth {
            let _: () = pipeline.set(KEY, VALUE, None, None, false).await?;
        }
        let _: Vec<String> = pipeline.all().await?;
        Ok(())
    }
}
